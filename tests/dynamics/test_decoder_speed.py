"""Speed gamma_n of each class from the decoder of a run, and the time at which it peaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import (
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    Trajectory,
    integrate,
    load,
    log_times,
    random_classes,
    single_common_token,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.decoder_speed import class_logits, peak_times
from snapdyn.errors import InputError


def dense_speed(run: Trajectory) -> Floats:
    """w_n[n] (1 - alpha_n[n]), (N, S), by loops over times and classes and a softmax over all V outputs."""
    classes, decoder = run.require_classes(), run.require_decoder()
    speed = np.empty((run.t.size, classes.num_classes))
    for i in range(run.t.size):
        for n in range(classes.num_classes):
            f = run.attention[i, n] / np.linalg.norm(run.attention[i, n])
            w = np.full(classes.vocab_size, np.nan)
            for column, output in enumerate(decoder.outputs):
                logit = sum(f[l] * decoder.Y[i, decoder.rows[l], column] for l in np.flatnonzero(f))
                w[output if output >= 0 else np.isnan(w)] = logit
            correct = classes.next_token[n]
            alpha = np.exp(w - w.max())
            speed[i, n] = w[correct] * (1 - alpha[correct] / alpha.sum())
    return speed


def test_speed_equals_a_softmax_over_all_outputs() -> None:
    """Assert gamma_n of overlapping classes with unequal priors and a shared next token against dense loops."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(6), size=4) * (rng.random((4, 6)) < 0.8)
    classes = SequenceClasses(
        P / P.sum(axis=1, keepdims=True), query=[0, 0, 1, 1], next_token=[2, 3, 2, 7],
        prior=[0.1, 0.2, 0.3, 0.4], vocab_size=12,
    )  # fmt: skip
    run = integrate(MeanField(classes, 1.0, 0.5), [0.0, 0.5, 5.0, 50.0], save_decoder=True)
    found = class_logits(classes, run.attention_entries, *run.require_decoder()).speed
    assert np.ptp(found[-1]) > 0.01
    np.testing.assert_allclose(found[1:], dense_speed(run)[1:], rtol=1e-12)


@pytest.mark.parametrize("modified", [True, False])
def test_transition_of_unequal_priors_is_theorys(modified: bool) -> None:
    """Assert Lemma 9's t* of each class, by the modified flow and by the original one of orthogonal classes.

    Wrong theory: the end of the transition, t0.
    """
    prior = np.array([0.1, 0.2, 0.7])
    classes = SequenceClasses(np.eye(3), query=[0, 0, 0], prior=prior, vocab_size=500)
    run = integrate(FrozenDecoder(classes, 2.0, modified=modified), log_times(1.0, 1e3, 400))
    theory = analytic.transition_time(1, 500, 2.0) / prior  # each class for itself, on its clock s = p_n t
    wrong = analytic.transition_time(1, 500, 2.0, kind="end") / prior
    assert np.abs(run.transition / theory - 1).max() < 1e-4  # a parabola through points 0.017 apart in ln t
    assert np.abs(run.transition / wrong - 1).min() > 0.2


def test_parabola_converges() -> None:
    """Assert that the error of the peak falls with the distance of the saved times, at least as its square."""
    classes = single_common_token(num_classes=4, num_distinct=2, common_probability=0.3, vocab_size=100)
    system = MeanField(classes, 1.0, 0.2)
    peaks = [float(integrate(system, log_times(1.0, 1e3, number)).transition[0]) for number in (25, 100, 1600)]
    coarse, fine = np.abs(np.array(peaks[:2]) / peaks[2] - 1)
    assert fine < 1e-3
    assert coarse < 0.02


def test_decoder_is_made_again_or_saved() -> None:
    """Assert that a run without saved decoder gives the transition of the run with it, and keeps no decoder."""
    system = MeanField(random_classes(4), 1.0, 0.3)
    times = log_times(0.1, 1e3, 80)
    plain, saved = integrate(system, times), integrate(system, times, save_decoder=True)
    np.testing.assert_allclose(plain.transition, saved.transition, rtol=1e-9)
    assert plain.Y is None


def test_modified_decoder_uses_its_visits() -> None:
    """Assert Lemma 9's t* for Eq. (10), whose decoder is the function h of the visits."""
    classes = single_common_token(num_classes=5, num_distinct=2, common_probability=0.3, vocab_size=100)
    run = integrate(ModifiedDecoder(classes, 1.0, 0.1), log_times(1.0, 1e3, 300))
    np.testing.assert_allclose(run.transition, float(analytic.transition_time(5, 100, 1.0)), rtol=1e-4)


def test_no_peak_is_nan() -> None:
    """Assert NaN for a run that ends before the peak, starts after it, or has fewer than three times."""
    system = FrozenDecoder(SequenceClasses(np.eye(3), query=[0, 0, 0], vocab_size=50), 1.0)
    peak = float(analytic.transition_time(3, 50, 1.0))
    for times in ([0.0, peak / 9, peak / 3], [3 * peak, 5 * peak, 9 * peak], [peak / 2, peak]):
        assert np.isnan(integrate(system, times).transition).all()
    assert np.isfinite(integrate(system, [peak / 2, peak, 2 * peak]).transition).all()


def test_peak_of_a_parabola_is_its_vertex() -> None:
    """Assert the vertex between unevenly spaced times, in ln t, and in t when the first time is 0; NaN for a NaN."""
    t = np.array([0.5, 1.0, 3.0, 4.0])
    values = np.column_stack([-((np.log(t) - 0.4) ** 2), -((np.log(t) - 0.9) ** 2), np.full(4, np.nan)])
    np.testing.assert_allclose(peak_times(t, values), [np.exp(0.4), np.exp(0.9), np.nan], rtol=1e-13)
    t[0] = 0.0
    np.testing.assert_allclose(peak_times(t, -((t - 1.2) ** 2)[:, None]), [1.2], rtol=1e-13)


def test_refusals(tmp_path: Path) -> None:
    """Assert one sentence for a run without classes, with residual connection, of one class, or read from a file."""
    classes = single_common_token(num_classes=4, num_distinct=2, common_probability=0.3, vocab_size=100)
    times = log_times(1.0, 1e3, 20)
    run = integrate(MeanField(classes, 1.0, 0.2), times, save_decoder=True)
    assert np.isfinite(load(run.save(tmp_path / "run.nc")).transition).all()
    without = load(integrate(MeanField(classes, 1.0, 0.2), times).save(tmp_path / "without.nc"))
    reduced = integrate(SingleCommonToken(4, 100, 1.0, 0.2, rho0=2.0), times)
    residual = integrate(MeanField(classes, 1.0, 0.2, residual=True), times)
    for refused, reason in (
        (reduced, "sequence classes"), (residual, "residual"), (run.of_class(0), "of_class"), (without, "save_decoder"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=reason):
            _ = refused.transition


def test_a_changed_copy_measures_again() -> None:
    """Assert that a copy with other times does not keep the transition of the run."""
    system = MeanField(single_common_token(3, 2, 0.3, 50), 1.0, 0.1)
    saved = integrate(system, log_times(1.0, 1e3, 50), save_decoder=True)
    before = saved.transition
    assert np.isfinite(before).all()
    np.testing.assert_allclose(saved.changed(t=10 * saved.t).transition, 10 * before, rtol=1e-12)


def test_a_run_that_ends_while_it_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Ctrl-C stays Ctrl-C, and one sentence for a failure."""
    run = integrate(MeanField(single_common_token(3, 2, 0.3, 50), 1.0, 0.1), log_times(1.0, 1e3, 20))
    for status, error in (("interrupted", KeyboardInterrupt), ("failed", InputError)):
        vars(run)["_again"] = lambda times, status=status: run.changed(status=status, message="why")
        with pytest.raises(error):
            _ = run.transition


def test_very_many_classes_are_refused_before_memory_is_taken() -> None:
    """Assert one sentence for 1e13 classes, also with fewer than three saved times."""
    classes = single_common_token(10**13, num_distinct=2, common_probability=0.3, vocab_size=10**14)
    run = integrate(MeanField(classes, 1.0, 1e-13), [1e13, 2e13])
    with pytest.raises(InputError):
        _ = run.transition
