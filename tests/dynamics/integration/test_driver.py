"""Integration: accuracy against independent solutions, stiff runs, events, honest endings, bad input."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import linregress

from snapdyn.dynamics import (
    Event,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    integrate,
    log_times,
    random_classes,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.integration.request import Request
from snapdyn.errors import InputError
from tests.dynamics.dense_reference import Array, Instance, eq_10, random_instance, u_of_time
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import ETA_Z, INSTANCE, SYSTEMS, mean_field_system, reference_z, tolerance

METHODS = ["DOP853", "RK45", "RK23", "LSODA", "BDF", "Radau"]
TIMES = log_times(0.05, 300.0, 40)


@pytest.fixture(scope="module")
def reference() -> Array:
    """z at TIMES from RK45 at 1e-12, a hundred times tighter than anything compared with it."""
    return reference_z(TIMES, "RK45", 1e-12, 1e-14)


@pytest.mark.parametrize("log_time", [False, True], ids=["time", "log time"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_agrees_with_an_independent_solution(method: str, log_time: bool, reference: Array) -> None:
    """Assert that all saves, early to late and inside steps, lie within the tolerance of the dense solution."""
    run = integrate(mean_field_system(), TIMES, method=method, rtol=1e-7, atol=1e-9, log_time=log_time)
    assert run.status == "finished"
    assert (run.stats["method"], run.stats["log_time"]) == (method, log_time)
    np.testing.assert_array_equal(run.t, TIMES)
    error = np.abs(run.z - reference).max(axis=(1, 2))
    # Dense output is of lower order than the step and adds about one tolerance of its own.
    assert (error < tolerance(run)).all()
    # Signal over tolerance: at every time the start is rejected, and so is a run at a rate 1 % off.
    assert tolerance(run) < 0.01 * np.abs(reference[-1]).max()


@pytest.mark.slow
def test_default_run_agrees_with_radau_reference() -> None:
    """Assert the default method at default tolerances against an implicit solver on numpy equations."""
    times = np.array([0.1, 3.0, 30.0])
    expected = reference_z(times, "Radau", 1e-10, 1e-12)
    run = integrate(mean_field_system(), times)
    assert run.stats["method"] == "DOP853"
    assert np.abs(run.z - expected).max() < tolerance(run)


def test_a_wrong_rate_is_rejected(reference: Array) -> None:
    """Assert that a run with eta_Z 0.1 % off differs by more than the tolerance used above."""
    run = integrate(mean_field_system(1.001 * ETA_Z), TIMES, rtol=1e-7, atol=1e-9)
    assert np.abs(run.z - reference).max() > tolerance(run)


@pytest.mark.parametrize("method", ["DOP853", "RK45", "RK23"])
def test_error_falls_with_the_tolerance(method: str, reference: Array) -> None:
    """Assert that the error is proportional to the tolerance, exponent fitted.

    A step of a pair of orders q (estimate) and q + 1 keeps the estimate h^(q+1) at the tolerance, and the
    propagated global error is h^(q+1): exponent 1. Order lost or gained in RK23 would show as 2/3 or 4/3;
    half of that gap is the margin.
    """
    rtols = np.geomspace(1e-6, 10**-9.5, 8)
    errors = []
    for rtol in rtols:
        run = integrate(mean_field_system(), [TIMES[-1]], method=method, rtol=float(rtol), atol=float(rtol) / 100)
        errors.append(np.abs(run.z[-1] - reference[-1]).max())
    slope = linregress(np.log(rtols), np.log(errors)).slope
    assert abs(slope - 1.0) < 1 / 6


@pytest.mark.parametrize("method", METHODS)
def test_saves_inside_steps_are_as_good_as_step_ends(method: str) -> None:
    """Assert that 301 saves agree with runs that end at the save, where no interpolation is made."""
    times = np.linspace(0.0, 30.0, 301)
    system = SingleCommonToken(5, 100, 1.0, 0.5, 3.0)
    run = integrate(system, times, method=method, rtol=1e-7, atol=1e-9)
    for i in (1, 10, 77, 150, 299):
        end = integrate(system, [times[i]], method=method, rtol=1e-7, atol=1e-9)
        assert abs(run.z_support[i, 0] - end.z_support[0, 0]) < 2 * tolerance(run)


@pytest.mark.parametrize("beta", ["exact", "leading"])
def test_modified_decoder_agrees_with_an_independent_solution(beta: str) -> None:
    """Assert Eq. (10) trajectories and h against scipy on dense linear algebra."""
    Q, M = len(INSTANCE.query_ids), INSTANCE.P.shape[1]

    def rate(t: float, state: Array) -> Array:
        dz, du = eq_10(INSTANCE, state[Q * M :], state[: Q * M].reshape(Q, M), 1.0, 0.5, beta == "leading")
        return np.concatenate([dz.ravel(), du])

    times = np.array([0.1, 5.0, 100.0])
    expected = solve_ivp(rate, (0, 100), np.zeros(Q * M + 4), "RK45", times, rtol=1e-11, atol=1e-13).y.T
    run = integrate(ModifiedDecoder(INSTANCE.classes(), 1.0, 0.5, beta=beta), times)
    assert np.abs(run.z.reshape(3, -1) - expected[:, : Q * M]).max() < tolerance(run)
    assert np.abs(run.extra["h"] - expected[:, Q * M :] / INSTANCE.vocab_size).max() < tolerance(run)
    assert np.abs(expected[:, : Q * M]).max() > 1e4 * tolerance(run)


@pytest.mark.parametrize("name", SYSTEMS)
def test_start_is_kept_exactly(name: str) -> None:
    """Assert that t = 0 gives the initial logits exactly and the loss ln V of the zero decoder."""
    system = SYSTEMS[name]()
    for run in (integrate(system, [0.0]), integrate(system, [0.0, 2.0])):
        np.testing.assert_array_equal(run.z[0], system.z_initial)
        V = 100 if name == "SingleCommonToken" else 12
        assert math.isclose(run.loss[0], math.log(V), rel_tol=4 * EPS)
        assert all(np.max(value[0]) == 0 for value in run.invariants.values())
    assert integrate(system, [0.0]).stats["evaluations"] == 0


@pytest.mark.parametrize("method", ["auto", "LSODA"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_times_to_1e12_finish_with_conserved_sums(name: str, method: str) -> None:
    """Assert that a run to t = 1e12 finishes cheaply, with falling loss and row sums at rounding level."""
    run = integrate(SYSTEMS[name](), log_times(1e-2, 1e12, 30), method=method)
    assert run.status == "finished"
    assert run.stats["evaluations"] < 20_000
    assert np.isfinite(run.z).all()
    assert (np.diff(run.loss) < 0).all()
    # A row sum of 12 (Y) or 8 (Z) values of size max|.| moves by a few rounding errors of them per evaluation.
    # The explicit methods conserve linear sums to that; LSODA's Newton iteration with a diagonal Jacobian stops
    # at its tolerance, and so do the sums.
    largest = max(1.0, float(np.abs(run.z).max()), math.log(1e12 * 12))
    rounding = 12 * EPS * largest * run.stats["evaluations"]
    for values in run.invariants.values():
        assert values.max() < (rounding if run.stats["method"] == "DOP853" else tolerance(run))


def test_late_loss_follows_one_over_time() -> None:
    """Assert loss t -> 1/(eta_Y p_n) per class of the modified flow late: exp(V h) ~ V eta_Y p_n t (45)."""
    run = integrate(FrozenDecoder(INSTANCE.classes(), 1.0, modified=True), [1e12], rtol=1e-10)
    expected = sum(p * math.log1p(11 * math.exp(-u_of_time(p * 1e12, 12))) for p in INSTANCE.prior)
    # d ln(loss)/du = -1, so the relative error of the loss is the absolute one of u.
    assert math.isclose(run.loss[0], expected, rel_tol=30 * tolerance(run))
    assert 30 * tolerance(run) < 0.01


def jittered(instance: Instance, size: float) -> Instance:
    noise = 1 + size * np.random.default_rng(0).uniform(-1, 1, instance.P.shape)
    P = instance.P * noise
    return Instance(
        P / P.sum(axis=1, keepdims=True), instance.query, instance.next_token, instance.prior, instance.vocab_size
    )


def test_lumping_is_exact() -> None:
    """Assert that Syn-Small lumped agrees with itself under a 1e-13 jitter that forbids lumping."""
    classes = syn_small()
    plain = Instance(classes.P.toarray(), np.array([0, 1]), np.array([32, 33]), np.full(2, 0.5), 34)
    lumped, split = (MeanField(i.classes(), 1.0, 1.0) for i in (plain, jittered(plain, 1e-13)))
    assert lumped.layout.num_rows == 21 < split.layout.num_rows == 30
    times = log_times(0.1, 1e4, 12)
    first, second = (integrate(system, times, rtol=1e-11, atol=1e-13) for system in (lumped, split))
    # The jitter moves z by about 1e-13 times its size; step sizes differ, so each run errs by its tolerance.
    assert np.abs(first.z - second.z).max() < tolerance(first) + tolerance(second) < 1e-6
    np.testing.assert_allclose(first.loss, second.loss, rtol=1e-6)
    spread = np.ptp(first.z[:, 0, :10], axis=1)
    assert (spread == 0).all()


def test_a_stated_method_is_kept() -> None:
    """Assert that a method that is named is used however stiff the system is; what "auto" takes: test_cvode.py."""
    classes = INSTANCE.classes()
    assert integrate(MeanField(classes, 1.0, 100.0), [0.1], method="RK45").stats["method"] == "RK45"
    assert integrate(MeanField(classes, 1.0, 1e5), [1e-6], method="compiled").stats["compiled"]
    assert integrate(FrozenDecoder(classes, 100.0), [0.1]).stats["method"] == "DOP853"


def test_stiff_ratio_1000_finishes_and_agrees() -> None:
    """Assert that scipy's BDF runs eta_Z/eta_Y = 1000 and agrees with an explicit method within tolerance."""
    system = MeanField(INSTANCE.classes(), 1.0, 1000.0)
    times = [0.1, 1.0, 10.0]
    stiff = integrate(system, times, method="BDF")
    explicit = integrate(system, times, method="DOP853")
    assert (stiff.status, stiff.stats["method"]) == ("finished", "BDF")
    error = np.abs(stiff.z - explicit.z).max()
    assert error < tolerance(stiff) + tolerance(explicit) < 0.01 * np.abs(stiff.z).max()


def test_lsoda_allocates_no_jacobian() -> None:
    """Assert that LSODA on 4431 values stays far below the 157 MB of a full Jacobian."""
    system = MeanField(syn_medium(10), 1.0, 50.0)
    assert system.size == 4431
    tracemalloc.start()
    try:
        run = integrate(system, [0.01], method="LSODA")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (run.status, run.stats["method"]) == ("finished", "LSODA")
    # LSODA's work array with Adams order 12 and a diagonal Jacobian is 22 + 16 n + 3 n values or so: 0.7 MB.
    assert peak < 100 * 8 * system.size < 0.03 * 8 * system.size**2


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_dense_jacobian_methods_refuse_large_systems(method: str) -> None:
    """Assert that BDF and Radau are refused on 4431 values with a sentence that names what to use."""
    with pytest.raises(InputError, match="use CVODE or DOP853"):
        integrate(MeanField(syn_medium(10), 1.0, 1.0), [1.0], method=method)


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_progress_is_monotone_and_ends_at_one(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that times and fractions never fall and end at the last time and 1."""
    monkeypatch.setattr(importlib.import_module("snapdyn.dynamics.integration.driver"), "PROGRESS_INTERVAL", 0.0)
    calls: list[tuple[float, float]] = []
    run = integrate(mean_field_system(), [1e3], method=method, progress=lambda t, share: calls.append((t, share)))
    times, shares = np.array(calls).T
    assert len(calls) >= run.stats["steps"]
    assert (np.diff(times) >= 0).all()
    assert (np.diff(shares) >= 0).all()
    assert (times[-1], shares[-1]) == (1e3, 1.0)
    assert 0 < shares[0] < 1


class Stopping(SingleCommonToken):
    """Raises KeyboardInterrupt inside the right-hand side once V h passes 2."""

    def derivative(self, t: float, state: Array) -> Array:
        if state[2] > 2:
            raise KeyboardInterrupt
        return super().derivative(t, state)


class Breaking(SingleCommonToken):
    """Turns NaN once V h passes 2."""

    def derivative(self, t: float, state: Array) -> Array:
        out = super().derivative(t, state)
        if state[2] > 2:
            out[:] = np.nan
        return out


ARGUMENTS = (5, 100, 1.0, 0.1, 5.0)
# V h = 2 at t = K (expm1(2) + 99 * 2)/V
BREAK_TIME = 5 * (math.expm1(2.0) + 99 * 2.0) / 100


@pytest.mark.parametrize("where", ["progress", "event", "derivative"])
@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_keeps_what_is_finished(where: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that an interrupt returns the saves made so far, equal to those of a full run."""
    monkeypatch.setattr(importlib.import_module("snapdyn.dynamics.integration.driver"), "PROGRESS_INTERVAL", 0.0)
    times = np.arange(0.0, 41.0)

    def interrupt(t: float, *_: Any) -> float:
        if t > 20:
            raise KeyboardInterrupt
        return 1.0

    options: dict[str, Any] = {"method": method}
    if where == "progress":
        options["progress"] = interrupt
    if where == "event":
        options["events"] = {"x": Event(interrupt)}
    system = (Stopping if where == "derivative" else SingleCommonToken)(*ARGUMENTS)
    run = integrate(system, times, **options)
    full = integrate(SingleCommonToken(*ARGUMENTS), times, method=method)
    assert run.status == "interrupted"
    assert f"{run.t.size} of 41 times" in run.message
    assert 3 <= run.t.size < 41
    np.testing.assert_array_equal(run.t, times[: run.t.size])
    np.testing.assert_array_equal(run.z, full.z[: run.t.size])
    assert all(values.shape[0] == run.t.size for values in (run.loss, *run.extra.values()))


@pytest.mark.parametrize("method", METHODS)
def test_failure_names_time_quantity_and_remedy(method: str) -> None:
    """Assert that a right-hand side that turns NaN gives status failed, with time, quantity and remedy."""
    times = np.arange(0.0, 41.0)
    run = integrate(Breaking(*ARGUMENTS), times, method=method)
    assert run.status == "failed"
    reported = float(run.message.split("t = ")[1].split()[0])
    # The failure lies within one solver step of the break; the largest step here is below 5.
    assert abs(reported - BREAK_TIME) < 5
    assert any(Breaking(*ARGUMENTS).value_name(i) in run.message for i in range(3))
    assert "try " in run.message
    assert 3 <= run.t.size < 41
    assert np.isfinite(run.z).all()
    assert np.isfinite(run.loss).all()


@pytest.mark.parametrize("method", METHODS)
def test_failure_at_the_start_ends(method: str) -> None:
    """Assert that a rate that is NaN from t = 0 ends as failed, with no saves but the start."""

    class Broken(SingleCommonToken):
        def derivative(self, t: float, state: Array) -> Array:
            return np.full(3, np.nan)

    run = integrate(Broken(*ARGUMENTS), [0.0, 1.0], method=method)
    assert run.status == "failed"
    assert run.t.tolist() == [0.0]
    assert run.message.startswith("failed at t = ")


def test_a_repeated_step_of_lsoda_names_time_and_quantity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the report of a failed LSODA needs neither its tolerances, which it does not keep, nor its rate."""
    monkeypatch.setattr("snapdyn.dynamics.integration.scipy_solvers.MOST_EVALUATIONS_OF_A_STEP", 3)
    run = integrate(SingleCommonToken(*ARGUMENTS), [0.0, 40.0], method="LSODA")
    assert run.status == "failed"
    assert "it changes fastest against its tolerance" in run.message
    assert "LSODA evaluated the right-hand side 3 times in one step" in run.message


def test_lsoda_that_gives_up_names_time_and_quantity() -> None:
    """Assert that a run in which LSODA itself stops, with finite values, is reported in one sentence."""
    P = np.array([[0.174, 0.752], [0.162, 0.774], [0.707, 0.094], [0.26, 0.164], [0.463, 0.302]])
    P = np.column_stack([P, 1 - P.sum(axis=1)])
    system = MeanField(SequenceClasses(P, [0, 0, 0, 1, 1], vocab_size=5), 0.0392, 3.3e-6)
    run = integrate(system, [2.79e6], "LSODA", 1e-8, 1.0139408611850258e-17, log_time=True, most_evaluations=200_000)
    assert run.status == "failed"
    assert "; try " in run.message


def test_failure_of_mean_field_names_token_or_output() -> None:
    """Assert that the quantity of a failed mean-field run is named by query and token, or token and output."""

    class Broken(MeanField):
        def derivative(self, t: float, state: Array) -> Array:
            out = super().derivative(t, state)
            if state[0] != 0:
                out[3] = np.nan
            return out

    run = integrate(Broken(INSTANCE.classes(), 1.0, 1.0), [1.0], method="LSODA")
    assert run.status == "failed"
    assert " z[query " in run.message or " Y[token " in run.message


@pytest.mark.parametrize("size", [50.0, 700.0, 1e4, 1e300])
def test_extreme_initial_logits_do_not_diverge(size: float) -> None:
    """Assert that a prior that puts all attention on one token runs, with attention exactly there."""
    z_initial = np.zeros((2, 8))
    z_initial[:, 0], z_initial[:, 3] = size, -size
    run = integrate(MeanField(INSTANCE.classes(), 1.0, 1.0, z_initial=z_initial), [0.0, 10.0])
    assert run.status == "finished"
    sums = run.attention.sum(axis=2)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-14)
    has_token = INSTANCE.P[:, 0] > 0
    np.testing.assert_allclose(run.attention[0, has_token, 0], 1.0, atol=1e-12)


@pytest.mark.parametrize(
    "t_eval",
    [
        [2.0, 1.0],
        [1.0, 1.0],
        [-1.0, 1.0],
        [],
        [math.nan],
        [1.0, math.nan],
        [1.0, math.inf],
        5.0,
        [[1.0]],
        None,
        "a",
        [1j],
    ],
    ids=repr,
)
def test_bad_times_are_refused(t_eval: Any) -> None:
    """Assert that unsorted, repeated, negative, empty, non-finite or non-numeric times raise one sentence."""
    with pytest.raises(InputError, match=r"^expected .*t(_eval|imes)"):
        integrate(SingleCommonToken(*ARGUMENTS), t_eval)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, "fast", None])
def test_bad_rates_and_tolerances_are_refused(value: Any) -> None:
    """Assert that rates and tolerances that are not positive and finite raise one sentence naming them."""
    classes = INSTANCE.classes()
    for name, build in (
        ("eta_Y", lambda: MeanField(classes, value, 1.0)),
        ("eta_Z", lambda: MeanField(classes, 1.0, value)),
        ("eta_Y", lambda: FrozenDecoder(classes, value)),
        ("eta_Z", lambda: ModifiedDecoder(classes, 1.0, value)),
        ("eta_Y", lambda: SingleCommonToken(5, 100, value, 0.1, 5.0)),
        ("rho0", lambda: SingleCommonToken(5, 100, 1.0, 0.1, value)),
        ("rtol", lambda: integrate(mean_field_system(), [1.0], rtol=value)),
        ("atol", lambda: integrate(mean_field_system(), [1.0], atol=value)),
    ):
        with pytest.raises(InputError, match=f"^expected {name} "):
            build()


@pytest.mark.parametrize("value", ["no", 0, 1, None])
def test_flags_are_true_or_false(value: Any) -> None:
    """Assert that what is no bool is refused by name: the text "no" would count as true."""
    classes, system = INSTANCE.classes(), mean_field_system()
    for name, build in (
        ("residual", lambda: MeanField(classes, 1.0, 1.0, residual=value)),
        ("residual", lambda: FrozenDecoder(classes, 1.0, residual=value)),
        ("modified", lambda: FrozenDecoder(classes, 1.0, modified=value)),
        ("save_decoder", lambda: integrate(system, [1.0], save_decoder=value)),
        ("z_only", lambda: integrate(system, [1.0], z_only=value)),
        ("residual", lambda: classes.gram(residual=value)),
        ("distinct_only", lambda: integrate(system, [1.0]).entropy(distinct_only=value)),
        ("terminal", lambda: Event(lambda t, state: t - 0.5, terminal=value)),
        ("lump", lambda: FiniteLengthMeanField(classes, 1.0, 1.0, None, lump=value)),
        ("uniform_prior", lambda: random_classes(uniform_prior=value)),
    ):
        with pytest.raises(InputError, match=f"^expected {name} to be true or false, received"):
            build()
    with pytest.raises(InputError, match=r"^expected log_time to be true or false, received 'no'"):
        integrate(system, [1.0], log_time="no")  # type: ignore[arg-type]
    assert integrate(system, [1.0], z_only=np.True_).status == "finished"  # type: ignore[arg-type]


@pytest.mark.parametrize("rtol", [1e-15, 1.0, 2.0])
def test_tolerances_that_mean_nothing_are_refused(rtol: float) -> None:
    """Assert that a relative tolerance beyond the digits of floats, or of everything, is refused."""
    with pytest.raises(InputError, match=r"^expected rtol of at least .* and below 1, received"):
        integrate(mean_field_system(), [1.0], rtol=rtol)


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    """Assert that a misspelt method, beta or form raises with the nearest known name."""
    with pytest.raises(InputError, match="did you mean 'RK45'"):
        integrate(mean_field_system(), [1.0], method="RK46")
    with pytest.raises(InputError, match="did you mean 'leading'"):
        ModifiedDecoder(INSTANCE.classes(), 1.0, 1.0, beta="leadin")
    with pytest.raises(InputError, match="did you mean 'printed'"):
        SingleCommonToken(*ARGUMENTS, form="print")


def test_wrong_objects_are_refused() -> None:
    """Assert that classes in place of a system, a table in place of classes, and shared next tokens raise."""
    with pytest.raises(InputError, match="expected a system"):
        integrate(INSTANCE.classes(), [1.0])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected classes to be SequenceClasses"):
        MeanField(INSTANCE.P, 1.0, 1.0)  # type: ignore[arg-type]
    shared = random_instance(4, next_token=(3, 3, 3, 1, 8)).classes()
    with pytest.raises(InputError, match="different next tokens"):
        ModifiedDecoder(shared, 1.0, 1.0)
    with pytest.raises(InputError, match="different next tokens"):
        FrozenDecoder(shared, 1.0, modified=True)
    with pytest.raises(InputError, match="carries Y"):
        integrate(ModifiedDecoder(INSTANCE.classes(), 1.0, 1.0), [1.0], save_decoder=True)


def test_log_times_are_log_spaced_with_exact_ends() -> None:
    """Assert exact ends, constant ratio, and one sentence for impossible arguments."""
    times = log_times(1e-2, 1e12, 15)
    assert (times[0], times[-1], times.size) == (1e-2, 1e12, 15)
    np.testing.assert_allclose(times[1:] / times[:-1], 10.0, rtol=1e-12)


@pytest.mark.parametrize(
    "arguments", [(0.0, 1.0, 5), (2.0, 1.0, 5), (1.0, math.inf, 5), (1.0, 2.0, 0), (1.0, 2.0, -1), (1.0, 2.0, 2.5)]
)
def test_bad_log_times_are_refused(arguments: tuple[Any, ...]) -> None:
    """Assert that ends out of order and impossible counts raise one sentence."""
    with pytest.raises(InputError, match=r"^expected "):
        log_times(*arguments)


def test_dense_output_is_made_only_when_needed() -> None:
    """Assert that saving only the end costs fewer evaluations than 41 saves (DOP853 pays for interpolation)."""
    end = integrate(mean_field_system(), [40.0]).stats["evaluations"]
    many = integrate(mean_field_system(), np.arange(41.0)).stats["evaluations"]
    assert end < many


def test_settings_have_the_same_defaults_everywhere() -> None:
    """Assert that a checked request has the arguments and defaults of `integrate`, in the same order."""
    names = [f.name for f in dataclasses.fields(Request) if f.init]
    stated = inspect.signature(integrate).parameters
    assert [*stated] == ["system", *names]
    request = Request([1.0])
    assert {**{name: getattr(request, name) for name in names[1:]}, "events": None} == {
        name: stated[name].default for name in names[1:]
    }
