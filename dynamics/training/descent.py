"""Finite-step SGD on sampled sequences: the training run that the continuous-time systems describe."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats, Ints, SequenceClasses
from snapdyn.dynamics.kernels.sgd import row_sums, sgd_steps
from snapdyn.dynamics.systems.base import checked_classes, z_row_sums
from snapdyn.dynamics.systems.finite_length import LONGEST_SEQUENCE
from snapdyn.dynamics.systems.layout import Layout, build_layout, scratch
from snapdyn.dynamics.threads import cores, in_threads
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.errors import InputError, flag, positive, real_array, unknown_name, whole, whole_array

OPTIMIZERS = ("sgd", "adam")
STARTS = ("zeros", "uniform")
MOST_STEPS = 10_000_000  # each is recorded
MOST_RECORDED_STEPS = 1_000_000_000  # with a record
LARGEST_BATCH = 1_000_000
LARGEST_DECODER = 100_000_000  # 0.8 GB a run
# A kernel call lasts at most about this many multiply-adds (tens of ms), so that Ctrl-C is heard.
OPERATIONS_AT_ONCE = 50_000_000
SEQUENCES_AT_ONCE = 64  # of one class; a multiple of 4

Init = str | Mapping[str, ArrayLike] | tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False)
class SGD:
    """One training run: Eqs. (3)-(4) on batches of drawn sequences, validated at construction.

    Fields, clock and errors are those of `sgd`, with a single seed.
    """

    classes: SequenceClasses
    eta_Y: float
    eta_Z: float
    steps: int
    batch_size: int | None = 1
    seq_len: int | None = None
    momentum: float = 0.0
    optimizer: str = "sgd"
    init: Init = "zeros"
    seed: int = 0
    record: ArrayLike | None = None
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    residual: bool = False
    save_decoder: bool = False

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        checked_classes(self.classes)
        put("eta_Y", positive("eta_Y", self.eta_Y))
        put("eta_Z", positive("eta_Z", self.eta_Z))
        put("steps", whole("steps", self.steps, 0, MOST_STEPS if self.record is None else MOST_RECORDED_STEPS))
        if self.batch_size is not None:
            put("batch_size", whole("batch_size", self.batch_size, 1, LARGEST_BATCH))
        if self.seq_len is not None:
            put("seq_len", whole("seq_len", self.seq_len, 1))
            if self.seq_len > LONGEST_SEQUENCE:
                raise InputError(
                    f"expected seq_len of at most {LONGEST_SEQUENCE}, received {self.seq_len}; "
                    "give None for infinite sequences"
                )
            if self.batch_size is None:
                raise InputError(
                    f"expected seq_len=None with batch_size=None (the gradient of the expectation takes infinite "
                    f"sequences), received seq_len={self.seq_len}; give a batch_size or drop seq_len"
                )
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS)
        put("momentum", _fraction("momentum", self.momentum))
        if self.optimizer == "adam" and self.momentum:
            raise InputError(f"expected momentum=0 with Adam, received {self.momentum}; set betas instead")
        put("weight_decay", _fraction("weight_decay", self.weight_decay, below=math.inf))
        betas = self.betas.tolist() if isinstance(self.betas, np.ndarray) else self.betas
        if not (isinstance(betas, Sequence) and len(betas) == 2):
            raise InputError(f"expected betas as two numbers, received {self.betas!r}; PyTorch's are (0.9, 0.999)")
        put("betas", (_fraction("betas[0]", betas[0]), _fraction("betas[1]", betas[1])))
        put("eps", positive("eps", self.eps))
        put("seed", whole("seed", self.seed, 0))
        for name in ("residual", "save_decoder"):
            put(name, flag(name, getattr(self, name)))
        put("record", _checked_record(self.record, self.steps))
        put("init", self._checked_init())

    @property
    def num_decoder_rows(self) -> int:
        """Rows of a given or drawn Y: M, or with the residual max(M, largest query id + 1)."""
        classes = self.classes
        return max(classes.num_tokens, int(classes.query.max()) + 1) if self.residual else classes.num_tokens

    def _checked_init(self) -> str | dict[str, Floats]:
        init = self.init
        if isinstance(init, str):
            if init not in STARTS:
                raise unknown_name("init", init, STARTS)
            values = self.num_decoder_rows * self.classes.vocab_size
            if init == "uniform" and values > LARGEST_DECODER:
                raise InputError(
                    f"expected at most {LARGEST_DECODER} values of Y with init='uniform', received "
                    f"{values} ({self.num_decoder_rows} tokens x V = {self.classes.vocab_size}); start from zeros"
                )
            return init
        if isinstance(init, tuple) and len(init) == 2:
            init = {"Y": init[0], "z": init[1]}
        if not isinstance(init, Mapping) or not set(init) <= {"Y", "z"}:
            received = sorted(map(str, init)) if isinstance(init, Mapping) else type(init).__name__
            raise InputError(
                f"expected init as 'zeros', 'uniform', arrays {{'Y': ..., 'z': ...}} or a tuple (Y, z), "
                f"received {received}"
            )
        arrays = {}
        if "z" in init:
            arrays["z"] = self.classes.check_z(init["z"])
        if "Y" in init:
            Y = real_array("the initial Y", init["Y"])
            shape = (self.num_decoder_rows, self.classes.vocab_size)
            if Y.shape != shape or not np.isfinite(Y).all():
                raise InputError(
                    f"expected a finite initial Y of shape (tokens, V) = {shape}, received shape {Y.shape}"
                    f"{'' if np.isfinite(Y).all() else ' with NaN or infinity'}"
                )
            arrays["Y"] = Y
        return arrays

    @property
    def parameters(self) -> dict[str, Any]:
        """Every setting but the classes, as JSON values; given arrays by shape and digest."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "classes"}
        values["betas"] = list(self.betas)
        values["record"] = _json_record(np.asarray(self.record), self.steps)
        if isinstance(self.init, dict):
            values["init"] = {name: _digest(array) for name, array in self.init.items()}
        return values

    def run(self) -> Trajectory:
        """Train and return the trajectory; Ctrl-C returns what was recorded until then."""
        return _run(self, _Prepared.of(self), threading.Event())


@overload
def sgd(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, steps: int, batch_size: int | None = ...,
    seq_len: int | None = ..., momentum: float = ..., optimizer: str = ..., init: Init = ..., seed: int = ...,
    record: ArrayLike | None = ..., *, weight_decay: float = ..., betas: tuple[float, float] = ..., eps: float = ...,
    residual: bool = ..., save_decoder: bool = ..., threads: int | None = ...,
) -> Trajectory: ...  # fmt: skip


@overload
def sgd(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, steps: int, batch_size: int | None = ...,
    seq_len: int | None = ..., momentum: float = ..., optimizer: str = ..., init: Init = ..., *, seed: Iterable[int],
    record: ArrayLike | None = ..., weight_decay: float = ..., betas: tuple[float, float] = ..., eps: float = ...,
    residual: bool = ..., save_decoder: bool = ..., threads: int | None = ...,
) -> list[Trajectory]: ...  # fmt: skip


def sgd(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    steps: int,
    batch_size: int | None = 1,
    seq_len: int | None = None,
    momentum: float = 0.0,
    optimizer: str = "sgd",
    init: Init = "zeros",
    seed: int | Iterable[int] = 0,
    record: ArrayLike | None = None,
    *,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    residual: bool = False,
    save_decoder: bool = False,
    threads: int | None = None,
) -> Trajectory | list[Trajectory]:
    """Train by finite steps of Eqs. (3)-(4) on drawn sequences.

    A step draws a batch (class n with probability p_n, the counts of its contextual tokens from
    Multinomial(T-1, P(.|n)), which is a sequence exactly, since there are no positions), takes the gradient
    of the batch's mean J = ln alpha[next token] and updates Y and z with PyTorch's update rules.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y, eta_Z : float
        Learning rates of Y and of z, per step.
    steps : int
        Number of updates.
    batch_size : int or None
        Sequences per step. None: the gradient of the expectation over classes, which is deterministic
        gradient descent and takes seq_len=None.
    seq_len : int or None
        Contextual tokens T-1; None: infinite, q = c_n (5). Cost and memory do not depend on it.
    momentum : float
        Heavy ball, v <- momentum v + d, x <- x - eta v, d the gradient of the loss -J plus weight_decay x.
    optimizer : "sgd" or "adam"
        Adam with bias correction, eps outside the root, weight decay added to the gradient.
    init : "zeros", "uniform", mapping {"Y": (rows, V), "z": (Q, M)} or tuple (Y, z)
        Start: zeros (the outputs that are no class's next token share one column, so that the cost does not
        depend on V); uniform in +-1/sqrt(V) for both Y and z; or given arrays, the missing one zero. Rows of
        Y are token ids below M (with the residual below max(M, largest query id + 1)).
    seed : int or iterable of ints
        Each seed has its own random streams, one for the start and one for the data. Several seeds run in
        parallel and give a list.
    record : increasing ints in 0..steps, optional
        Steps to keep; "i" is the state after i updates, with the loss of the batch drawn next. Default all.
    weight_decay, betas, eps : float, pair, float
        Of the optimisers. Weight decay acts on what training can move: logits of tokens in a support of
        their query and rows of Y of such tokens (and of queries with the residual).
    residual : bool
        Decoder input (f + e_psi(n))/|f + e_psi(n)|; the query token is a row of Y.
    save_decoder : bool
        Keep Y as well (records x rows x columns numbers).
    threads : int, optional
        Threads for several seeds; default all cores. The numbers do not depend on it.

    Returns
    -------
    Trajectory, or list of Trajectory when `seed` is an iterable
        t: recorded steps (updates made: the clock of the paper for any batch size; with momentum the
        first-order clock runs 1/(1-momentum) times faster). loss: mean -ln alpha of the batch drawn next,
        nats. invariants (plain and momentum SGD without weight decay): change of the row sums of Y and z.
        status "diverged" when loss or state stop being finite, "interrupted" after Ctrl-C, with the record
        up to there.

    Raises
    ------
    InputError
        One sentence naming what was expected, what was received and what to do.
    """
    single, seeds = _seeds(seed)
    runs = [
        SGD(
            classes, eta_Y, eta_Z, steps, batch_size, seq_len, momentum, optimizer, init, each, record,
            weight_decay, betas, eps, residual, save_decoder,
        )
        for each in seeds
    ]  # fmt: skip
    if threads is not None:
        whole("threads", threads, 1)
    return runs[0].run() if single else sgd_runs(runs, threads)


def sgd_runs(
    runs: Sequence[SGD], threads: int | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Trajectory]:
    """Train many runs (settings, seeds) on all cores; one trajectory per run, in their order.

    Parameters
    ----------
    runs : sequence of SGD
    threads : int, optional
        Default: all cores. Neither it nor the order of the runs changes a number.
    progress : callable (finished, total), optional
        Called in the calling thread after each run.

    Returns
    -------
    list of Trajectory
        After Ctrl-C: finished runs whole, the others "interrupted" with their record so far.
    """
    runs = list(runs)
    for run in runs:
        if not isinstance(run, SGD):
            raise InputError(f"expected runs as SGD(classes, eta_Y, ...), received {type(run).__name__}")
    threads = cores() if threads is None else whole("threads", threads, 1)
    shared: dict[tuple[int, bool, bool], _Prepared] = {}
    for run in runs:
        key = _Prepared.key(run)
        if key not in shared:
            shared[key] = _Prepared.of(run)
    stop = threading.Event()

    def one(run: SGD) -> Trajectory:
        return _run(run, shared[_Prepared.key(run)], stop)

    if min(threads, len(runs)) <= 1:
        finished = []
        for run in runs:
            finished.append(one(run))
            if progress:
                progress(len(finished), len(runs))
        return finished
    return in_threads([partial(one, run) for run in runs], threads, stop, progress)


@dataclass(frozen=True)
class _Prepared:
    """What runs on the same classes share: the layout and the sampler's tables."""

    layout: Layout
    cumulative: Floats  # (S,) cumulative prior
    conditional: Floats  # (entries,) P_i/(P_i + ... + P_last) within the class
    log_q: Floats  # (entries,) ln(1 - min(conditional, 1 - conditional))

    @staticmethod
    def key(run: SGD) -> tuple[int, bool, bool]:
        return id(run.classes), run.residual, _shares_column(run)

    @classmethod
    def of(cls, run: SGD) -> _Prepared:
        classes = run.classes
        layout = build_layout(
            classes, classes.check_z(None), run.residual, lump=False, shared_column=_shares_column(run)
        )
        P, cumulative = np.exp(layout.log_p), np.cumsum(classes.prior)
        conditional = np.empty_like(P)
        for start, stop in zip(layout.indptr[:-1], layout.indptr[1:], strict=True):
            part = P[start:stop]
            conditional[start:stop] = part / np.cumsum(part[::-1])[::-1]
        log_q = np.log1p(-np.minimum(conditional, 1.0 - conditional))
        return cls(layout, cumulative / cumulative[-1], conditional, log_q)


def _shares_column(run: SGD) -> bool:
    return run.init == "zeros" or (isinstance(run.init, dict) and "Y" not in run.init)


def _start(run: SGD, layout: Layout, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Initial logits (Q, M) and the flat state."""
    classes = run.classes
    Y = None
    if run.init == "uniform":
        reach = 1.0 / math.sqrt(classes.vocab_size)
        z = rng.uniform(-reach, reach, (classes.queries.size, classes.num_tokens))
        Y = rng.uniform(-reach, reach, (run.num_decoder_rows, classes.vocab_size))
    else:
        given = run.init if isinstance(run.init, dict) else {}
        z, Y = given.get("z", classes.check_z(None)), given.get("Y")
    state = np.zeros(layout.size)
    query, token = classes.z_coordinates
    state[layout.slot_of_z] = z[query, token]
    if Y is not None:
        state[layout.num_slots :] = Y[layout.row_token].ravel()
    return z, state


def _run(run: SGD, prepared: _Prepared, stop: threading.Event) -> Trajectory:
    started = time.perf_counter()
    L, classes = prepared.layout, run.classes
    for_start, for_data = np.random.SeedSequence(run.seed).spawn(2)
    stream = np.random.SFC64(for_data).state["state"]["state"]
    z_initial, state = _start(run, L, np.random.default_rng(for_start))
    batch_size = run.batch_size or 0
    widest = L.max_support
    at_once = min(SEQUENCES_AT_ONCE, (batch_size + 3) // 4 * 4)
    batch = (
        L.num_slots, L.num_columns, L.indptr, L.entry_row, L.entry_slot, L.log_p, L.multiplicity, L.prior, L.column,
        L.query_row, L.query_entry, L.last_column_multiplicity, run.seq_len or 0, np.empty(batch_size, np.int64),
        prepared.cumulative, prepared.conditional, prepared.log_q, np.empty((2, widest + 3), np.int64),
        scratch(widest * at_once), scratch(widest * at_once), scratch(widest + 3, 4),
        scratch(2, widest + 3), scratch(8, L.num_columns), scratch(3, at_once),
    )  # fmt: skip
    adam = run.optimizer == "adam"
    conserved = not adam and run.weight_decay == 0.0
    moments = np.zeros((2, L.size if adam else 0))
    record = np.asarray(run.record)
    z = np.empty((record.size, L.num_slots))
    loss = np.empty(record.size)
    Y = np.empty((record.size if run.save_decoder else 0, L.num_rows, L.num_columns))
    sums = np.empty((record.size if conserved else 0, L.num_rows))
    arrays = (state, np.zeros(L.size), moments[0], moments[1])
    settings = (
        record, z, loss, Y, sums, adam, run.eta_Y, run.eta_Z, run.momentum, *run.betas, run.eps, run.weight_decay, batch
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
            until = min(step + steps_at_once, run.steps)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # as compiled code does
                step, saved, finite = sgd_steps(stream, *arrays, step, until, run.steps, saved, *settings)
            if not finite:
                status, message = "diverged", _divergence(run, L, state, step)
                break
            if step == run.steps:
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
        parameters=run.parameters,
        status=status,
        message=message,
        stats={"steps": step, "samples": step * batch_size, "state_size": L.size},
        invariants=invariants,
        Y=Y[:saved] if run.save_decoder else None,
        decoder_rows=L.row_of_token if run.save_decoder else None,
        decoder_outputs=L.output_token if run.save_decoder else None,
        wall_time=time.perf_counter() - started,
    )


def _divergence(run: SGD, layout: Layout, state: Floats, step: int) -> str:
    bad = np.flatnonzero(~np.isfinite(state))
    if bad.size == 0:
        what, rate = "the loss", "eta_Y or eta_Z"
    elif bad[0] < layout.num_slots:
        what, rate = layout.slot_name(int(bad[0]), run.classes), "eta_Z or eta_Y"
    else:
        what, rate = layout.decoder_name(int(bad[0]) - layout.num_slots), "eta_Y"
    return f"diverged at step {step}: {what} is not finite; try a smaller {rate}"


def _fraction(name: str, value: Any, below: float = 1.0) -> float:
    """Return `value` as a float after checking 0 <= value < below."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number < below:
        limit = "" if math.isinf(below) else f" and below {below:g}"
        raise InputError(f"expected {name} to be a number of at least 0{limit}, received {value!r}")
    return number


def _checked_record(record: ArrayLike | None, steps: int) -> Ints:
    if record is None:
        return np.arange(steps + 1)
    kept = whole_array("record", record)
    if kept.ndim != 1 or kept.size == 0 or (np.diff(kept) <= 0).any() or kept[0] < 0 or kept[-1] > steps:
        raise InputError(
            f"expected record as strictly increasing steps in 0..{steps}, received {kept.tolist()!r:.60}; "
            "sort it, or give None for every step"
        )
    return kept


def _json_record(record: Ints, steps: int) -> list[int] | None:
    return None if record.size == steps + 1 else record.tolist()


def _digest(array: Floats) -> dict[str, Any]:
    return {"shape": list(array.shape), "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}


def _seeds(seed: int | Iterable[int]) -> tuple[bool, list[int]]:
    """Whether a single trajectory is wanted, and the seeds."""
    if isinstance(seed, np.ndarray) and seed.ndim == 0:
        seed = seed.item()
    if isinstance(seed, Iterable) and not isinstance(seed, str):
        if isinstance(seed, bytes):
            raise InputError(f"expected seed as a whole number or a list of them, received {seed!r}")
        seeds = [whole("seed", each, 0) for each in seed]
        if not seeds:
            raise InputError("expected at least one seed, received none")
        return False, seeds
    return True, [whole("seed", seed, 0)]
