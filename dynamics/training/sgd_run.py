"""The loop of one SGD run: start, compiled steps in portions, record, and the trajectory that comes out."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.sgd import row_sums, sgd_steps
from snapdyn.dynamics.systems.base import z_row_sums
from snapdyn.dynamics.systems.layout import Layout, build_layout, scratch
from snapdyn.dynamics.training.settings import SGDSettings
from snapdyn.dynamics.trajectory import Trajectory

# A kernel call makes at most about this many multiply-adds (tens of ms), so that Ctrl-C takes effect soon.
OPERATIONS_AT_ONCE = 50_000_000
SEQUENCES_AT_ONCE = 64  # sequences of one class in a kernel call; a multiple of 4


@dataclass(frozen=True)
class ClassTables:
    """Layout and sampler tables of some classes; runs on the same classes share them."""

    layout: Layout
    cumulative: Floats  # (S,) cumulative prior
    conditional: Floats  # (entries,) P_i/(P_i + ... + P_last) within the class
    log_q: Floats  # (entries,) ln(1 - min(conditional, 1 - conditional))

    @staticmethod
    def key(settings: SGDSettings) -> tuple[int, bool, bool]:
        """Return what the tables depend on: runs with equal keys can share them."""
        return id(settings.classes), settings.residual, _shares_column(settings)

    @classmethod
    def build(cls, settings: SGDSettings) -> ClassTables:
        """Build the tables for the classes of `settings`."""
        classes = settings.classes
        layout = build_layout(
            classes, classes.check_z(None), settings.residual, lump=False, shared_column=_shares_column(settings)
        )
        P, cumulative = np.exp(layout.log_p), np.cumsum(classes.prior)
        conditional = np.empty_like(P)
        for start, stop in zip(layout.indptr[:-1], layout.indptr[1:], strict=True):
            part = P[start:stop]
            conditional[start:stop] = part / np.cumsum(part[::-1])[::-1]
        log_q = np.log1p(-np.minimum(conditional, 1.0 - conditional))
        return cls(layout, cumulative / cumulative[-1], conditional, log_q)


def recorded_bytes(settings: SGDSettings, layout: Layout) -> float:
    """Memory that the record of a run takes: the logits twice, as slots and as coordinates, and Y."""
    logits = layout.num_slots + layout.slot_of_z.size
    decoder = layout.num_rows * (layout.num_columns if settings.save_decoder else 1)
    return 8.0 * np.asarray(settings.record).size * (logits + decoder + 2)


def _shares_column(settings: SGDSettings) -> bool:
    """Whether all outputs that are no next token start equal, and so share one column of Y."""
    return settings.init == "zeros" or (isinstance(settings.init, dict) and "Y" not in settings.init)


def _start(settings: SGDSettings, layout: Layout, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Initial logits (Q, M) and the flat state."""
    classes = settings.classes
    Y = None
    if settings.init == "uniform":
        reach = 1.0 / math.sqrt(classes.vocab_size)
        z = rng.uniform(-reach, reach, (classes.queries.size, classes.num_tokens))
        Y = rng.uniform(-reach, reach, (settings.num_decoder_rows, classes.vocab_size))
    else:
        given = settings.init if isinstance(settings.init, dict) else {}
        z, Y = given.get("z", classes.check_z(None)), given.get("Y")
    state = np.zeros(layout.size)
    query, token = classes.z_coordinates
    state[layout.slot_of_z] = z[query, token]
    if Y is not None:
        state[layout.num_slots :] = Y[layout.row_token].ravel()
    return z, state


def train(settings: SGDSettings, tables: ClassTables, stop: threading.Event) -> Trajectory:
    """Train and return the trajectory; when `stop` is set, the run ends as interrupted at the next kernel call.

    Parameters
    ----------
    settings : SGDSettings
    tables : ClassTables
        Tables of the classes of `settings`, `ClassTables.build(settings)`.
    stop : threading.Event
        Shared by runs in several threads; Ctrl-C in this one sets it.

    Returns
    -------
    Trajectory
        As `sgd` documents it.
    """
    started = time.perf_counter()
    L, classes = tables.layout, settings.classes
    for_start, for_data = np.random.SeedSequence(settings.seed).spawn(2)
    stream = np.random.SFC64(for_data).state["state"]["state"]
    z_initial, state = _start(settings, L, np.random.default_rng(for_start))
    batch_size = settings.batch_size or 0
    widest = L.max_support
    at_once = min(SEQUENCES_AT_ONCE, (batch_size + 3) // 4 * 4)
    batch = (
        L.num_slots, L.num_columns, L.indptr, L.entry_row, L.entry_slot, L.log_p, L.multiplicity, L.prior, L.column,
        L.query_row, L.query_entry, L.last_column_multiplicity, settings.seq_len or 0, np.empty(batch_size, np.int64),
        tables.cumulative, tables.conditional, tables.log_q, np.empty((2, widest + 3), np.int64),
        scratch(widest * at_once), scratch(widest * at_once), scratch(widest + 3, 4),
        scratch(2, widest + 3), scratch(8, L.num_columns), scratch(3, at_once),
    )  # fmt: skip
    adam = settings.optimizer == "adam"
    conserved = not adam and settings.weight_decay == 0.0
    moments = np.zeros((2, L.size if adam else 0))
    record = np.asarray(settings.record)
    z = np.empty((record.size, L.num_slots))
    loss = np.empty(record.size)
    Y = np.empty((record.size if settings.save_decoder else 0, L.num_rows, L.num_columns))
    sums = np.empty((record.size if conserved else 0, L.num_rows))
    arrays = (state, np.zeros(L.size), moments[0], moments[1])
    arguments = (
        record, z, loss, Y, sums, adam, settings.eta_Y, settings.eta_Z, settings.momentum, *settings.betas,
        settings.eps, settings.weight_decay, batch,
    )  # fmt: skip
    first_sums = np.empty(L.num_rows)
    row_sums(state[L.num_slots :].reshape(L.num_rows, L.num_columns), L.last_column_multiplicity, first_sums)
    samples = batch_size or classes.num_classes
    steps_at_once = max(1, OPERATIONS_AT_ONCE // (3 * samples * (widest * L.num_columns + 100) + 3 * L.size))
    step = saved = 0
    status, message = "finished", ""
    try:
        while True:
            if stop.is_set():
                raise KeyboardInterrupt
            until = min(step + steps_at_once, settings.steps)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # as compiled code does
                step, saved, finite = sgd_steps(stream, *arrays, step, until, settings.steps, saved, *arguments)
            if not finite:
                status, message = "diverged", _divergence(settings, L, state, step)
                break
            if step == settings.steps:
                break
    except KeyboardInterrupt:
        stop.set()
        status, message = "interrupted", f"interrupted at step {step}; {saved} of {record.size} records are kept"
    invariants = {}
    if conserved:
        invariants = {
            "row sum of Y": np.abs(sums[:saved] - first_sums).max(axis=-1),
            "row sum of Z": z_row_sums(L, z[:saved], z_initial[classes.z_coordinates]),
        }
    return Trajectory(
        classes=classes,
        t=record[:saved].astype(np.float64),
        z_support=L.z_support(z[:saved]),
        z_initial=z_initial,
        loss=loss[:saved],
        system="SGD",
        parameters=settings.parameters,
        status=status,
        message=message,
        stats={"steps": step, "samples": step * batch_size, "state_size": L.size},
        invariants=invariants,
        Y=Y[:saved] if settings.save_decoder else None,
        decoder_rows=L.row_of_token if settings.save_decoder else None,
        decoder_outputs=L.output_token if settings.save_decoder else None,
        wall_time=time.perf_counter() - started,
    )


def _divergence(settings: SGDSettings, layout: Layout, state: Floats, step: int) -> str:
    bad = np.flatnonzero(~np.isfinite(state))
    if bad.size == 0:
        what, rate = "the loss", "eta_Y or eta_Z"
    elif bad[0] < layout.num_slots:
        what, rate = layout.slot_name(int(bad[0]), settings.classes), "eta_Z or eta_Y"
    else:
        what, rate = layout.decoder_name(int(bad[0]) - layout.num_slots), "eta_Y"
    return f"diverged at step {step}: {what} is not finite; try a smaller {rate}"
