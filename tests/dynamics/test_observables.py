"""Observables: the registry, labels of datasets, the decoder's speed of each class and the time at which it peaks."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sympy

from snapdyn import analytic
from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    ClassKind,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    SymmetricClasses,
    System,
    Trajectory,
    integrate,
    load,
    log_times,
    single_common_token,
    symmetric_classes,
    syn_small,
)
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.observables import OBSERVABLES, Observable, class_logits, peak_times
from tests.dynamics.helpers import dense_decoder


def test_a_trajectory_reads_the_registry() -> None:
    """Assert that quantities over time are found by name, ours and a user's, and one sentence for other names."""
    run = integrate(MeanField(syn_small(), 1.0, 1.0), [1.0, 30.0], save_decoder=True)
    for name in ("loss", "z", "attention"):
        np.testing.assert_array_equal(run.observable(name), getattr(run, name))
    np.testing.assert_array_equal(run.observable("entropy"), run.entropy())
    np.testing.assert_allclose(run.observable("class_loss") @ syn_small().prior, run.loss, rtol=1e-12)
    OBSERVABLES.add(Observable("twice", "twice the loss", "nats", lambda run: 2 * run.loss))
    np.testing.assert_array_equal(run.observable("twice"), 2 * run.loss)
    with pytest.raises(InputError, match=r"'entropyy'.*'entropy'"):
        run.observable("entropyy")


def test_values_of_a_system_come_first() -> None:
    """Assert that an observable of an own system hides that of the registry, and does not get its label."""
    u = sympy.Symbol("u")
    run = integrate(System.from_sympy("Decay", {u: 1.0}, {u: -u}, observables={"speed": u}), [1.0], "DOP853")
    assert run.observable("speed") == pytest.approx(np.exp(-1.0), rel=1e-6)
    assert run.to_xarray().speed.attrs == {"long_name": "speed", "units": "1"}
    with pytest.raises(InputError, match="an observable of Decay"):
        run.observable("entropy")


@pytest.mark.parametrize(("name", "indices"), [("loss", ()), ("entropy", (1,)), ("attention", (1, 1)), ("z", None)])
def test_values_on_the_support(name: str, indices: tuple[int, ...] | None) -> None:
    """Assert that values on the support, (N, components), hold the curves and no more numbers than differ from 0."""
    run = integrate(MeanField(syn_small(), 1.0, 1.0), [1.0, 30.0])
    observable = OBSERVABLES[name]
    values = observable.values_on_support(run)
    assert values.shape[0] == 2
    assert values.size == np.count_nonzero(observable.values(run))
    if indices is not None:
        assert (values == observable.curve_of(run, *indices)[:, None]).all(axis=0).any()


def dense_speed(run: Trajectory) -> Floats:
    """w_n[n] (1 - alpha_n[n]), (N, S), by loops over times and classes and a softmax over all V outputs."""
    classes = run.require_classes()
    Y = dense_decoder(*run.require_decoder(), (classes.num_tokens, classes.vocab_size))
    speed = np.empty((run.t.size, classes.num_classes))
    for i, n in np.ndindex(*speed.shape):
        w = run.attention[i, n] / np.linalg.norm(run.attention[i, n]) @ Y[i]
        alpha = np.exp(w - w.max()) / np.exp(w - w.max()).sum()
        speed[i, n] = w[classes.next_token[n]] * (1 - alpha[classes.next_token[n]])
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


@pytest.mark.parametrize(
    "build",
    [
        lambda classes: FrozenDecoder(classes, 2.0, modified=True),
        lambda classes: FrozenDecoder(classes, 2.0),
        lambda classes: ModifiedDecoder(classes, 2.0, 0.1),
    ],
    ids=["Eq. (8)", "Eq. (7)", "Eq. (10)"],
)
def test_transition_of_unequal_priors_is_theorys(build: Callable[[SequenceClasses], System]) -> None:
    """Assert Lemma 9's t* of each class, by the modified flow, the original one of orthogonal classes, and by visits.

    Wrong theory: the end of the transition, t0.
    """
    prior = np.array([0.1, 0.2, 0.7])
    run = integrate(
        build(SequenceClasses(np.eye(3), query=[0, 0, 0], prior=prior, vocab_size=500)), log_times(1.0, 1e3, 400)
    )
    theory = analytic.transition_time(1, 500, 2.0) / prior  # each class for itself, on its clock s = p_n t
    wrong = analytic.transition_time(1, 500, 2.0, kind="end") / prior
    assert np.abs(run.transition / theory - 1).max() < 1e-4  # a parabola through points 0.017 apart in ln t
    assert np.abs(run.transition / wrong - 1).min() > 0.2


def two_kinds(classes_per_query: int, num_queries: int = 1, vocab_size: int | None = None) -> SymmetricClasses:
    """Kinds of unequal priors and overlaps, K = 2 classes_per_query num_queries in all; V = 20 K by default."""
    kinds = [
        ClassKind([0.1, 0.2], [0.3, 0.4], classes_per_query, weight=1.0),
        ClassKind([0.3, 0.1], [0.6], classes_per_query, weight=2.5),
    ]
    return symmetric_classes(kinds, num_queries, vocab_size or 40 * classes_per_query * num_queries)


@pytest.mark.parametrize(("classes_per_query", "num_queries", "vocab_size"), [(2, 1, 8), (1, 3, None), (10, 2, None)])
def test_transition_of_a_kind_is_that_of_its_classes(
    classes_per_query: int, num_queries: int, vocab_size: int | None
) -> None:
    """Assert, for K = 4 to 40, the time of every class of the run of all classes, to 100 tolerances of the integrator.

    One run has its decoder saved, the other is made again. Wrong theory: the time of the other kind.
    """
    classes = two_kinds(classes_per_query, num_queries, vocab_size)
    K = classes.num_classes
    system, times = MeanField(classes, 1.0, 0.2), log_times(0.1 * K, 1e3 * K, 200)
    all_values = integrate(system, times, reduce=False, save_decoder=True)
    run = integrate(system, times, reduce=True)
    per_kind = np.concatenate([run.of_class(kind).transition for kind in (0, 1)])
    assert run.Y is None
    kind_of_class = np.tile(np.repeat([0, 1], classes_per_query), num_queries)
    np.testing.assert_allclose(all_values.transition, per_kind[kind_of_class], rtol=100 * 1e-8)
    assert np.array_equal(run.transition, per_kind[kind_of_class])
    np.testing.assert_allclose(all_values.of_class(1).transition, per_kind[1:], rtol=100 * 1e-8)
    assert np.abs(all_values.transition / per_kind[1 - kind_of_class] - 1).min() > 0.1


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
    """Assert one sentence for a run without classes, with residual connection, too many classes, and for files."""
    classes = single_common_token(num_classes=4, num_distinct=2, common_probability=0.3, vocab_size=100)
    times = log_times(1.0, 1e3, 20)
    run = integrate(MeanField(classes, 1.0, 0.2), times)
    many = MeanField(single_common_token(10**13, 2, 0.3, 10**14), 1.0, 1e-13)
    for refused, reason in (
        (integrate(SingleCommonToken(4, 100, 1.0, 0.2, rho0=2.0), times), "sequence classes"),
        (integrate(MeanField(classes, 1.0, 0.2, residual=True), times), "residual"),
        (load(run.save(tmp_path / "without.nc")), "save_decoder"),
        (integrate(many, [1e13, 2e13]), "10000000000000 classes"),
    ):
        with pytest.raises(InputError, match=reason):
            _ = refused.transition


def test_a_changed_copy_measures_again() -> None:
    """Assert that a copy with other times does not keep the transition of the run."""
    system = MeanField(single_common_token(3, 2, 0.3, 50), 1.0, 0.1)
    saved = integrate(system, log_times(1.0, 1e3, 50), save_decoder=True)
    before = saved.transition
    assert np.isfinite(before).all()
    np.testing.assert_allclose(saved.changed(t=10 * saved.t).transition, 10 * before, rtol=1e-12)
