"""The coarsest balanced colouring, against a refinement that compares sorted lists."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, random_classes, single_common_token, syn_medium, syn_small
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import BALANCED, NOT_BALANCED, UNDECIDED
from snapdyn.dynamics.symmetry import colouring as module
from snapdyn.dynamics.symmetry.colouring import Colouring, balanced_colouring, counted, is_balanced
from snapdyn.dynamics.symmetry.pairs import Incidence
from snapdyn.dynamics.systems.base import System
from tests.dynamics.symmetry.helpers import random_other, random_system, searched
from tests.dynamics.symmetry.sums import coarsest, every_value, numbered

NUMBERED = ("slot", "shared", "entry", "output", "sequence_class")


def found(system: System, most: float | None = None) -> Colouring | None:
    return balanced_colouring(*searched(system), most)


def of_every_value(system: MeanField, colours: Colouring) -> list[int]:
    """Colours of z and Y for all tokens and outputs."""
    return numbered(every_value(system, np.concatenate([colours.slot, colours.num_slots + colours.value.ravel()])))


@pytest.mark.parametrize("seed", range(200))
def test_colours_are_those_of_lists(seed: int) -> None:
    """Assert the same partition of z and Y for all tokens and outputs, with queries, priors, starts and residuals."""
    system, _ = random_system(seed)
    colours = found(system)
    assert colours is not None
    assert of_every_value(system, colours) == coarsest(system)


def check(layout: Incidence, colours: Colouring, start: Floats, numbers: list[Ints]) -> tuple[int, Colouring]:
    """The check by tables of other numbers of colours."""
    number = [int(each.max()) + 1 if each.size else 0 for each in numbers]
    return counted(layout, colours.pairs, start, numbers, number)


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


def different_priors() -> SequenceClasses:
    """Syn-Medium with six queries and two kinds of classes, by their priors."""
    classes = syn_medium(6)
    weights = np.where(np.arange(classes.num_classes) % 2 == 0, 1.0, 2.0)
    return SequenceClasses(classes.P, classes.query, classes.next_token, weights, classes.vocab_size)


# Mean fields without and with the residual connection, and seeds of other systems with equal values.
CASES = ["mean field", "residual", 0, 20, 25, 100, 12, 77, 8, 53, 19, 39]


def of_case(case: str | int) -> System:
    if isinstance(case, int):
        return random_other(case)[0]
    return MeanField(different_priors(), 1.0, 1.0, residual=case == "residual")


@pytest.mark.parametrize("case", CASES)
def test_a_colouring_that_is_too_coarse_is_not_balanced(case: str | int) -> None:
    """Assert that merging two colours, of z, Y, entries, outputs or classes, is noticed each time, by both checks."""
    system = of_case(case)
    colours, (layout, start) = found(system), searched(system)
    assert colours is not None
    numbers = [getattr(colours, name) for name in NUMBERED]
    assert check(layout, colours, start, numbers)[0] == BALANCED
    assert is_balanced(layout, colours, start)
    for at, name in enumerate(NUMBERED):
        merges = [(kept, kept + 1) for kept in range(int(numbers[at].max(initial=0)))]
        for kept, gone in [*merges, *((0, gone) for _, gone in merges[1:])]:
            merged = np.where(numbers[at] == gone, kept, numbers[at])
            merged -= merged > gone  # colours stay 0, 1, ...
            coarser = [*numbers[:at], merged, *numbers[at + 1 :]]
            answer, found_again = check(layout, colours, start, coarser)
            assert answer != BALANCED, name
            assert answer == NOT_BALANCED or not is_balanced(layout, found_again, start), name
            assert not is_balanced(layout, replace(colours, **{name: merged}), start), name


@pytest.mark.parametrize("case", CASES)
def test_a_changed_weight_is_not_balanced(case: str | int) -> None:
    """Assert that both checks notice the last bit of one start, prior or weight, and another next token."""
    system = of_case(case)
    colours, (layout, start) = found(system), searched(system)
    assert colours is not None
    numbers = [getattr(colours, name) for name in NUMBERED]

    def is_refused(colours: Colouring, layout: Incidence, start: Floats) -> bool:
        return check(layout, colours, start, numbers)[0] == NOT_BALANCED and not is_balanced(layout, colours, start)

    assert is_refused(colours, layout, one_changed(start, colours.slot))
    for name in ("log_p", "multiplicity"):
        pairs = colours.pairs._replace(**{name: one_changed(getattr(colours.pairs, name), colours.entry)})
        assert is_refused(replace(colours, pairs=pairs), layout, start), name
    prior, column = one_changed(layout.prior, colours.sequence_class), layout.column.copy()
    assert is_refused(colours, with_changed(layout, prior=prior), start)
    n, output = divmod(repeated(colours.output.ravel()), layout.num_columns)
    column[n] = output if column[n] != output else (output + 1) % layout.num_columns
    assert is_refused(colours, with_changed(layout, column=column), start)


def repeated(colour: Ints) -> int:
    """The first value of the largest colour, which has several."""
    members = np.bincount(colour)[colour]
    assert members.max() > 1
    return int(members.argmax())


def one_changed(values: Floats, colour: Ints) -> Floats:
    """The values with another last bit of one whose colour others have."""
    changed, at = values.copy(), repeated(colour)
    changed[at] = np.nextafter(changed[at], np.inf)
    return changed


def with_changed(layout: Any, **values: Any) -> Incidence:
    """The layout with other values."""
    return layout._replace(**values) if isinstance(layout, tuple) else replace(layout, **values)


def test_a_collision_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that colours that collide end in no colouring and never in a wrong one."""
    monkeypatch.setattr(module, "KEPT_BITS", np.uint64(7))
    results = [found(random_system(seed)[0]) for seed in range(20)]
    assert None in results
    for seed, colours in enumerate(results):
        system = random_system(seed)[0]
        if colours is not None:
            assert is_balanced(system.layout, colours, searched(system)[1])
            ours = of_every_value(system, colours)
            assert len(set(zip(ours, coarsest(system), strict=True))) == len(set(ours))


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
    assert check(system.layout, colours, start, numbers)[0] == UNDECIDED
    assert is_balanced(system.layout, colours, start)


def test_zero_has_one_sign() -> None:
    """Assert that a start of -0 has the colour of 0."""
    classes = syn_medium(6)
    z = np.zeros((6, classes.num_tokens))
    z[::2] = -0.0
    colours = found(MeanField(classes, 1.0, 1.0, z_initial=z))
    assert colours is not None
    assert colours.size == 43
