"""Which runs are reduced, and what they say; descent on one value for all that stay equal."""

import pickle
from typing import Any

import numpy as np
import pytest

from snapdyn import memory
from snapdyn.dynamics import (
    Event,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    integrate,
    integrate_many,
    log_times,
    random_classes,
    sgd,
    single_common_token,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.symmetry.reduction import LEAST_SIZE, reduced
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectories.trajectory import Lifted
from snapdyn.errors import InputError
from tests.dynamics.symmetry.helpers import plain, random_system


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


def test_auto_reduces_what_is_large_and_symmetric() -> None:
    """Assert sizes that do not depend on the number of queries, logits as before, and the same in ensembles."""
    classes = syn_medium(40)
    assert classes.num_classes == 80
    systems: list[tuple[System, int]] = [
        (FrozenDecoder(classes, 1.0), 43),
        (ModifiedDecoder(classes, 1.0, 1.0), 12),
        (FiniteLengthMeanField(classes, 1.0, 1.0, 10_000), 43),
    ]
    for system, size in systems:
        run, full = (integrate(system, [10.0, 300.0], reduce=on) for on in ("auto", False))
        assert (run.stats["state_size"], run.stats["full_state_size"]) == (size, system.size)
        assert run.stats["method"] == full.stats["method"] == "DOP853"
        np.testing.assert_allclose(run.loss, full.loss, rtol=1e-7 if isinstance(system, FrozenDecoder) else 1e-9)
        np.testing.assert_allclose(run.z, full.z, rtol=0, atol=1e-9 * max(1e-9, np.abs(full.z).max()))
        (member,) = integrate_many([system], [10.0, 300.0])
        assert np.array_equal(member.z, run.z)
    for small in (FrozenDecoder(syn_medium(1), 1.0), ModifiedDecoder(syn_medium(1), 1.0, 1.0)):
        assert integrate(small, [1.0]).stats["state_size"] == small.size


def test_jittered_weights_have_no_symmetry() -> None:
    """Assert that nothing is reduced where all weights differ, and that "auto" then integrates the full system."""
    classes = random_classes(20, 2, 60)
    for system in (
        FrozenDecoder(classes, 1.0),
        ModifiedDecoder(classes, 1.0, 1.0),
        FiniteLengthMeanField(classes, 1.0, 1.0, 10_000),
    ):
        assert reduced(system, 0.5) is None
        assert integrate(system, [1.0]).stats["state_size"] == system.size


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


def test_kinds_ask_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert no reduction beyond the free memory, and one sentence where it was asked for.

    Classes without symmetries keep nothing of the size of all pairs of them.
    """
    pairs = random_classes(40, 2, 5)
    P = np.vstack([pairs.P.toarray()] * 2)  # each class twice: forty kinds
    medium = MeanField(SequenceClasses(P, np.tile(pairs.query, 2), vocab_size=200), 1.0, 1.0)
    assert medium.size > 0
    assert medium.z_initial is not None
    alone = MeanField(random_classes(300, 2, 5), 1.0, 1.0)
    assert alone.size > 0
    assert alone.z_initial is not None
    monkeypatch.setattr(memory, "free_memory", lambda: 1e3)
    monkeypatch.setattr(memory, "ALWAYS_FREE", 0)
    assert reduced(medium, 0.9) is None
    with pytest.raises(InputError, match="expected 40 kinds of classes to fit into the free memory"):
        reduced(medium)
    assert reduced(alone) is None
    monkeypatch.setattr(memory, "free_memory", lambda: 5e5)
    with pytest.raises(InputError, match="expected the values of 40 kinds of classes to fit into the free memory"):
        reduced(MeanField(medium.classes, 1.0, 1.0))


def test_the_saves_ask_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that saves with the decoder are counted in full."""
    medium = MeanField(plain(syn_medium(10)), 1.0, 1.0)
    small = reduced(medium)
    assert small is not None
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


@pytest.mark.parametrize("seq_len", [None, 10_000])
def test_events_see_the_full_state(seq_len: int | None) -> None:
    """Assert the values, the logits and the time of an event."""
    classes = plain(syn_medium(10 if seq_len is None else 2))
    medium = FiniteLengthMeanField(classes, 1.0, 1.0, seq_len) if seq_len else MeanField(classes, 1.0, 1.0)
    sizes = set()

    def half(t: float, state: object) -> float:
        sizes.add(state.values.size)  # type: ignore[attr-defined]
        return float(state.loss) - 1.0  # type: ignore[attr-defined]

    run = integrate(medium, [1e4], events={"half": Event(half)}, reduce=True)
    assert sizes == {medium.size}
    full = integrate(medium, [1e4], events={"half": Event(half)}, reduce=False)
    assert run.events[0].t == pytest.approx(full.events[0].t, rel=1e-10 if seq_len else 1e-12)


def test_refusals() -> None:
    system = MeanField(plain(syn_small()), 1.0, 1.0)
    with pytest.raises(InputError, match="expected reduce to be true, false or 'auto', received 'yes'"):
        integrate(system, [1.0], reduce="yes")
    with pytest.raises(InputError, match=r"expected one of MeanField, .* and the default integrator"):
        integrate(system, [1.0], reduce=True, method="RKC")


def test_a_reduction_that_is_asked_for_chooses_a_method_that_reduces() -> None:
    """Assert that reduce=True with method "auto" reduces also where CVODE is the fastest method of the full system."""
    system = FiniteLengthMeanField(syn_medium(2), 1e-3, 10.0, 10_000)
    run = integrate(system, [1.0, 10.0], reduce=True)
    assert run.stats["method"] == "DOP853"
    assert run.stats["state_size"] < run.stats["full_state_size"]


DESCENTS: list[dict[str, Any]] = [
    {},
    {"momentum": 0.9},
    {"optimizer": "adam"},
    {"residual": True},
    {"init": "logits"},
]


@pytest.mark.parametrize("seed", range(24))
def test_descent_takes_the_steps_of_all_values(seed: int) -> None:
    """Assert z, Y, loss, attention and row sums of 40 fixed steps, with all optimisers and starts.

    A step adds rounding of relative size 1e-15, which later steps of these sizes enlarge by less than 10 in all.
    """
    mean, symmetric = random_system(seed)
    settings = dict(DESCENTS[seed % len(DESCENTS)])
    if "init" in settings:
        settings["init"] = {"z": mean.z_initial}
    arguments = {"steps": 40, "batch_size": None, "record": [0, 1, 7, 40], "save_decoder": True, **settings}
    full, small = (sgd(mean.classes, 0.2, 0.2, reduce=on, **arguments) for on in (False, True))
    assert full.stats["state_size"] == full.stats["full_state_size"] == small.stats["full_state_size"]
    assert not symmetric or small.stats["state_size"] < full.stats["state_size"]
    assert small.parameters == full.parameters
    assert np.array_equal(small.t, full.t)
    for name in ("z", "Y", "loss", "attention"):
        ours, theirs = getattr(small, name), getattr(full, name)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=40e-14 * (1e-6 + np.abs(theirs).max()), err_msg=name)
    assert small.invariants.keys() == full.invariants.keys()
    assert all(each.max() < 1e-13 for each in small.invariants.values())
    assert np.abs(full.z[-1] - full.z[0]).max() > 1e-4  # it has moved


def test_descent_is_reduced_where_it_is_large() -> None:
    """Assert 43 values of Syn-Medium by default, all of them in short, sampled or other runs, and both refusals."""
    classes = syn_medium(10)
    sizes = [
        sgd(classes, 0.5, 0.5, steps, batch, init=init, record=[steps]).stats["state_size"]
        for steps, batch, init in ((100, None, "zeros"), (99, None, "zeros"), (100, 1, "zeros"), (100, None, "uniform"))
    ]
    assert sizes[0] == 43
    assert min(sizes[1:]) > 4000
    for wrong in ({"batch_size": 1}, {"batch_size": None, "init": "uniform"}):
        with pytest.raises(InputError, match=r"expected batch_size=None and Y\(0\) = 0 for reduce=True"):
            sgd(classes, 0.5, 0.5, 10, reduce=True, **wrong)
    with pytest.raises(InputError, match="expected reduce to be true, false or 'auto', received 'yes'"):
        sgd(classes, 0.5, 0.5, 10, batch_size=None, reduce="yes")


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_descent_that_diverges_says_so() -> None:
    """Assert the message of the run on all values, and the records until then, whose sums overflow."""
    runs = [
        sgd(single_common_token(4, 2, 0.3, 20), 1.5e308, 0.1, 100, None, momentum=0.99, reduce=on)
        for on in (False, True)
    ]
    assert [run.status for run in runs] == ["diverged", "diverged"]
    assert runs[0].message == runs[1].message
    assert runs[0].t.size == runs[1].t.size


def test_an_interrupted_search_ends_the_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.dynamics.training.descent.reduced", interrupted)
    run = sgd(syn_medium(10), 0.5, 0.5, 200, batch_size=None)
    assert run.status == "interrupted"
    assert run.t.size == 0
