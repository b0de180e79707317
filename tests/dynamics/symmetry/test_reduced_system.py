"""Frozen and modified decoders and finite sequences on representatives, against the full systems."""

from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import (
    ClassKind,
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
    symmetric_classes,
    syn_medium,
)
from snapdyn.dynamics.symmetry import colouring, reduced_system, search
from snapdyn.dynamics.symmetry.colouring import balanced_colouring, has_equivalent_classes
from snapdyn.dynamics.symmetry.frozen_decoder import ReducedFrozenDecoder
from snapdyn.dynamics.symmetry.reduction import reduced
from snapdyn.dynamics.systems.base import System
from snapdyn.errors import InputError
from tests.dynamics.symmetry.helpers import plain, random_other, random_system, searched
from tests.dynamics.symmetry.sums import coarsest, every_value, numbered

RUNS = [0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 18, 19, 20, 22, 23, 24]


def rounding(system: System) -> float:
    """Largest relative difference that rounding leaves: of sums of a thousand terms, and of the inverse of G."""
    if not isinstance(system, ModifiedDecoder):
        return 1e-13
    return 1e-13 * float(np.linalg.cond(system.classes.gram(system.z_initial)))


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.kernel] if s < 10 else []) for s in range(200)])
def test_rates_are_those_of_the_full_system(seed: int) -> None:
    """Assert the rate, the loss and what is saved at a random symmetric state, and that copies are found."""
    system, symmetric = random_other(seed)
    small = reduced(system)
    if small is None:
        assert not symmetric
        return
    state = small.initial_state() + np.abs(np.random.default_rng(seed).normal(size=small.size))
    full_state = small.full_state(state)
    rate, full_rate = np.empty(small.size), np.empty(system.size)
    small.write_rate(state, rate)
    system.write_rate(full_state, full_rate)
    bound = rounding(system)
    np.testing.assert_allclose(small.full_state(rate), full_rate, rtol=0, atol=bound * np.abs(full_rate).max())
    assert small.loss(state) == pytest.approx(system.loss(full_state), rel=1e-12)
    assert np.array_equal(small.z_support(state), system.z_support(full_state))
    assert [small.value_name(i) for i in range(small.size)] == [system.value_name(int(i)) for i in first_of(small)]


def first_of(small: System) -> np.ndarray:
    """The first full value of each value of a reduced system."""
    return np.unique(small.full_state(np.arange(small.size, dtype=float)), return_index=True)[1]


def colours_of(system: System) -> list[int]:
    """Colours of the state that the system on representatives has, for all tokens and outputs."""
    small = reduced(system)
    state = np.arange(float(system.size)) if small is None else small.full_state(np.arange(float(small.size)))
    return numbered(every_value(system, state))


@pytest.mark.parametrize("seed", range(200))
def test_colours_are_the_coarsest(seed: int) -> None:
    """Assert that one search for all systems finds the partition that the sums of each system have.

    The sums go over all tokens and outputs, and their refinement compares sorted lists: it knows of no lumped tokens,
    shared columns or hashes.
    """
    system, _ = random_other(seed)
    assert colours_of(system) == coarsest(system)


def test_a_collision_gives_no_wrong_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that hashes that collide end in no reduction, or in one to values that have the same colour."""
    monkeypatch.setattr(colouring, "KEPT_BITS", np.uint64(7))
    refused = 0
    for seed in range(100):
        system, symmetric = random_other(seed)
        theirs, ours = coarsest(system), colours_of(system)
        assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)), seed
        refused += symmetric and reduced(system) is None
    assert refused > 0


def test_the_search_gives_up() -> None:
    """Assert that the search ends at the number of colours asked for, and the look at the classes before it.

    The search finds the 43 colours of z and Y. The decoders keep 3 and 2 values of their state, Eq. (10) keeps 12.
    """
    classes = syn_medium(3)
    systems = [
        FrozenDecoder(classes, 1.0),
        FrozenDecoder(classes, 1.0, modified=True),
        ModifiedDecoder(classes, 1.0, 1.0),
        FiniteLengthMeanField(classes, 1.0, 1.0, 1000),
    ]
    for system, size in zip(systems, (3, 2, 12, 43), strict=True):
        small, most = reduced(system), reduced(system, size / system.size)
        assert small is not None
        assert small.size == size
        assert most is not None
        assert most.size == size
        assert reduced(system, (size - 1) / system.size) is None
        incidence, start = searched(system)
        found = balanced_colouring(incidence, start, 43)
        assert found is not None
        assert found.size == 43
        assert balanced_colouring(incidence, start, 42) is None
        assert has_equivalent_classes(incidence, start)
    assert not has_equivalent_classes(*searched(FrozenDecoder(random_classes(6, 1, 3, seed=1), 1.0)))


def test_systems_of_the_same_classes_share_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one search for the systems whose attention moves, another for frozen attention, and none the second time.

    Other starts of the same classes have a search of their own, also where as many values of them are equal.
    """
    searches = []
    monkeypatch.setattr(search, "balanced_colouring", lambda *each: searches.append(each) or balanced_colouring(*each))
    classes = plain(syn_medium(6))
    for number in (2, 2):
        for system in (
            MeanField(classes, 1.0, 2.0),
            FiniteLengthMeanField(classes, 2.0, 1.0, 10_000),
            ModifiedDecoder(classes, 1.0, 0.5),
            ModifiedDecoder(classes, 1.0, 0.5, beta="leading"),
            FrozenDecoder(classes, 1.0),
            FrozenDecoder(classes, 2.0),
            FrozenDecoder(classes, 1.0, modified=True),
        ):
            assert reduced(system, 0.5) is not None
        assert len(searches) == number
    alike = symmetric_classes(
        ClassKind([0.4], [0.2, 0.2, 0.2], 4), vocab_size=20
    )  # three distinct tokens with one value of z each, or two and one
    for first in (1, 2):
        z = np.zeros((1, alike.num_tokens))
        z[:, 1 : 1 + first] = 1.0
        shared, fresh = (MeanField(each, 1.0, 0.5, z) for each in (alike, plain(alike)))
        small, own = reduced(shared), reduced(fresh)
        assert small is not None
        assert own is not None
        state = np.linspace(0.1, 1.0, small.size)
        np.testing.assert_array_equal(small.full_state(state), own.full_state(state))
        np.testing.assert_array_equal(small.derivative(0.0, state), own.derivative(0.0, state))


def test_lists_that_need_more_room() -> None:
    """Assert the rates where nearly nothing is equal, so that there are more terms than there is room for at first."""
    classes = random_classes(25, 2, 8)
    classes = SequenceClasses(classes.P, classes.query, classes.next_token, vocab_size=classes.vocab_size)
    modified, frozen = ModifiedDecoder(classes, 1.0, 0.5), FrozenDecoder(classes, 1.0)
    colours = np.arange(frozen.size).reshape(25, -1)
    for full, small in ((modified, reduced(modified)), (frozen, ReducedFrozenDecoder(frozen, colours, np.arange(25)))):
        assert small is not None
        state = small.initial_state() + np.abs(np.random.default_rng(0).normal(size=small.size))
        rate = full.derivative(0.0, small.full_state(state))
        bound = rounding(full) * np.abs(rate).max()
        np.testing.assert_allclose(small.full_state(small.derivative(0.0, state)), rate, rtol=0, atol=bound)
    pulls = reduced(modified)._constants[-5]  # type: ignore[union-attr]
    assert pulls.size > 1000
    assert small._constants[-2].size > 10 * frozen.size  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "counts"), [("frozen", (4, 7)), ("modified", (5, 7, 9, 12)), ("finite length", (4, 5, 7))]
)
def test_a_wrong_count_is_seen(kind: str, counts: tuple[int, ...]) -> None:
    """Assert that one count or weight that is wrong by one changes the rate by far more than rounding."""
    classes = syn_medium(2)
    full: System = FrozenDecoder(classes, 1.0)
    if kind == "modified":
        full = ModifiedDecoder(classes, 1.0, 1.0)
    elif kind == "finite length":
        full = FiniteLengthMeanField(classes, 1.0, 1.0, 1000)
    small: Any = reduced(full)
    state = small.initial_state() + np.abs(np.random.default_rng(0).normal(size=small.size))
    right, wrong = np.empty(small.size), np.empty(small.size)
    small.write_rate(state, right)
    constants = small._constants
    for place in counts:
        changed = constants[place].copy()
        changed.ravel()[-1] += 1
        small._constants = (*constants[:place], changed, *constants[place + 1 :])
        small._arguments = small.kernel_arguments()
        small.write_rate(state, wrong)
        assert np.abs(right - wrong).max() > 1e-6 * np.abs(right).max(), place


@pytest.mark.parametrize("seed", RUNS)
@pytest.mark.filterwarnings("ignore::snapdyn.dynamics.systems.finite_length.ExpansionWarning")
def test_runs_are_those_of_the_full_system(seed: int) -> None:
    """Assert equal steps, and everything that is saved, to rounding that grows along the run."""
    system, symmetric = random_other(seed)
    times = log_times(0.1, 30.0, 7) / max(system.eta_Y, system.eta_Y * system.rate_ratio)
    decoder = not isinstance(system, ModifiedDecoder)
    runs = [
        integrate(system, times, save_decoder=decoder, method="DOP853" if uncompiled(system) else "compiled", reduce=on)
        for on in (False, True)
    ]
    full, small = runs
    assert full.status == small.status
    assert small.stats["full_state_size"] == full.stats["state_size"] == full.stats["full_state_size"] == system.size
    assert not symmetric or small.stats["state_size"] < system.size
    assert small.stats["steps"] == full.stats["steps"]
    tables = [
        {"z": run.z, "attention": run.attention, "loss": run.loss, **({"Y": run.Y} if decoder else {}), **run.extra}
        for run in runs
    ]
    assert tables[0].keys() == tables[1].keys()
    for name, theirs in tables[0].items():
        ours = tables[1][name]
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * (1 + np.nanmax(np.abs(theirs))), err_msg=name)
    assert set(small.invariants) == set(full.invariants)
    assert all(values.max() < 1e-10 * (1 + np.abs(full.z).max()) for values in small.invariants.values())


def uncompiled(system: System) -> bool:
    return isinstance(system, FiniteLengthMeanField)


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


def test_auto_reduces_what_is_large_and_symmetric() -> None:
    """Assert sizes that do not depend on the number of queries, logits as before, and the same in ensembles."""
    classes = syn_medium(40)
    assert classes.num_classes == 80
    systems: list[tuple[System, int]] = [
        (FrozenDecoder(classes, 1.0), 3),
        (FrozenDecoder(classes, 1.0, modified=True), 2),
        (ModifiedDecoder(classes, 1.0, 1.0), 12),
        (FiniteLengthMeanField(classes, 1.0, 1.0, 10_000), 43),
    ]
    for system, size in systems:
        run, full = (integrate(system, [10.0, 300.0], reduce=on) for on in ("auto", False))
        assert (run.stats["state_size"], run.stats["full_state_size"]) == (size, system.size)
        assert run.stats["method"] == full.stats["method"] == "DOP853"
        np.testing.assert_allclose(run.loss, full.loss, rtol=1e-9)
        np.testing.assert_allclose(run.z, full.z, rtol=0, atol=1e-9 * max(1e-9, np.abs(full.z).max()))
        (member,) = integrate_many([system], [10.0, 300.0])
        assert np.array_equal(member.z, run.z)
    for small in (FrozenDecoder(syn_medium(1), 1.0), ModifiedDecoder(syn_medium(1), 1.0, 1.0)):
        assert integrate(small, [1.0]).stats["state_size"] == small.size


def test_many_saves_are_lifted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert the same observables whatever the number of states that are lifted at once."""
    system = FrozenDecoder(single_common_token(6, 2, 0.3, 30), 1.0)
    times = log_times(1.0, 100.0, 30)
    whole = integrate(system, times, reduce=True)
    monkeypatch.setattr(reduced_system, "NUMBERS_AT_ONCE", 7 * system.size)
    parts = integrate(system, times, reduce=True)
    assert np.array_equal(whole.invariants["row sum of Y"], parts.invariants["row sum of Y"])
    assert parts.extra["own_logit"].shape == (30, 6)


def test_a_reduction_that_is_asked_for_chooses_a_method_that_reduces() -> None:
    """Assert that reduce=True with method "auto" reduces also where CVODE is the fastest method of the full system."""
    system = FiniteLengthMeanField(syn_medium(2), 1e-3, 10.0, 10_000)
    run = integrate(system, [1.0, 10.0], reduce=True)
    assert run.stats["method"] == "DOP853"
    assert run.stats["state_size"] < run.stats["full_state_size"]


def test_events_see_the_full_state() -> None:
    system = FiniteLengthMeanField(syn_medium(2), 1.0, 1.0, 10_000)
    sizes = set()

    def half(t: float, state: object) -> float:
        sizes.add(state.values.size)  # type: ignore[attr-defined]
        return float(state.loss) - 1.0  # type: ignore[attr-defined]

    runs = [integrate(system, [1e3], events={"half": Event(half)}, reduce=on) for on in (True, False)]
    assert sizes == {system.size}
    assert runs[0].events[0].t == pytest.approx(runs[1].events[0].t, rel=1e-10)


DESCENTS: list[dict[str, Any]] = [
    {},
    {"momentum": 0.9},
    {"optimizer": "adam", "betas": (0.8, 0.9), "eps": 1e-3},
    {"weight_decay": 0.01},
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


def test_a_descent_that_diverges_says_so() -> None:
    """Assert the message of the run on all values, and the records until then."""
    runs = [
        sgd(single_common_token(4, 2, 0.3, 20), 1e10, 0.1, 100, None, weight_decay=10.0, reduce=on)
        for on in (False, True)
    ]
    assert [run.status for run in runs] == ["diverged", "diverged"]
    assert runs[0].message == runs[1].message
    assert runs[0].t.size == runs[1].t.size


def test_an_interrupted_search_ends_the_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.dynamics.training.sgd_run.reduced", interrupted)
    run = sgd(syn_medium(10), 0.5, 0.5, 200, batch_size=None)
    assert run.status == "interrupted"
    assert run.t.size == 0
