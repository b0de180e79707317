"""The full mean-field system: decoder and attention coupled, no separation of time scales."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.mean_field import tiled
from snapdyn.dynamics.kernels.mean_field.general import (
    mean_field_of_any_columns,
    mean_field_of_three_columns,
    three_column_rate,
)
from snapdyn.dynamics.systems.base import ConservedSum, System, checked_classes
from snapdyn.dynamics.systems.layout import Layout, build_layout, start_key, z_row_sums
from snapdyn.errors import flag, positive, whole
from snapdyn.memory import scratch
from snapdyn.parallel import cores

LARGEST_FULL = 10**7  # state values that are integrated one by one where classes carry their quotient
LARGEST_STATE = 2**32 - 1  # the kernel's indices have 32 bits


class MeanField(System):
    """Mean field: the expectation of the SGD step (3)-(4) as a flow, T infinite, general priors p_n.

    Y' = eta_Y sum_n p_n u_n (e_n - alpha_n)^T,  z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (g_n - f_n (f_n . g_n)),
    g_n = Y (e_n - alpha_n), u_n = f_n, from Y(0) = 0.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    z_initial : (Q, M) array, optional
        Initial logits, rows in increasing query id: a prior on attention. Default 0.
    residual : bool
        Residual connection: u_n = (f_n + e_psi(n))/|f_n + e_psi(n)|; the query token is a row of Y.

    Raises
    ------
    InputError
        Rates that are not positive, or classes whose state is too large for 32-bit indices.

    Examples
    --------
    >>> import snapdyn as sd
    >>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
    >>> system.size, system.rate_ratio
    (85, 1.0)
    >>> sd.integrate(system, [0.0, 10.0, 100.0]).loss.round(3)
    array([3.526, 0.715, 0.028])
    """

    shares_logits = True
    compiled = integrator_of(mean_field_of_any_columns, mean_field_of_any_columns)
    compiled_for_three_columns = integrator_of(three_column_rate, mean_field_of_three_columns)

    def __init__(
        self,
        classes: SequenceClasses,
        eta_Y: float,
        eta_Z: float,
        z_initial: ArrayLike | None = None,
        residual: bool = False,
    ) -> None:
        self.classes: SequenceClasses = checked_classes(classes)
        self.eta_Y, self.eta_Z = positive("eta_Y", eta_Y), positive("eta_Z", eta_Z)
        if z_initial is not None:
            self.z_initial = classes.check_z(z_initial)
            self.z_initial.flags.writeable = False  # layouts are kept for this start
        self.residual = flag("residual", residual)
        self.parameters = {"eta_Y": self.eta_Y, "eta_Z": self.eta_Z, "residual": self.residual}
        # Symmetric classes that start alike need nothing of the size of all classes unless it is asked for.
        self.carries_quotient = (
            type(self) is MeanField
            and isinstance(classes, SymmetricClasses)
            and not self.residual
            and (z_initial is None or not self.z_initial.any())
        )
        if not self.carries_quotient:
            self._require_indices()

    @property
    def needs_quotient(self) -> bool:
        """Whether the state of all classes is so large that, by default, its quotient by declared kinds is integrated.

        In this case no run needs to make steps of the full system.
        """
        return self.carries_quotient and self.size > LARGEST_FULL

    @cached_property
    def z_initial(self) -> Floats:  # type: ignore[override]
        """(Q, M) attention logits at t = 0; zeros are one read-only array, which all systems of these classes share."""
        return self.classes.kept.get_or_make("zeros", b"", self._zeros)

    def _zeros(self) -> Floats:
        zeros = self.classes.check_z(None)
        zeros.flags.writeable = False
        return zeros

    @property
    def has_z(self) -> bool:
        return True

    @cached_property
    def layout(self) -> Layout:
        """Layout of the state."""
        kind = ("layout", self.residual)
        return self.classes.kept.get_or_make(
            kind, self.start_key, lambda: build_layout(self.classes, self.z_initial, self.residual)
        )

    @cached_property
    def start_key(self) -> bytes:
        """Key that is different for different initial logits; empty for zeros."""
        return start_key(self.z_initial) if "z_initial" in vars(self) else b""

    @cached_property
    def size(self) -> int:
        """Number of state values."""
        if self.carries_quotient and isinstance(self.classes, SymmetricClasses):
            return self.classes.exchangeable.size(self.classes.vocab_size)
        return self.layout.size

    @property
    def multiplications(self) -> float:
        # Each entry of P meets each column of Y twice: in the outputs of its class, and in the rate of its logit.
        return super().multiplications + 2.0 * self.layout.entry_row.size * self.layout.num_columns

    @cached_property
    def initial_logits(self) -> Floats:
        """(num_slots,) logits of the layout at t = 0."""
        if not self.start_key:
            return np.zeros(self.layout.num_slots)
        return self.layout.slots(self.classes, self.z_initial)

    @cached_property
    def _columns(self) -> Floats:
        columns = np.ones(self.layout.num_columns)
        columns[-1] = self.layout.last_column_multiplicity
        return columns

    def _require_indices(self) -> None:
        L = self.layout
        values = f"the values of {L.num_rows} rows of Y with {L.num_columns} columns"
        whole(values, self.size, 0, LARGEST_STATE, "use fewer tokens or next tokens")

    @cached_property
    def _constants_and_width(self) -> tuple[tuple[Any, ...], int]:
        self._require_indices()
        return rate_arguments(self.layout, self.eta_Y, self.eta_Z)

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_arguments()

    @cached_property
    def _tiled(self) -> TiledRate | None:
        L = self.layout
        is_faster = tiled.is_tiling_faster(L.entry_row.size, L.num_columns, self.classes.num_classes, self.residual)
        return TiledRate(L, self.eta_Y, self.eta_Z) if is_faster else None

    def initial_state(self) -> Floats:
        start = self.initial_logits  # asks for the memory first
        state = np.zeros(self.size)
        state[: start.size] = start
        return state

    def kernel_arguments(self) -> tuple[Any, ...]:
        constants, width = self._constants_and_width
        return *constants, scratch(4, width)

    def write_rate(self, state: Floats, out: Floats) -> float:
        self.check_values(state, out)
        if self._tiled is not None:
            return self._tiled.write(state, out)
        if self.layout.num_columns == 3:
            return mean_field_of_three_columns(state, out, *self._arguments)
        return mean_field_of_any_columns(state, out, *self._arguments)

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    @property
    def num_logit_values(self) -> int:
        return self.layout.num_slots

    @property
    def value_of_z(self) -> Ints:
        """Index in the state of every logit in classes.z_coordinates, (nz,)."""
        return self.layout.slot_of_z

    def z_support(self, state: Floats) -> Floats:
        return self.layout.z_support(state[..., : self.layout.num_slots])

    def decoder(self, state: Floats) -> Floats:
        L = self.layout
        return state[..., L.num_slots :].reshape(*state.shape[:-1], L.num_rows, L.num_columns)

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.layout.row_of_token, self.layout.output_token

    def invariants(self, state: Floats) -> dict[str, Floats]:
        slots = state[..., : self.layout.num_slots]
        return {
            "row sum of Y": np.abs(self.decoder(state) @ self._columns).max(axis=-1),
            "row sum of Z": z_row_sums(self.layout, slots - self.initial_logits),
        }

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        L, S = self.layout, self.classes.num_classes
        rows = np.abs(self.decoder(state)) @ self._columns
        tokens = np.ones(L.num_rows)
        tokens[L.entry_row] = L.multiplicity
        # |Y|, the Frobenius norm, is at most that of the absolute row sums. The terms of the rate of z are those of Y
        # times Y times the ratio of the rates.
        length = np.sqrt(rows**2 @ tokens)
        logits = np.abs(state[..., : L.num_slots]) + np.abs(self.initial_logits)
        z = z_row_sums(L, logits) + self.rate_ratio * (1.0 + length) ** 2
        return {
            "row sum of Y": ConservedSum(L.num_columns + S, float(self._columns.sum()), rows.max(axis=-1)),
            "row sum of Z": ConservedSum(self.classes.num_tokens + S, float(self.classes.num_tokens), z),
        }

    def value_name(self, index: int) -> str:
        L = self.layout
        return L.slot_name(index, self.classes) if index < L.num_slots else L.decoder_name(index - L.num_slots)


class TiledRate:
    """Right-hand side for many output columns: prepared arrays, and threads over parts of them; no residual connection.

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
        self._tiles = np.empty((-(-layout.num_columns // tiled.TILE), layout.prior.size, tiled.TILE))

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
            tiled.attention_pass,
            *(of_classes, state, L.indptr, self._slots, self._place, L.log_p, L.multiplicity, self._f, self._f_by_row),
        )
        in_parts(
            tiled.logits_pass,
            *(np.arange(len(tiles) + 1), Y, *rows, self._row_multiplicity, self._f_by_row, tiles),
        )
        in_parts(
            tiled.error_pass,
            *(of_classes, L.num_columns, L.column, L.last_column_multiplicity, L.prior, tiles, self._losses),
        )
        in_parts(
            tiled.decoder_pass,
            *(by_work(self._row_start), Y, *rows, self._f_by_row, L.last_column_multiplicity, self._eta_Y, tiles),
            *(self._g_by_row, rate),
        )
        tiled.attention_rate_pass(
            L.indptr, self._slots, self._place, L.multiplicity, self._f, self._g_by_row, self._eta_Z, out[: L.num_slots]
        )
        return float(self._losses.sum())


def rate_arguments(layout: Layout, eta_Y: float, eta_Z: float) -> tuple[tuple[Any, ...], int]:
    """Arguments of `kernels.mean_field.general.mean_field` after state and out, and the width of its scratch."""
    L = layout
    numbers = [L.num_slots, L.num_columns, L.last_column_multiplicity, eta_Y, eta_Z, L.slots_are_entries]
    return (*L.kernel_arrays, np.array(numbers)), L.scratch_width
