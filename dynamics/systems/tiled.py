"""Right-hand side of the mean field for many output columns: prepared arrays, and threads over parts of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.mean_field import tiled as kernel
from snapdyn.dynamics.systems.layout import Layout
from snapdyn.dynamics.threads import cores


class TiledRate:
    """d(state)/dt of the mean field, Eqs. (3)-(5) in expectation, without the residual connection.

    Parameters
    ----------
    layout : Layout
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    threads : int or None
        None: all cores that the process may use at the time of the call. Results do not depend on it.
    """

    def __init__(self, layout: Layout, eta_Y: float, eta_Z: float, threads: int | None = None) -> None:
        self._layout, self._eta_Y, self._eta_Z, self._threads = layout, eta_Y, eta_Z, threads
        order = np.argsort(layout.entry_row, kind="stable")
        classes = np.repeat(np.arange(layout.prior.size), np.diff(layout.indptr))
        self._class_by_row = classes[order].astype(np.uint32)
        self._place = np.empty(order.size, np.uint32)
        self._place[order] = np.arange(order.size)
        self._slots = layout.entry_slot.astype(np.uint32)
        counts = np.bincount(layout.entry_row, minlength=layout.num_rows)
        self._row_start = np.concatenate([[0], np.cumsum(counts)])
        self._row_multiplicity = np.zeros(layout.num_rows)
        self._row_multiplicity[layout.entry_row] = layout.multiplicity
        self._f, self._f_by_row, self._g_by_row = np.empty((3, order.size))
        self._losses = np.empty(layout.prior.size)
        self._tiles = np.empty((-(-layout.num_columns // kernel.TILE), layout.prior.size, kernel.TILE))

    def write(self, state: Floats, out: Floats) -> float:
        """Write d(state)/dt to `out`; return the loss -sum_n p_n ln alpha_n[next]."""
        threads = cores() if self._threads is None else self._threads
        if threads == 1:
            return self._write(state, out, 1, map)
        with ThreadPoolExecutor(threads) as pool:
            return self._write(state, out, threads, pool.map)

    def _write(self, state: Floats, out: Floats, threads: int, each: Callable[..., Any]) -> float:
        L, tiles = self._layout, self._tiles
        shape = L.num_rows, L.num_columns
        Y, rate = state[L.num_slots :].reshape(shape), out[L.num_slots :].reshape(shape)
        rows = self._row_start, self._class_by_row

        def in_parts(run: Callable[..., None], bounds: Ints, *arguments: Any) -> None:
            for _ in each(lambda first, last: run(first, last, *arguments), bounds[:-1], bounds[1:]):
                pass

        def by_work(starts: Ints) -> Ints:
            """Bounds of parts with about equal numbers of entries."""
            inner = np.searchsorted(starts, np.arange(1, threads) * starts[-1] / threads)
            return np.concatenate([[0], inner, [starts.size - 1]])

        of_classes = by_work(L.indptr)
        in_parts(
            kernel.attention_pass,
            *(of_classes, state, L.indptr, self._slots, self._place, L.log_p, L.multiplicity, self._f, self._f_by_row),
        )
        in_parts(
            kernel.logits_pass,
            *(np.arange(len(tiles) + 1), Y, *rows, self._row_multiplicity, self._f_by_row, tiles),
        )
        in_parts(
            kernel.error_pass,
            *(of_classes, L.num_columns, L.column, L.last_column_multiplicity, L.prior, tiles, self._losses),
        )
        in_parts(
            kernel.decoder_pass,
            *(by_work(self._row_start), Y, *rows, self._f_by_row, L.last_column_multiplicity, self._eta_Y, tiles),
            *(self._g_by_row, rate),
        )
        kernel.attention_rate_pass(
            L.indptr, self._slots, self._place, L.multiplicity, self._f, self._g_by_row, self._eta_Z, out[: L.num_slots]
        )
        return float(self._losses.sum())
