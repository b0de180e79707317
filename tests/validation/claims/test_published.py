"""Reproductions of published experiments: the table of Fig. 6."""

import hashlib
from importlib import resources

import numpy as np
import pytest

from snapdyn.validation.claims.published import (
    distinct_entropy,
    figure_6,
    published_cells,
)


def test_the_published_numbers_are_the_copied_ones() -> None:
    """Assert the digest of the table, 64 different cells, and entropies below that of ten equal distinct tokens.

    A digit changed by mistake would pass for a published number.
    """
    content = (resources.files("snapdyn.validation") / "reference" / "syn_medium_entropy.csv").read_bytes()
    digest = "7be8114dede9faa6e4159681eadd454bf8c14562a0ffad465b1b0c2a65d622ca"
    assert hashlib.sha256(content).hexdigest() == digest
    cells = published_cells()
    assert len({(row["num_queries"], row["eta_Z"], row["eta_Y_over_eta_Z"]) for row in cells}) == len(cells) == 64
    assert all(0 < row["entropy_mean"] < np.log(10) for row in cells)


def test_a_cell_is_compared_on_both_standard_errors() -> None:
    """Assert z from both sides' errors and the published rounding, and that a shifted value is rejected."""
    row = next(r for r in published_cells() if r["num_queries"] == 3 and r["eta_Z"] == 1)
    (cell,) = figure_6(range(10), cells=[row])
    nearest = cell.published + np.clip(cell.ours.mean() - cell.published, -0.5e-3, 0.5e-3)
    error = np.hypot(cell.ours.std(ddof=1), cell.published_std + 0.5e-3) / np.sqrt(10)
    assert cell.z == pytest.approx((cell.ours.mean() - nearest) / error, abs=1e-12)
    (shifted,) = figure_6(range(10), lambda run: distinct_entropy(run) + 10 * error, [row])
    assert cell.p > 0.05 / 64 > shifted.p
