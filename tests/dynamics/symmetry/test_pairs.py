"""The entries of a layout with the query tokens of the residual connection."""

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, syn_medium
from snapdyn.dynamics.symmetry.pairs import pairs


@pytest.mark.parametrize("residual", [False, True])
def test_entries_and_shared_rows(residual: bool) -> None:
    """Assert the rows of each class, the query token last, and that a row is shared if several entries have it."""
    layout = MeanField(syn_medium(3), 1.0, 1.0, residual=residual).layout
    p = pairs(layout)
    for n in range(layout.prior.size):
        entries = slice(layout.indptr[n], layout.indptr[n + 1])
        expected = [*layout.entry_row[entries], *([layout.query_row[n]] if residual else [])]
        assert p.row[p.indptr[n] : p.indptr[n + 1]].tolist() == expected
    assert np.array_equal(p.slot[p.slot >= 0], layout.entry_slot)
    number = np.bincount(p.row)[p.row]
    assert np.array_equal(p.shared_row >= 0, number > 1)
    assert np.unique(p.row[number > 1]).size == p.num_shared
