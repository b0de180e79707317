"""Curves of the explorer against dense numpy, limits and closed forms; the table of answers."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import snapdyn as sd
from snapdyn.dynamics.systems.finite_length import ExpansionWarning
from snapdyn.errors import InputError
from snapdyn.explorer.curves import QUICK_CLAIMS, compute_curves, verdicts
from snapdyn.explorer.settings import Settings
from tests.dynamics.dense_reference import Instance, decoder_inputs, error_and_loss, mean_field

PIXEL = 1 / 500  # of the height of a panel
SMALL = Settings(num_classes=3, vocab_size=8, common_probability=0.3, overlap=0.5, eta_Y=2.0, eta_Z=3.0)


def dense_curves(settings: Settings, times: np.ndarray) -> dict[str, np.ndarray]:
    """The same quantities from a dense right-hand side, DOP853 of scipy at rtol 1e-10, and their definitions."""
    P, K = settings.classes.P.toarray(), settings.num_classes
    instance = Instance(P, np.zeros(K, int), np.arange(K), np.full(K, 1 / K), settings.vocab_size)
    shape = (instance.num_rows, settings.vocab_size)
    cut = shape[0] * shape[1]

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        Y, z = state[:cut].reshape(shape), state[cut:].reshape(1, -1)
        dY, dz, _ = mean_field(instance, Y, z, settings.eta_Y, settings.eta_Z)
        return np.concatenate([dY.ravel(), dz.ravel()])

    start = np.zeros(cut + P.shape[1])
    run = solve_ivp(rate, (0, times[-1]), start, "DOP853", t_eval=times, rtol=1e-10, atol=1e-12)
    found: dict[str, list[float]] = {name: [] for name in ("common", "dominant", "other", "gamma", "gain")}
    for state in run.y.T:
        Y, z = state[:cut].reshape(shape), state[cut:].reshape(1, -1)
        f = decoder_inputs(instance, z, residual=False)[0]
        c = f[0] / f[0].sum()
        logits = f @ Y
        error = error_and_loss(logits, instance.next_token)[0]
        found["common"].append(c[0])
        found["dominant"].append(c[1])
        found["other"].append(c[2:21].sum())
        found["gamma"].append(logits[0, 0] * error[0, 0])
        found["gain"].append((f[0, 1] / f[0, 2]) ** 2 - 1)
    return {name: np.array(values) for name, values in found.items()}


def test_curves_follow_the_dense_mean_field() -> None:
    """Assert attention, gamma and relative gain within a tenth of a pixel of a dense run and their definitions."""
    curves = compute_curves(SMALL, 40)
    dense = dense_curves(SMALL, curves.t)
    found = {**curves.attention, "gamma": curves.gamma, "gain": curves.relative_gain}
    for name, values in dense.items():
        height = 1.0 if name in curves.attention else np.ptp(values)
        assert np.abs(found[name] - values).max() < 0.1 * PIXEL * height, name
        assert np.ptp(values) > 20 * PIXEL * height, name  # a constant would be noticed


def test_modified_attention_is_that_of_the_modified_decoder() -> None:
    """Assert the dashed attention against an integration of Eq. (10) on all classes, one by one."""
    curves = compute_curves(SMALL, 30)
    dense = sd.SequenceClasses(SMALL.classes.P, SMALL.classes.query, vocab_size=SMALL.vocab_size)
    run = sd.integrate(sd.ModifiedDecoder(dense, SMALL.eta_Y, SMALL.eta_Z), curves.t, rtol=1e-9, atol=1e-11)
    c = run.attention[:, 0]
    for name, values in {"common": c[:, 0], "dominant": c[:, 1], "other": c[:, 2:21].sum(axis=1)}.items():
        assert curves.attention_modified[name] == pytest.approx(values, abs=1e-6)
        assert np.ptp(values) > 0.01


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
        Settings(num_classes=1000, vocab_size=10**6, eta_Z=0.01),
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


def test_verdicts_are_those_of_check() -> None:
    """Assert that the answers are those of `sd.check` on the same classes, rates and length; at most 100 classes."""
    settings = Settings(num_classes=3, vocab_size=100, seq_len=1000)
    report = verdicts(settings)
    expected = sd.check(settings.classes, 1.0, 0.1, only=QUICK_CLAIMS, seq_len=1000)
    assert report.to_json() == expected.to_json()
    with pytest.raises(InputError, match="at most 100 classes to check statements on, received 200"):
        verdicts(Settings(num_classes=200), every=True)
