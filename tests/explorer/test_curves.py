"""Curves of the explorer against runs of all classes, limits and closed forms; own classes; the table of answers."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.dynamics.systems.finite_length import ExpansionWarning
from snapdyn.explorer.curves import QUICK_CLAIMS, RTOL, compute_curves, verdicts
from snapdyn.explorer.sliders import OwnSettings, Settings
from tests.helpers import EXAMPLES

PIXEL = 1 / 500  # of the height of a panel
SMALL = Settings(num_classes=3, vocab_size=8, common_probability=0.3, overlap=0.5, eta_Y=2.0, eta_Z=3.0)


def of_all_classes(system: type[sd.System], t: np.ndarray, **options: bool) -> sd.Trajectory:
    """A run of SMALL on all classes, one by one."""
    classes = sd.SequenceClasses(SMALL.classes.P, SMALL.classes.query, vocab_size=SMALL.vocab_size)
    every_class = system(classes, SMALL.eta_Y, SMALL.eta_Z)  # type: ignore[call-arg]
    return sd.integrate(every_class, t, rtol=1e-9, atol=1e-11, **options)


def test_curves_are_those_of_all_classes() -> None:
    """Assert attention under both systems, gamma by its definition w_n[n] (1 - alpha_n[n]), and the relative gain."""
    curves = compute_curves(SMALL, num_times=40)
    run = of_all_classes(sd.MeanField, curves.t, save_decoder=True)
    modified = of_all_classes(sd.ModifiedDecoder, curves.t)
    for shares, c in ((curves.attention, run.attention[:, 0]), (curves.attention_modified, modified.attention[:, 0])):
        for name, values in {"common": c[:, 0], "dominant": c[:, 1], "other": c[:, 2:21].sum(axis=1)}.items():
            assert shares[name] == pytest.approx(values, abs=0.1 * PIXEL)
            assert np.ptp(values) > 20 * PIXEL  # a constant would be noticed
    decoder, f = run.require_decoder(), run.attention[:, 0] / np.linalg.norm(run.attention[:, 0], axis=1)[:, None]
    w = (f * decoder.Y[:, decoder.rows, list(decoder.outputs).index(0)]).sum(axis=1)
    expected = {"gamma": w * -np.expm1(-run.loss), "gain": run.relative_gain(0, 1, 2)}
    for name, values in {"gamma": curves.gamma, "gain": curves.relative_gain}.items():
        assert np.abs(values - expected[name]).max() < 0.1 * PIXEL * np.ptp(expected[name]), name


def test_theorem_3_uses_the_growth_of_the_same_run() -> None:
    """Assert Eq. (11) with the growth factor of the dominant token, from attention alone."""
    curves = compute_curves(SMALL)
    c = curves.attention
    dominant, other = SMALL.distinct_probabilities
    # ln chi differs between tokens by the change of ln c; their logits sum to 0 over the 61 tokens of the query.
    change = {name: np.log(c[name] / start) for name, start in
              (("common", 0.3), ("dominant", dominant), ("other", 19 * other))}  # fmt: skip
    K = SMALL.num_classes
    shift = (change["common"] + K * (change["dominant"] + 19 * change["other"])) / (1 + 20 * K)
    chi = np.exp(2 * (change["dominant"] - shift))
    assert curves.relative_gain_theorem3 == pytest.approx(((dominant / other) ** 2 - 1) * chi, rel=1e-5)


def test_finite_sequences_that_are_too_short() -> None:
    """Assert a refusal before a run, and a note on a run that leaves the validity of the correction."""
    with pytest.raises(InputError, match="expected seq_len of at least"):
        compute_curves(Settings(num_classes=3, vocab_size=50, overlap=0.7, seq_len=5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExpansionWarning)  # the note is in place of the warning
        curves = compute_curves(Settings(num_classes=3, vocab_size=50, overlap=0.7, eta_Z=0.1, seq_len=9))
    assert "count_noise" in curves.note


@pytest.mark.parametrize(
    "settings",
    [
        Settings(num_classes=500, vocab_size=10**6, eta_Z=0.01),
        Settings(num_classes=10, eta_Z=50.0, seq_len=10**5),  # the default method would choose CVODE here
    ],
)
def test_runs_are_on_the_quotient(settings: Settings) -> None:
    """Assert finite curves at the ends of the sliders: attention of the three kinds of tokens sums to 1."""
    curves = compute_curves(settings)
    for shares in (curves.attention, curves.attention_modified):
        assert np.add.reduce(list(shares.values())) == pytest.approx(np.ones(curves.t.size), abs=1e-12)
    assert np.isfinite(curves.gamma).all()
    assert (curves.relative_gain > 0).all()
    assert curves.evaluations > 0


@pytest.mark.parametrize("optimizer", ["adam", "sign"])
def test_curves_of_a_rule_are_training_on_the_expectation(optimizer: str) -> None:
    """Assert attention and loss-free gain of `sgd` without batches; no times and no theory of gradient descent."""
    settings = Settings(3, 8, 0.3, 0.5, 0.1, 0.1, None, optimizer, 0.99, 0.8, 1e-3)
    curves = compute_curves(settings, num_times=40)
    classes = sd.SequenceClasses(settings.classes.P, settings.classes.query, vocab_size=8)
    rule = sd.Adam(0.8, 0.99, 1e-3) if optimizer == "adam" else optimizer
    run = sd.sgd(classes, 0.1, 0.1, 400, None, optimizer=rule, record=curves.t.astype(int))
    assert curves.t[-1] == 400
    assert curves.attention["dominant"] == pytest.approx(run.attention[:, 0, 1], abs=1e-9)
    assert curves.relative_gain == pytest.approx(run.relative_gain(0, 1, 2), rel=1e-6)
    assert not curves.marks
    assert np.isnan(curves.gamma_modified).all()
    other = sd.sgd(classes, 0.1, 0.1, 400, None, record=[400])
    assert abs(other.attention[-1, 0, 1] - curves.attention["dominant"][-1]) > 0.01
    with pytest.raises(InputError, match="at most 20 classes and infinite sequences with adam"):
        Settings(num_classes=30, optimizer="adam")
    with pytest.raises(InputError, match=r"expected epsilon .* received -1"):
        Settings(optimizer="adam", epsilon=-1.0)


def test_verdicts_are_those_of_check() -> None:
    """Assert that the answers are those of `sd.check` on the same classes, rates and length; at most 100 classes."""
    settings = Settings(num_classes=3, vocab_size=100, seq_len=1000)
    report = verdicts(settings)
    expected = sd.check(settings.classes, 1.0, 0.1, only=QUICK_CLAIMS, seq_len=1000)
    assert report.to_json() == expected.to_json()
    with pytest.raises(InputError, match="at most 100 classes to check statements on, received 200"):
        verdicts(Settings(num_classes=200), every=True)


SYMMETRIC = Settings(num_classes=4, vocab_size=100, eta_Z=0.5)


def table(settings: Settings) -> OwnSettings:
    """The classes of the sliders as a table that says nothing of its symmetry."""
    classes = settings.classes
    P = sd.SequenceClasses(classes.P.toarray(), classes.query, classes.next_token, vocab_size=classes.vocab_size)
    return OwnSettings(P, settings.eta_Y, settings.eta_Z)


def test_a_table_has_the_curves_of_its_symmetric_classes() -> None:
    """Assert every curve and the times, and attention under the modified decoder against its quadrature."""
    own, symmetric = compute_curves(table(SYMMETRIC), 2), compute_curves(SYMMETRIC)
    np.testing.assert_array_equal(own.t, symmetric.t)
    assert own.marks == pytest.approx(symmetric.marks)
    tolerance = {"rtol": 100 * RTOL, "atol": 100 * RTOL}
    for name, values in symmetric.named.items():
        np.testing.assert_allclose(own.named[name], values, **tolerance, err_msg=name)
    faster = compute_curves(table(replace(SYMMETRIC, eta_Z=1.0)), 2)
    assert not any(np.allclose(faster.named[name], symmetric.named[name], **tolerance) for name in faster.attention)


def test_classes_and_rates_are_those_of_the_file() -> None:
    """Assert classes, rates and verdicts of the example, its unequal priors, and a class of one distinct token."""
    own = OwnSettings.read(EXAMPLES / "check_own_classes.toml")
    assert (own.num_classes, own.eta_Y, own.eta_Z) == (4, 0.5, 0.001)
    first, last = compute_curves(own, 0), compute_curves(own, 3)
    assert first.marks["peak"] == pytest.approx(last.marks["peak"] / 2)  # class 0 is twice as frequent
    assert first.attention["dominant"][0] == pytest.approx(0.6)
    assert first.relative_gain[0] == pytest.approx((0.6 / 0.35) ** 2 - 1, rel=1e-4)
    assert np.isnan(last.relative_gain).all()
    assert verdicts(own)["lemma9"].status == "holds"


def test_where_theory_does_not_reach_it_says_so() -> None:
    """Assert a note in place of the theory for a shared next token, and a refusal of a class without distinct token."""
    shared = sd.SequenceClasses([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [0, 0], next_token=[1, 1], vocab_size=9)
    curves = compute_curves(OwnSettings(shared, 1.0, 0.1), 0)
    assert "received 2 classes for 1 next tokens" in curves.note
    assert np.isnan(curves.gamma_modified).all()
    assert np.isnan(curves.attention_modified["common"]).all()
    assert np.isfinite(curves.attention["common"]).all()
    without = sd.SequenceClasses([[0.5, 0.3, 0.2], [0.5, 0.5, 0.0]], [0, 0], vocab_size=9)
    with pytest.raises(InputError, match="received class 1, which has none; choose another"):
        compute_curves(OwnSettings(without, 1.0, 0.1), 1)
