"""The mean field class by class: its numbers do not depend on where its arrays lie."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses
from snapdyn.dynamics.kernels.mean_field.general import mean_field_of_any_columns, mean_field_of_three_columns


@pytest.mark.kernel
@pytest.mark.parametrize(("kernel", "next_tokens"), [(mean_field_of_three_columns, 2), (mean_field_of_any_columns, 60)])
def test_bits_do_not_depend_on_where_arrays_lie(kernel: Any, next_tokens: int) -> None:
    """Assert equal bits where any array of the call lies directly before any other one.

    A loop is vectorised after a test that its arrays lie apart; where they do not, it sums in another order.
    """
    rng = np.random.default_rng(0)
    P = rng.random((60, 80))
    classes = SequenceClasses(
        P / P.sum(axis=1, keepdims=True), np.zeros(60, int), np.arange(60) % next_tokens, vocab_size=90
    )
    system = MeanField(classes, 1.0, 0.3)
    arguments = [rng.normal(size=system.size), np.zeros(system.size), *system.kernel_arguments()]

    def call(arguments: list[Any]) -> bytes:
        loss = kernel(*arguments)
        return bytes(arguments[1].tobytes() + np.float64(loss).tobytes())

    expected = call([array.copy() for array in arguments])
    for first, second in itertools.permutations(range(len(arguments)), 2):
        placed = [array.copy() for array in arguments]
        memory = np.empty(placed[first].nbytes + placed[second].nbytes, np.uint8)
        start = 0
        for i in (first, second):
            array = placed[i]
            placed[i] = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            placed[i][...] = array
            start += array.nbytes
        assert call(placed) == expected
