"""The mean field on representatives, against the full one."""

import pickle

import numpy as np
import pytest

from snapdyn.dynamics import (
    Event,
    MeanField,
    SequenceClasses,
    integrate,
    integrate_many,
    log_times,
    memory,
    random_classes,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.symmetry.reduction import LEAST_SIZE, ReducedMeanField, reduced
from snapdyn.dynamics.trajectory import Lifted
from snapdyn.errors import InputError
from tests.dynamics.symmetry.helpers import plain, random_system


def of(system: MeanField) -> ReducedMeanField:
    result = reduced(system)
    assert isinstance(result, ReducedMeanField)
    return result


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.kernel] if seed < 10 else []) for seed in range(200)]
)
def test_rates_are_those_of_the_full_system(seed: int) -> None:
    """Assert the rate and the loss at a random symmetric state, to rounding, and that copies are found."""
    system, symmetric = random_system(seed)
    small = reduced(system)
    if small is None:
        assert not symmetric
        return
    rng = np.random.default_rng(seed)
    state = small.initial_state() + rng.normal(size=small.size)
    full_state = small.full_state(state)
    rate, full_rate = np.empty(small.size), np.empty(system.size)
    loss, full_loss = small.write_rate(state, rate), system.write_rate(full_state, full_rate)
    assert loss == pytest.approx(full_loss, rel=1e-13)
    np.testing.assert_allclose(small.full_state(rate), full_rate, rtol=0, atol=1e-13 * np.abs(full_rate).max())


def test_a_wrong_count_is_seen() -> None:
    """Assert that one count that is wrong by one changes the rate by far more than rounding."""
    system = MeanField(plain(syn_small()), 1.0, 1.0)
    small = of(system)
    state = small.initial_state() + np.random.default_rng(0).normal(size=small.size)
    right, wrong = np.empty(small.size), np.empty(small.size)
    small.write_rate(state, right)
    terms = small.quotient.terms.copy()
    terms[1, terms[1].argmax()] += 1
    small.quotient = small.quotient._replace(terms=terms)
    small._constants = (*small._constants[:7], terms, small._constants[8])
    small._arguments = small.kernel_arguments()
    small.write_rate(state, wrong)
    assert np.abs(right - wrong).max() > 1e-4


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_those_of_the_full_system(seed: int) -> None:
    """Assert equal steps, and logits, attention, loss, Y and invariants that differ by rounding only."""
    system, _ = random_system(seed)
    times = log_times(0.1, 30.0, 7) / max(system.eta_Y, system.eta_Z)
    full = integrate(system, times, save_decoder=True, reduce=False)
    small = integrate(system, times, save_decoder=True, reduce=True)
    assert small.stats["full_state_size"] == full.stats["state_size"] == system.size
    assert small.stats["steps"] == full.stats["steps"]
    for name in ("z", "attention", "loss", "Y"):
        ours, theirs = getattr(small, name), getattr(full, name)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * (1 + np.nanmax(np.abs(theirs))), err_msg=name)
    assert set(small.invariants) == set(full.invariants)
    assert all(values.max() < 1e-10 * (1 + np.abs(full.Y).max()) for values in small.invariants.values())


def test_auto_reduces_large_symmetric_systems_only() -> None:
    """Assert a reduction of Syn-Medium, with saves as before, none of a small system or one without symmetries."""
    medium = MeanField(plain(syn_medium(10)), 1.0, 1.0)
    assert medium.size >= LEAST_SIZE
    run, full = integrate(medium, [10.0, 1000.0]), integrate(medium, [10.0, 1000.0], reduce=False)
    assert run.stats["state_size"] == 43
    np.testing.assert_allclose(run.z, full.z, rtol=0, atol=1e-11 * np.abs(full.z).max())
    assert integrate(MeanField(plain(syn_small()), 1.0, 1.0), [1.0]).stats["state_size"] == 85
    other = MeanField(random_classes(20, 2, 5), 1.0, 1.0)
    assert other.size >= LEAST_SIZE
    assert integrate(other, [1.0]).stats["state_size"] == other.size
    (member,) = integrate_many([medium], [10.0, 1000.0])
    assert np.array_equal(member.z, run.z)


def test_logits_of_all_classes_are_made_when_they_are_read() -> None:
    """Assert that a reduced run keeps one value for all that stay equal, also when it is pickled, until z is read."""
    carried = syn_medium(10)
    classes = SequenceClasses(carried.P, carried.query, carried.next_token, vocab_size=carried.vocab_size)
    run = integrate(MeanField(classes, 1.0, 1.0), [10.0, 1000.0], z_only=True)
    assert isinstance(vars(run)["z_support"], Lifted)
    copy = pickle.loads(pickle.dumps(run))
    assert np.array_equal(copy.z_support, run.z_support)
    assert run.z_support is run.z_support
    assert run.z_support.shape == (2, run.require_classes().z_coordinates[0].size)


def test_auto_takes_the_method_of_the_full_system() -> None:
    """Assert the same method with and without symmetries, also where attention is so fast that CVODE is taken."""
    for eta_Z in (1.0, 1e4):
        runs = [
            integrate(MeanField(plain(syn_medium(10)), 1.0, eta_Z), [0.01], reduce=each) for each in ("auto", False)
        ]
        assert runs[0].stats["method"] == runs[1].stats["method"]


def test_the_search_and_the_saves_ask_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert no search beyond the free memory, a refusal where it was asked for, and saves counted in full."""
    medium = MeanField(plain(syn_medium(10)), 1.0, 1.0)
    monkeypatch.setattr(memory, "free_memory", lambda: 1e5)
    monkeypatch.setattr(memory, "ALWAYS_FREE", 0)
    assert reduced(medium, 0.5) is None
    with pytest.raises(InputError, match="expected the search for symmetries to fit into the free memory"):
        reduced(medium)
    monkeypatch.undo()
    small = of(medium)
    monkeypatch.setattr(memory, "free_memory", lambda: 8.0 * medium.size * 1000)
    monkeypatch.setattr(memory, "ALWAYS_FREE", 0)
    times = log_times(1.0, 10.0, 1001)
    for system in (medium, small):
        with pytest.raises(InputError, match=f"expected 1001 saved times of {medium.size} numbers"):
            integrate(system, times, save_decoder=True)


def test_an_interrupted_search_is_an_interrupted_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.dynamics.integration.methods.reduced", interrupted)
    run = integrate(MeanField(plain(syn_medium(10)), 1.0, 1.0), [1.0])
    assert run.status == "interrupted"
    assert run.t.size == 0


def test_events_see_the_full_state() -> None:
    """Assert the values, the logits and the time of an event."""
    medium = MeanField(plain(syn_medium(10)), 1.0, 1.0)
    sizes = set()

    def half(t: float, state: object) -> float:
        sizes.add(state.values.size)  # type: ignore[attr-defined]
        return float(state.loss) - 1.0  # type: ignore[attr-defined]

    run = integrate(medium, [1e4], events={"half": Event(half)})
    assert sizes == {medium.size}
    full = integrate(medium, [1e4], events={"half": Event(half)}, reduce=False)
    assert run.events[0].t == pytest.approx(full.events[0].t, rel=1e-12)


def test_refusals() -> None:
    system = MeanField(plain(syn_small()), 1.0, 1.0)
    with pytest.raises(InputError, match="expected reduce to be true, false or 'auto', received 'yes'"):
        integrate(system, [1.0], reduce="yes")
    with pytest.raises(InputError, match=r"expected one of MeanField, FrozenDecoder, .* and the default integrator"):
        integrate(system, [1.0], reduce=True, method="RKC")
