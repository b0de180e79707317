"""Which runs are reduced, and what they say; descent on one value for all that stay equal."""

from typing import Any

import numpy as np
import pytest

from snapdyn.core import memory
from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    Event,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    State,
    integrate,
    integrate_many,
    log_times,
    random_classes,
    sgd,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.reduction import LEAST_SIZE, reduced
from tests.dynamics.systems.helpers import plain, random_system


def test_auto_reduces_what_is_large_and_symmetric() -> None:
    """Assert sizes that do not depend on the number of queries, logits as before, and the same in ensembles."""
    classes = syn_medium(20)
    systems: list[tuple[System, int]] = [
        (MeanField(plain(syn_medium(10)), 1.0, 1.0), 43),
        (FrozenDecoder(classes, 1.0), 43),
        (ModifiedDecoder(classes, 1.0, 1.0), 12),
        (FiniteLengthMeanField(classes, 1.0, 1.0, 10_000), 43),
    ]
    for system, size in systems:
        run, full = (integrate(system, [10.0, 100.0], reduce=on) for on in ("auto", False))
        assert (run.stats["state_size"], run.stats["full_state_size"]) == (size, system.size)
        assert run.stats["method"] == full.stats["method"] == "DOP853"
        np.testing.assert_allclose(run.loss, full.loss, rtol=1e-7 if isinstance(system, FrozenDecoder) else 1e-9)
        np.testing.assert_allclose(run.z, full.z, rtol=0, atol=1e-9 * max(1e-9, np.abs(full.z).max()))
        (member,) = integrate_many([system], [10.0, 100.0])
        assert np.array_equal(member.z, run.z)


def test_kinds_ask_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert no reduction beyond the free memory, and a sentence where it was asked for; saves count in full."""
    pairs = random_classes(40, 2, 5)
    P = np.vstack([pairs.P.toarray()] * 2)  # each class twice: forty kinds
    twice = MeanField(SequenceClasses(P, np.tile(pairs.query, 2), vocab_size=200), 1.0, 1.0)
    medium = MeanField(plain(syn_medium(10)), 1.0, 1.0)
    size = twice.size + medium.size  # what is made once is made before memory is short
    assert size > 0
    assert twice.z_initial is not None
    small = reduced(medium)
    assert small is not None
    monkeypatch.setattr(memory, "ALWAYS_FREE", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 8.0 * medium.size * 1000)
    times = log_times(1.0, 10.0, 1001)
    with pytest.raises(InputError, match=f"1001 saved times of {medium.size} numbers"):
        integrate(medium, times, save_decoder=True, reduce=False)
    run = integrate(medium, times, save_decoder=True)
    monkeypatch.setattr(memory, "free_memory", lambda: 8.0 * medium.size * 500)
    with pytest.raises(InputError, match=r"Y of .* at 1001 times to fit"):
        assert run.Y is not None
    monkeypatch.setattr(memory, "free_memory", lambda: 1e3)
    assert twice.size >= LEAST_SIZE
    assert reduced(twice, asked=False) is None
    with pytest.raises(InputError, match="40 kinds of classes to fit"):
        reduced(twice)


def test_events_see_the_full_state() -> None:
    """Assert the values, the logits and the time of an event."""
    medium = FiniteLengthMeanField(plain(syn_medium(2)), 1.0, 1.0, 10_000)
    sizes = set()

    def half(t: float, state: State) -> float:
        sizes.add(state.values.size)
        return float(state.loss) - 1.0

    run, full = (integrate(medium, [1e4], events={"half": Event(half)}, reduce=on) for on in (True, False))
    assert sizes == {medium.size}
    assert run.events[0].t == pytest.approx(full.events[0].t, rel=1e-10)


def test_refusals() -> None:
    system = MeanField(plain(syn_small()), 1.0, 1.0)
    with pytest.raises(InputError, match="expected reduce to be true, false or 'auto', received 'yes'"):
        integrate(system, [1.0], reduce="yes")
    with pytest.raises(InputError, match=r"class declares itself reducible, .* and the default integrator"):
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


@pytest.mark.parametrize("seed", range(10))
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
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=40e-14 * (1e-6 + np.abs(theirs).max()), err_msg=name)
    assert small.invariants.keys() == full.invariants.keys()
    assert all(each.max() < 1e-13 for each in small.invariants.values())
    # It has moved where there is something to move.
    assert np.abs(full.z[-1] - full.z[0]).max() > 1e-4 or not mean.classes.common_tokens().size


def test_descent_is_reduced_where_it_is_large() -> None:
    """Assert 43 values of Syn-Medium by default, all of them in short, sampled or other runs, and a refusal."""
    classes = syn_medium(10)
    sizes = [
        sgd(classes, 0.5, 0.5, steps, batch, init=init, record=[steps]).stats["state_size"]
        for steps, batch, init in ((100, None, "zeros"), (99, None, "zeros"), (100, 1, "zeros"), (100, None, "uniform"))
    ]
    assert sizes[0] == 43
    assert min(sizes[1:]) > 4000
    with pytest.raises(InputError, match=r"batch_size=None and Y\(0\) = 0 for reduce=True"):
        sgd(classes, 0.5, 0.5, 10, batch_size=1, reduce=True)


def test_auto_reduces_nothing_else() -> None:
    """Assert the full size of small systems, and of large ones whose weights all differ."""
    small, unlike = syn_medium(1), random_classes(20, 2, 60)
    for system in (
        MeanField(plain(syn_small()), 1.0, 1.0),
        FrozenDecoder(small, 1.0),
        ModifiedDecoder(small, 1.0, 1.0),
        MeanField(random_classes(20, 2, 5), 1.0, 1.0),
        ModifiedDecoder(unlike, 1.0, 1.0),
        FiniteLengthMeanField(unlike, 1.0, 1.0, 10_000),
    ):
        assert integrate(system, [1.0]).stats["state_size"] == system.size
