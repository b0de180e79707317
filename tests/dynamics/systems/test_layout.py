"""Sizes that no index of compiled code reaches are refused when classes are built."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import snapdyn as sd
from snapdyn.core.errors import InputError

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
