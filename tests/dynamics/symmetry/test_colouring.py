"""The coarsest balanced colouring, against a refinement of lists in plain Python."""

from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, random_classes, single_common_token, syn_medium, syn_small
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import BALANCED, NOT_BALANCED, UNDECIDED
from snapdyn.dynamics.symmetry import colouring as module
from snapdyn.dynamics.symmetry.colouring import Colouring, balanced_colouring, bits, counted, is_balanced
from tests.dynamics.symmetry.helpers import random_system

NUMBERED = ("slot", "shared", "entry", "output", "sequence_class")


def found(system: MeanField, most: float | None = None) -> Colouring | None:
    return balanced_colouring(system.layout, system.initial_state()[: system.layout.num_slots], most)


class Numbers:
    """Gives equal keys equal numbers."""

    def __init__(self) -> None:
        self.of: dict[Hashable, int] = {}

    def __call__(self, *key: Hashable) -> int:
        return self.of.setdefault(key, len(self.of))


def numbered(keys: Iterable[Hashable]) -> list[int]:
    """A list with equal keys replaced by equal numbers, in order of appearance."""
    number = Numbers()
    return [number(key) for key in keys]


def refined_by_lists(system: MeanField) -> list[int]:
    """Colours of the state [z, Y] by comparing sorted lists of neighbours, until nothing changes."""
    L = system.layout
    C = L.num_columns
    multiplicity = [1.0] * (C - 1) + [L.last_column_multiplicity]
    state = numbered([*system.initial_state()[: L.num_slots].tolist(), *["Y"] * (L.num_rows * C)])
    while True:
        number = Numbers()
        drivers: list[list[int]] = [[] for _ in state]
        for n in range(L.prior.size):
            rows = dict(enumerate(L.entry_row[L.indptr[n] : L.indptr[n + 1]].tolist(), int(L.indptr[n])))
            label = {
                e: number("f", L.log_p[e], L.multiplicity[e], state[L.entry_slot[e]], e == L.query_entry[n])
                for e in rows
            }
            if L.query_row[n] >= 0:  # the query token is one more entry
                rows[-1], label[-1] = int(L.query_row[n]), number("query")
            value = {(e, o): state[L.num_slots + rows[e] * C + o] for e in rows for o in range(C)}
            own = int(L.column[n])
            a = [
                number("a", multiplicity[o], o == own, *sorted((label[e], value[e, o]) for e in rows)) for o in range(C)
            ]
            g = {e: number("g", label[e], *sorted((a[o], value[e, o]) for o in range(C))) for e in rows}
            whole = number("class", L.prior[n], *sorted(a), -1, *sorted(g.values()))
            for e in rows:
                if e >= 0:
                    drivers[L.entry_slot[e]].append(number(whole, g[e]))
                for o in range(C):
                    drivers[L.num_slots + rows[e] * C + o].append(number(whole, g[e], a[o]))
        finer = numbered((before, *sorted(by)) for before, by in zip(state, drivers, strict=True))
        if len(set(finer)) == len(set(state)):
            return state
        state = finer


@pytest.mark.parametrize("seed", range(25))
def test_colours_are_those_of_lists(seed: int) -> None:
    """Assert the same partition of the state, with queries, priors, starts and residual connections."""
    system, _ = random_system(seed)
    colours = found(system)
    assert colours is not None
    ours = numbered([("z", *[c]) for c in colours.slot.tolist()] + [("Y", c) for c in colours.value.ravel().tolist()])
    assert ours == numbered(refined_by_lists(system))


def check(system: MeanField, colours: Colouring, start: Floats, numbers: list[Ints]) -> tuple[int, Colouring]:
    """The check by tables of other numbers of colours."""
    number = [int(each.max()) + 1 if each.size else 0 for each in numbers]
    return counted(system.layout, colours.pairs, start, numbers, number)


def test_known_sizes() -> None:
    """Assert 43 values for Syn-Small and Syn-Medium with any queries; (3 m + 2) + (m + 1), m distinct tokens."""
    for classes in (syn_small(), *(syn_medium(Q) for Q in range(1, 13))):
        colours = found(MeanField(classes, 1.0, 1.0))
        assert colours is not None
        assert colours.size == 43
    colours = found(MeanField(single_common_token(30, 4, 0.3, 1000), 1.0, 1.0))
    assert colours is not None
    assert colours.size == (3 * 4 + 2) + (4 + 1)


def test_unequal_weights_have_unequal_colours() -> None:
    """Assert that a changed last bit of a weight breaks the symmetry, and that the search gives up when asked."""
    system = MeanField(random_classes(6, 1, 3, seed=1), 1.0, 1.0)
    colours = found(system)
    assert colours is not None
    assert colours.size == system.size
    assert found(system, system.size / 2) is None


@pytest.mark.parametrize("residual", [False, True])
def test_a_colouring_that_is_too_coarse_is_not_balanced(residual: bool) -> None:
    """Assert that merging two colours, of z, Y, entries, outputs or classes, is noticed each time, by both checks."""
    system = MeanField(different_priors(), 1.0, 1.0, residual=residual)
    colours = found(system)
    assert colours is not None
    start = system.initial_state()[: system.layout.num_slots]
    numbers = [getattr(colours, name) for name in NUMBERED]
    assert check(system, colours, start, numbers)[0] == BALANCED
    assert is_balanced(system.layout, colours, start)
    for at, name in enumerate(NUMBERED):
        for kept in range(int(numbers[at].max())):
            merged = np.where(numbers[at] == kept + 1, kept, numbers[at])
            merged -= merged > kept  # colours stay 0, 1, ...
            coarser = [*numbers[:at], merged, *numbers[at + 1 :]]
            answer, found_again = check(system, colours, start, coarser)
            assert answer != BALANCED, name
            assert answer == NOT_BALANCED or not is_balanced(system.layout, found_again, start), name
            assert not is_balanced(system.layout, replace(colours, **{name: merged}), start), name
    start[0] = 1.0
    assert check(system, colours, start, numbers)[0] == NOT_BALANCED
    assert not is_balanced(system.layout, colours, start)


def different_priors() -> SequenceClasses:
    """Syn-Medium with six queries and two kinds of classes, by their priors."""
    classes = syn_medium(6)
    weights = np.where(np.arange(classes.num_classes) % 2 == 0, 1.0, 2.0)
    return SequenceClasses(classes.P, classes.query, classes.next_token, weights, classes.vocab_size)


def test_a_collision_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that colours that collide end in no colouring and never in a wrong one."""
    monkeypatch.setattr(module, "KEPT_BITS", np.uint64(7))
    results = [found(random_system(seed)[0]) for seed in range(20)]
    assert None in results
    for seed, colours in enumerate(results):
        system = random_system(seed)[0]
        start = system.initial_state()[: system.layout.num_slots]
        assert colours is None or is_balanced(system.layout, colours, start)


def test_equal_neighbours_in_another_order() -> None:
    """Assert that a balanced colouring is found where the tables of the quick check do not decide.

    Four classes and four tokens in a ring: each token is shared by two classes, each class has two tokens.
    """
    P = np.zeros((4, 4))
    for n in range(4):
        P[n, n] = P[n, (n + 1) % 4] = 0.5
    system = MeanField(SequenceClasses(P, np.full(4, 4), next_token=5 + np.arange(4), vocab_size=100), 1.0, 1.0)
    colours = found(system)
    assert colours is not None
    start = system.initial_state()[: system.layout.num_slots]
    numbers = [getattr(colours, name) for name in NUMBERED]
    assert check(system, colours, start, numbers)[0] == UNDECIDED
    assert is_balanced(system.layout, colours, start)


def test_zero_has_one_sign() -> None:
    """Assert that a start of -0 has the colour of 0, in both refinements."""
    assert bits(np.array([0.0]))[0] == bits(np.array([-0.0]))[0]
    classes = syn_medium(6)
    z = np.zeros((6, classes.num_tokens))
    z[::2] = -0.0
    colours = found(MeanField(classes, 1.0, 1.0, z_initial=z))
    assert colours is not None
    assert colours.size == 43
