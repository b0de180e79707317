"""No index that is out of range reaches compiled code, which follows it without a check."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.dynamics.systems.layout import Layout, build_layout

FAR = 10**8
INDICES = (
    "indptr", "entry_row", "entry_slot", "column", "query_row", "query_entry", "slot_of_z", "row_of_token",
)  # fmt: skip
SHORT = ("entry_slot", "entry_first", "log_p", "multiplicity", "prior", "column", "query_row", "query_entry")


def layout() -> Layout:
    classes = sd.SequenceClasses([[0.4, 0.6, 0.0], [0.5, 0.0, 0.5]], [1, 2], vocab_size=10)
    return build_layout(classes, classes.check_z(None), residual=True)


@pytest.mark.parametrize("name", INDICES)
def test_a_layout_with_an_index_out_of_range_is_refused(name: str) -> None:
    """Assert that the layout, through which all indices of classes go, names the array."""
    right = layout()
    for value in (FAR, -2):
        array = getattr(right, name).copy()
        array[1] = value
        with pytest.raises(InputError, match=rf"a changed P \(.*{name}"):
            dataclasses.replace(right, **{name: array})


@pytest.mark.parametrize("name", SHORT)
def test_a_layout_with_an_array_that_is_too_short_is_refused(name: str) -> None:
    """Assert that arrays of entries and of classes have one value for each."""
    right = layout()
    with pytest.raises(InputError, match=rf"a changed P \(.*{name}"):
        dataclasses.replace(right, **{name: getattr(right, name)[:-1]})


def test_a_layout_whose_entries_go_backwards_is_refused() -> None:
    """Assert that the entries of each class follow those of the class before."""
    right = layout()
    with pytest.raises(InputError, match="a changed P"):
        dataclasses.replace(right, indptr=np.array([0, 4, 2]))


DOORS: dict[str, Callable[[], Any]] = {
    "tokens of sparse P": lambda: sd.SequenceClasses(
        sparse.csr_array((np.ones(2), [0, 1], [0, 1, 2]), shape=(2, 2**62)), [0, 1]
    ),
    "rows of queries": lambda: sd.SequenceClasses([[1.0]], [2**52], vocab_size=2**53).gram(residual=True),
}


@pytest.mark.parametrize("call", DOORS.values(), ids=DOORS)
def test_indices_of_users_are_checked_at_the_door(call: Callable[[], Any]) -> None:
    """Assert one sentence for sizes that no index reaches; other indices: the tests of what takes them."""
    with pytest.raises(InputError, match=r"^expected .* received "):
        call()
