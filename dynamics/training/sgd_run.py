"""The loop of one SGD run: start, compiled steps in portions, record, and the trajectory that comes out."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.quotient import Descent, quotient_descent_steps
from snapdyn.dynamics.kernels.sgd import row_sums, sgd_steps
from snapdyn.dynamics.memory import scratch
from snapdyn.dynamics.symmetry.reduction import LARGEST_SHARE, is_large, reduced
from snapdyn.dynamics.symmetry.systems import MeanFieldQuotient
from snapdyn.dynamics.systems.layout import Layout, build_layout, z_row_sums
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.training.settings import SGDSettings
from snapdyn.dynamics.trajectory import Trajectory

# A kernel call makes at most about this many multiply-adds (tens of ms), so that Ctrl-C takes effect soon.
OPERATIONS_AT_ONCE = 50_000_000
LEAST_STEPS = 100  # of descent, below which reduce="auto" does not look for symmetries
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
        return id(settings.classes), settings.residual, settings.decoder_starts_at_zero

    @classmethod
    def build(cls, settings: SGDSettings) -> ClassTables:
        """Build the tables for the classes of `settings`."""
        classes = settings.classes
        layout = build_layout(
            classes, classes.check_z(None), settings.residual, lump=False, shared_column=settings.decoder_starts_at_zero
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
    try:
        small = _on_representatives(settings)
    except KeyboardInterrupt:
        stop.set()
        small = None
    if small is not None:
        return _train_on_representatives(settings, tables.layout, small, stop, started)
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

    def advance(step: int, until: int, saved: int) -> tuple[int, int, bool]:
        made: tuple[int, int, bool] = sgd_steps(stream, *arrays, step, until, settings.steps, saved, *arguments)
        return made

    step, saved, status = run_in_portions(settings.steps, steps_at_once, advance, stop)
    message = _message(status, settings, step, saved, state, partial(_name, settings, L))
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
        stats={"steps": step, "samples": step * batch_size, "state_size": L.size, "full_state_size": L.size},
        invariants=invariants,
        Y=Y[:saved] if settings.save_decoder else None,
        decoder_rows=L.row_of_token if settings.save_decoder else None,
        decoder_outputs=L.output_token if settings.save_decoder else None,
        wall_time=time.perf_counter() - started,
    )


def run_in_portions(
    steps: int, at_once: int, advance: Callable[[int, int, int], tuple[int, int, bool]], stop: threading.Event
) -> tuple[int, int, str]:
    """Make all steps in portions of `at_once`; return steps made, records made and the status.

    `advance` (first step, step to stop at, records made) returns (step, records, whether all is finite).
    """
    step = saved = 0
    try:
        while True:
            if stop.is_set():
                raise KeyboardInterrupt
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # as compiled code does
                step, saved, finite = advance(step, min(step + at_once, steps), saved)
            if not finite:
                return step, saved, "diverged"
            if step == steps:
                return step, saved, "finished"
    except KeyboardInterrupt:
        stop.set()
        return step, saved, "interrupted"


def _on_representatives(settings: SGDSettings) -> MeanFieldQuotient | None:
    """The mean field of one value per colour, with rates of 1, where the run descends on it."""
    if settings.reduce is False or settings.batch_size is not None or not settings.decoder_starts_at_zero:
        return None
    z = settings.init.get("z") if isinstance(settings.init, dict) else None
    full = MeanField(settings.classes, 1.0, 1.0, z, settings.residual)
    if settings.reduce is True:
        small = reduced(full)
    else:
        small = reduced(full, LARGEST_SHARE) if is_large(full) and settings.steps >= LEAST_STEPS else None
    return small if isinstance(small, MeanFieldQuotient) else None


def _train_on_representatives(
    settings: SGDSettings,
    layout: Layout,
    small: MeanFieldQuotient,
    stop: threading.Event,
    started: float,
) -> Trajectory:
    """As `train`, by descent on one value per colour; `layout` is that of all values."""
    state, record, adam = small.initial_state(), np.asarray(settings.record), settings.optimizer == "adam"
    moments = np.zeros((2, small.size if adam else 0))
    states, loss = np.empty((record.size, small.size)), np.empty(record.size)
    arguments = small.kernel_arguments()
    run = Descent(
        settings.eta_Y, settings.eta_Z, settings.momentum, *settings.betas, settings.eps, settings.weight_decay, adam,
        small.num_logit_values, state, np.zeros(small.size), scratch(small.size), moments,
    )  # fmt: skip

    def advance(step: int, until: int, saved: int) -> tuple[int, int, bool]:
        made: tuple[int, int, bool] = quotient_descent_steps(
            run, step, until, settings.steps, saved, record, states, loss, arguments
        )
        return made

    at_once = max(1, OPERATIONS_AT_ONCE // (10 * (small.size + small.quotient.lists.terms.size)))
    step, saved, status = run_in_portions(settings.steps, at_once, advance, stop)
    states = states[:saved]
    Y = None
    if settings.save_decoder:  # a row for every token, as without symmetries
        Y = small.decoder(states)[:, small.full.layout.row_of_token[layout.row_token]]
    return Trajectory(
        classes=settings.classes,
        t=record[:saved].astype(np.float64),
        z_support=small.z_support(states),
        z_initial=small.full.z_initial,
        loss=loss[:saved],
        system="SGD",
        parameters=settings.parameters,
        status=status,
        message=_message(status, settings, step, saved, small.full_state(state), small.full.value_name),
        stats={"steps": step, "samples": 0, "state_size": small.size, "full_state_size": layout.size},
        invariants={} if adam or settings.weight_decay else small.invariants(states),
        Y=Y,
        decoder_rows=layout.row_of_token if settings.save_decoder else None,
        decoder_outputs=layout.output_token if settings.save_decoder else None,
        wall_time=time.perf_counter() - started,
    )


def _message(
    status: str, settings: SGDSettings, step: int, saved: int, state: Floats, name_of: Callable[[int], str]
) -> str:
    """What a run that is not finished says; `name_of` names state values."""
    if status == "interrupted":
        return f"interrupted at step {step}; {saved} of {np.asarray(settings.record).size} records are kept"
    if status == "finished":
        return ""
    bad = np.flatnonzero(~np.isfinite(state))
    name = name_of(int(bad[0])) if bad.size else "the loss"
    rate = "eta_Y or eta_Z" if not bad.size else "eta_Z or eta_Y" if name.startswith("z") else "eta_Y"
    return f"diverged at step {step}: {name} is not finite; try a smaller {rate}"


def _name(settings: SGDSettings, layout: Layout, index: int) -> str:
    if index < layout.num_slots:
        return layout.slot_name(index, settings.classes)
    return layout.decoder_name(index - layout.num_slots)
