"""Finite-step SGD on sampled sequences: the training run that the continuous-time systems describe."""

from __future__ import annotations

import copy
import hashlib
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    InputError,
    choice,
    finite_array,
    flag,
    flag_or,
    list_of,
    positive,
    require_arguments,
    shown,
    whole,
)
from snapdyn.core.memory import require_memory, scratch
from snapdyn.core.parallel import in_threads
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.kernels.compilation import seconds_of_running
from snapdyn.dynamics.kernels.law import WORK_ROWS
from snapdyn.dynamics.kernels.rules import Descent, Update
from snapdyn.dynamics.kernels.sgd import Classes, Record, Scratch, descent_steps, row_sums, sgd_steps
from snapdyn.dynamics.rules import DescentRule, GradientDescent, Optimizer, optimizer_as_json, rules_of_layers
from snapdyn.dynamics.systems.base import checked_classes
from snapdyn.dynamics.systems.finite_length import LONGEST_SEQUENCE
from snapdyn.dynamics.systems.layout import Layout, build_layout
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.reduction import reduced
from snapdyn.dynamics.training.steps import Schedule, checked_record, checked_schedule
from snapdyn.dynamics.trajectories.trajectory import Trajectory

STARTS = ("zeros", "uniform")
MOST_STEPS = 10_000_000  # when every step is recorded
MOST_STEPS_WITH_RECORD = 1_000_000_000
LARGEST_BATCH = 1_000_000
MOST_SEEDS = 1_000_000
LARGEST_DECODER = 100_000_000  # values, 0.8 GB per run

Init = str | Mapping[str, ArrayLike] | tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False)
class SGD:
    """One training run: Eqs. (3)-(4) on batches of drawn sequences, validated at construction.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y : float
        Learning rate of Y, per step.
    eta_Z : float
        Learning rate of z, per step.
    steps : int
        Number of updates.
    batch_size : int or None
        Sequences per step. None: the gradient of the expectation over classes, which is deterministic
        gradient descent and requires seq_len=None.
    seq_len : int or None
        Contextual tokens T-1; None: infinite, q = c_n of Eq. (5). Cost and memory do not depend on T.
    momentum : float
        Heavy ball, v <- momentum v + d, x <- x - eta v, d the gradient of the loss -J.
    optimizer : {"sgd", "adam", "sign"}, rule, or pair of them
        A rule of descent (`GradientDescent`, `Adam`, `SignDescent`), its name, or a pair (rule of Y, rule of z).
        A rule has its momentum itself: `momentum` is that of "sgd".
    init : str, mapping or tuple
        Start. "zeros": the outputs that are no class's next token share one column, so that the cost does not
        depend on V. "uniform": both Y and z are drawn from +-1/sqrt(V). A mapping {"Y": (rows, V), "z": (Q, M)}
        or a tuple (Y, z) gives arrays; a missing one is zero. Rows of Y are token ids below M (with the residual
        connection, below max(M, largest query id + 1)).
    seed : int
        Each seed has its own random streams, one for the start and one for the data.
    record : array_like of int, optional
        Increasing steps in 0..steps at which the state is kept; "i" is the state after i updates, with the
        loss of the batch drawn next. Default: all.
    residual : bool
        Decoder input (f + e_psi(n))/|f + e_psi(n)|; the query token is a row of Y.
    save_decoder : bool
        Keep Y as well (records x rows x columns numbers).
    reduce : "auto", True or False
        Descend on one value in place of all that stay equal by symmetry (docs/how_to/numerics.md). This needs
        batch_size=None and Y(0) = 0; steps equal those of the full state up to rounding. "auto" reduces runs of 100
        steps or more, if `integrate` would reduce the mean field. `trajectory.stats` gives "state_size" and
        "full_state_size".
    schedule : (steps,) array_like, callable or float, optional
        Multipliers s_i of both rates, finite and at least 0, a function that returns them for the array of steps
        0..steps-1, or one number for all; default 1. With momentum v <- momentum v + d, x <- x - eta s_i v, as in
        PyTorch.

    Raises
    ------
    InputError
        One sentence that says what was expected, what was received and what to do.

    See Also
    --------
    sgd : Train at once, with one seed or several.
    sgd_runs : Train many runs on all cores.

    Examples
    --------
    >>> import snapdyn as sd
    >>> run = sd.SGD(sd.syn_small(), eta_Y=0.5, eta_Z=0.5, steps=100, batch_size=8, record=[0, 100])
    >>> run.run().t
    array([  0., 100.])
    """

    classes: SequenceClasses
    eta_Y: float
    eta_Z: float
    steps: int
    batch_size: int | None = 1
    seq_len: int | None = None
    momentum: float = 0.0
    optimizer: Optimizer = "sgd"
    init: Init = "zeros"
    seed: int = 0
    record: ArrayLike | None = None
    residual: bool = False
    save_decoder: bool = False
    reduce: bool | str = "auto"
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        def store(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        checked_classes(self.classes)
        for name in ("eta_Y", "eta_Z"):
            store(name, positive(name, getattr(self, name)))
        for name in ("residual", "save_decoder"):
            store(name, flag(name, getattr(self, name)))
        store("steps", whole("steps", self.steps, 0, MOST_STEPS if self.record is None else MOST_STEPS_WITH_RECORD))
        if self.batch_size is not None:
            store("batch_size", whole("batch_size", self.batch_size, 1, LARGEST_BATCH))
        if self.seq_len is not None:
            store("seq_len", whole("seq_len", self.seq_len, 1, LONGEST_SEQUENCE, "give None for infinite sequences"))
            if self.batch_size is None:
                raise InputError(
                    f"expected seq_len=None with batch_size=None (the gradient of the expectation takes infinite "
                    f"sequences), received seq_len={self.seq_len}; give a batch_size or drop seq_len"
                )
        rules = rules_of_layers(self.optimizer, self.momentum)
        named = optimizer_as_json(rules)
        store("optimizer", named if isinstance(named, str) else rules)
        store("momentum", rules[0].numbers.beta1 if named == GradientDescent.name else 0.0)
        store("seed", whole("seed", self.seed, 0))
        store("reduce", flag_or("reduce", self.reduce, "auto"))
        record = self.record
        store("record", np.arange(self.steps + 1) if record is None else checked_record(record, self.steps))
        store("schedule", checked_schedule(self.schedule, self.steps))
        store("init", self._checked_init())
        if self.reduce is True and not (self.batch_size is None and self.decoder_starts_at_zero):
            raise InputError(
                f"expected batch_size=None and Y(0) = 0 for reduce=True (draws break symmetries), received batch_size="
                f"{self.batch_size}{'' if self.decoder_starts_at_zero else ' and another Y(0)'}; use reduce='auto'"
            )

    def run(self) -> Trajectory:
        """Train and return the trajectory.

        Returns
        -------
        Trajectory
            As `sgd` returns it; Ctrl-C returns what was recorded until then.
        """
        return sgd_runs([self])[0]

    def with_seed(self, seed: int) -> Self:
        """The same settings with another seed, which is checked; the others are not checked again."""
        other = copy.copy(self)
        object.__setattr__(other, "seed", seed)
        return other

    @property
    def rules(self) -> tuple[DescentRule, DescentRule]:
        """Rules of Y and of z."""
        return rules_of_layers(self.optimizer, self.momentum)

    @property
    def num_decoder_rows(self) -> int:
        """Rows of Y when it is given or drawn: M, or with the residual max(M, largest query id + 1)."""
        classes = self.classes
        return max(classes.num_tokens, int(classes.query.max()) + 1) if self.residual else classes.num_tokens

    @property
    def decoder_starts_at_zero(self) -> bool:
        """Whether Y(0) = 0: all outputs that are no next token then share one column of Y."""
        return self.init == "zeros" or (isinstance(self.init, dict) and "Y" not in self.init)

    def _checked_init(self) -> str | dict[str, Floats]:
        init = self.init
        if isinstance(init, str):
            choice("init", init, STARTS)
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
            shape = (self.num_decoder_rows, self.classes.vocab_size)
            arrays["Y"] = finite_array("the initial Y", init["Y"], shape, advice="give a row per token, V columns")
        return arrays

    @property
    def parameters(self) -> dict[str, Any]:
        """Every setting that determines results, except the classes, as JSON values; arrays by shape and SHA-256."""
        values = {name: value for name, value in vars(self).items() if name not in ("classes", "reduce")}
        record = np.asarray(self.record)
        values["optimizer"] = optimizer_as_json(self.rules)
        values["record"] = None if record.size == self.steps + 1 else record.tolist()
        values["schedule"] = None if self.schedule is None else np.asarray(self.schedule).tolist()
        if isinstance(self.init, dict):
            values["init"] = {
                name: {"shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
                for name, array in self.init.items()
            }
        return values


def seed_list(seed: int | Iterable[int]) -> tuple[bool, list[int]]:
    """Return whether a single trajectory is requested, and the seeds."""
    if isinstance(seed, np.ndarray) and seed.ndim == 0:
        seed = seed.item()
    if isinstance(seed, Iterable) and not isinstance(seed, str):
        if isinstance(seed, bytes):
            raise InputError(f"expected seed as a whole number or a list of them, received {shown(seed)}")
        seeds: list[int] = []
        for each in seed:
            seeds.append(whole("seed", each, 0))
            if len(seeds) > MOST_SEEDS:
                raise InputError(f"expected at most {MOST_SEEDS} seeds, received more; make several calls")
        if not seeds:
            raise InputError("expected at least one seed, received none; give one or a list")
        return False, seeds
    return True, [whole("seed", seed, 0)]


# A kernel call makes at most about this many multiply-adds (tens of ms), so that Ctrl-C takes effect soon.
OPERATIONS_AT_ONCE = 50_000_000
LEAST_STEPS = 100  # of descent, below which reduce="auto" does not look for symmetries
SEQUENCES_AT_ONCE = 64  # sequences of one class in a kernel call; a multiple of 4


def class_tables(settings: SGD) -> tuple[Layout, Classes]:
    """Layout of the state, and the tables that batches are drawn from; kept with the classes."""
    kind = ("SGD", settings.residual, settings.decoder_starts_at_zero)
    return settings.classes.kept.get_or_make(kind, b"", partial(_class_tables, settings))


def _class_tables(settings: SGD) -> tuple[Layout, Classes]:
    classes = settings.classes
    L = build_layout(
        classes, classes.check_z(None), settings.residual, lump=False, shared_column=settings.decoder_starts_at_zero
    )
    P, cumulative = np.exp(L.lists.log_p), np.cumsum(classes.prior)
    conditional = np.empty_like(P)
    for start, stop in pairwise(L.lists.indptr):
        conditional[start:stop] = P[start:stop] / np.cumsum(P[start:stop][::-1])[::-1]
    log_q = np.log1p(-np.minimum(conditional, 1.0 - conditional))
    lists = L.lists._replace(is_first=np.zeros(P.size, np.bool_))
    return L, Classes(lists, cumulative / cumulative[-1], conditional, log_q)


def recorded_bytes(settings: SGD) -> float:
    """Memory that the record of a run takes: logits are held twice, as slots and as coordinates, and Y once."""
    layout, _ = class_tables(settings)
    logits = layout.num_slots + layout.slot_of_z.size
    decoder = layout.num_rows * (layout.num_columns if settings.save_decoder else 1)
    return 8.0 * np.asarray(settings.record).size * (logits + decoder + 2)


def _start(settings: SGD, layout: Layout, rng: np.random.Generator) -> tuple[Floats, Floats]:
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


def _update(settings: SGD) -> Update:
    schedule = np.empty(0) if settings.schedule is None else np.asarray(settings.schedule)
    of_Y, of_z = settings.rules
    return Update(of_z.numbers, of_Y.numbers, settings.eta_Z, settings.eta_Y, schedule)


def train(settings: SGD, stop: threading.Event) -> Trajectory:
    """Train, as `sgd` documents it; when `stop` is set, the run ends as interrupted at the next kernel call.

    `stop` is shared by runs in several threads; Ctrl-C in the thread of this run sets it.
    """
    started = seconds_of_running()
    L, tables = class_tables(settings)
    small = _on_representatives(settings)
    if small is not None:
        return _train_on_representatives(settings, L, small, stop, started)
    for_start, for_data = np.random.SeedSequence(settings.seed).spawn(2)
    stream = np.random.SFC64(for_data).state["state"]["state"]
    z_initial, state = _start(settings, L, np.random.default_rng(for_start))
    classes, update = settings.classes, _update(settings)
    adaptive = update.rule_z.adaptive or update.rule_Y.adaptive
    steps = np.asarray(settings.record)
    record = Record(
        steps,
        z=np.empty((steps.size, L.num_slots)),
        loss=np.empty(steps.size),
        Y=np.empty((steps.size if settings.save_decoder else 0, L.num_rows, L.num_columns)),
        row_sums=np.empty((0 if adaptive else steps.size, L.num_rows)),
    )
    first_sums = np.empty(L.num_rows)
    row_sums(state[L.num_slots :].reshape(L.num_rows, L.num_columns), L.lists.number, first_sums)
    descent = Descent(state, np.zeros(L.size), *np.zeros((2, L.size if adaptive else 0)))
    batch_size, widest = settings.batch_size or 0, L.max_support
    at_once = min(SEQUENCES_AT_ONCE, (batch_size + 3) // 4 * 4)
    memory = Scratch(
        drawn=np.empty(batch_size, np.int64),
        places=np.empty((2, widest), np.uint32),
        counts=scratch(widest * at_once),
        f=scratch(widest * at_once),
        lanes=scratch(3, at_once),
        work=scratch(WORK_ROWS, L.width),
    )
    samples = batch_size or classes.num_classes
    steps_at_once = max(1, OPERATIONS_AT_ONCE // (3 * samples * (widest * L.num_columns + 100) + 3 * L.size))
    advance = partial(sgd_steps, stream, descent, record, update, tables, settings.seq_len or 0, memory, settings.steps)
    step, saved, status = run_in_portions(settings.steps, steps_at_once, advance, stop)

    z, invariants = record.z[:saved], {}
    if not adaptive:
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges
            invariants = {
                "row sum of Y": np.abs(record.row_sums[:saved] - first_sums).max(axis=-1),
                "row sum of Z": np.abs(L.sums_of_z(z - z_initial[classes.z_coordinates])).max(axis=-1),
            }
    return _trajectory(
        settings, L, (step, saved, status), state, partial(L.value_name, classes=classes), started,
        z_support=L.z_support(z), z_initial=z_initial, loss=record.loss[:saved], invariants=invariants,
        Y=record.Y[:saved] if settings.save_decoder else None, stats={"state_size": L.size},
    )  # fmt: skip


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


def _on_representatives(settings: SGD) -> MeanField | None:
    """The mean field with one value in place of all that stay equal, rates of 1; None if the run uses all values."""
    if settings.reduce is False or settings.batch_size is not None or not settings.decoder_starts_at_zero:
        return None
    z = settings.init.get("z") if isinstance(settings.init, dict) else None
    full, asked = MeanField(settings.classes, 1.0, 1.0, z, settings.residual), settings.reduce is True
    small = reduced(full, asked) if asked or settings.steps >= LEAST_STEPS else None
    return small if isinstance(small, MeanField) else None


def _train_on_representatives(
    settings: SGD,
    layout: Layout,
    small: MeanField,
    stop: threading.Event,
    started: float,
) -> Trajectory:
    """As `train`, by descent on one value in place of all that stay equal; `layout` is that of the full state."""
    state, record, update = small.initial_state(), np.asarray(settings.record), _update(settings)
    adaptive = update.rule_z.adaptive or update.rule_Y.adaptive
    states, loss = np.empty((record.size, small.size)), np.empty(record.size)
    descent = Descent(state, np.zeros(small.size), *np.zeros((2, small.size if adaptive else 0)))
    rate, arguments = scratch(small.size), small.kernel_arguments()

    def advance(step: int, until: int, saved: int) -> tuple[int, int, bool]:
        span = step, until, saved
        made: tuple[int, int, bool] = descent_steps(
            descent, update, rate, settings.steps, record, states, loss, span, arguments
        )
        return made

    at_once = max(1, OPERATIONS_AT_ONCE // (10 * int(small.multiplications)))
    step, saved, status = run_in_portions(settings.steps, at_once, advance, stop)
    states = states[:saved]
    Y = None
    if settings.save_decoder:  # a row for every token, as without symmetries
        Y = small.decoder(states)[:, small.layout.row_of_token[layout.row_token]]
    name_of = partial(small.layout.value_name, classes=settings.classes)
    return _trajectory(
        settings, layout, (step, saved, status), small.full_state(state), name_of, started,
        z_support=small.z_support(states), z_initial=small.z_initial, loss=loss[:saved], Y=Y,
        invariants={} if adaptive else small.invariants(states), stats={"state_size": small.size},
    )  # fmt: skip


def _trajectory(
    settings: SGD,
    layout: Layout,
    ended: tuple[int, int, str],
    state: Floats,
    name_of: Callable[[int], str],
    started: float,
    stats: dict[str, int],
    **values: Any,
) -> Trajectory:
    """Trajectory of a run that has `ended` at (step, records, status) in `state`; `name_of` names its values."""
    step, saved, status = ended
    message = ""
    if status == "interrupted":
        message = f"interrupted at step {step}; {saved} of {np.asarray(settings.record).size} records are kept"
    elif status == "diverged":
        bad = np.flatnonzero(~np.isfinite(state))
        name = name_of(int(bad[0])) if bad.size else "the loss"
        rate = "eta_Y or eta_Z" if not bad.size else "eta_Z or eta_Y" if name.startswith("z") else "eta_Y"
        message = f"diverged at step {step}: {name} is not finite; try a smaller {rate}"
    samples = step * (settings.batch_size or 0)
    return Trajectory(
        classes=settings.classes,
        t=np.asarray(settings.record)[:saved].astype(np.float64),
        system="SGD",
        parameters=settings.parameters,
        status=status,
        message=message,
        stats={"steps": step, "samples": samples, **stats, "full_state_size": layout.size},
        decoder_rows=layout.row_of_token if settings.save_decoder else None,
        decoder_outputs=layout.output_token if settings.save_decoder else None,
        wall_time=seconds_of_running() - started,
        **values,
    )


def sgd(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    steps: int,
    batch_size: int | None = 1,
    seq_len: int | None = None,
    momentum: float = 0.0,
    optimizer: Optimizer = "sgd",
    init: Init = "zeros",
    seed: int | Iterable[int] = 0,
    record: ArrayLike | None = None,
    *,
    threads: int | None = None,
    **settings: Any,
) -> Any:
    """Train by finite steps of Eqs. (3)-(4) on drawn sequences.

    A step draws a batch: class n with probability p_n, and the counts of its contextual tokens from
    Multinomial(T-1, P(.|n)). Counts describe a sequence completely, since there are no positions. The step takes
    the gradient of the batch's mean J = ln alpha[next token] and updates Y and z with PyTorch's update rules.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y : float
        Learning rate of Y, per step.
    eta_Z : float
        Learning rate of z, per step.
    steps : int
        Number of updates.
    batch_size : int or None
        Sequences per step. None: the gradient of the expectation over classes; requires seq_len=None.
    seq_len : int or None
        Contextual tokens T-1; None: infinite. Cost and memory do not depend on T.
    momentum : float
        Heavy ball, v <- momentum v + d, x <- x - eta v.
    optimizer : {"sgd", "adam", "sign"}, rule, or pair of them
        A rule of descent, or a pair (rule of Y, rule of z), as in `SGD`.
    init : str, mapping or tuple
        Start: "zeros", "uniform", {"Y": array, "z": array} or (Y, z), as in `SGD`.
    seed : int or iterable of int
        One seed, or several: each has its own random streams.
    record : array_like of int, optional
        Increasing steps in 0..steps at which the state is kept; default: all.
    threads : int, optional
        Threads for several seeds; default all cores. The numbers do not depend on it.
    **settings : dict
        `residual`, `save_decoder`, `reduce` and `schedule`, as in `SGD`.

    Returns
    -------
    Trajectory or list of Trajectory
        A list, with one trajectory per seed, when `seed` is an iterable; its runs are made in parallel.
        `t` is the number of updates at each record. For any batch size this is the paper's clock; with momentum, the
        paper's time is 1/(1-momentum) times larger, to first order; with a schedule it is the sum of the multipliers.
        `loss` is the mean -ln alpha of the batch drawn next, nats. `invariants` (not with an adaptive rule) are the
        changes of the row sums of Y and z. `status` is "diverged" when loss or state stop being finite, "interrupted"
        after Ctrl-C; the record until then is kept.

    Raises
    ------
    InputError
        One sentence that says what was expected, what was received and what to do.

    Examples
    --------
    >>> import snapdyn as sd
    >>> trajectory = sd.sgd(sd.syn_small(), eta_Y=0.5, eta_Z=0.5, steps=200, batch_size=16, seq_len=127)
    >>> trajectory.z.shape
    (201, 2, 30)
    >>> bool(trajectory.loss[-1] < trajectory.loss[0])
    True

    Several seeds give a list:

    >>> runs = sd.sgd(sd.syn_small(), 0.5, 0.5, steps=200, seed=[0, 1, 2], record=[200])
    >>> [run.t.tolist() for run in runs]
    [[200.0], [200.0], [200.0]]
    """
    require_arguments("sgd", settings, SGD.__annotations__)
    single, seeds = seed_list(seed)
    first = SGD(
        classes, eta_Y, eta_Z, steps, batch_size, seq_len, momentum, optimizer, init, seeds[0], record, **settings
    )
    trajectories = sgd_runs([first.with_seed(each) for each in seeds], threads)
    return trajectories[0] if single else trajectories


def sgd_runs(
    runs: Sequence[SGD], threads: int | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Trajectory]:
    """Train many runs, which may differ in every setting, on all cores.

    Parameters
    ----------
    runs : sequence of SGD
    threads : int, optional
        Number of threads; default all cores. Results depend neither on it nor on the order of the runs.
    progress : callable (finished, total), optional
        Called in the calling thread after each run.

    Returns
    -------
    list of Trajectory
        One per run, in their order. After Ctrl-C finished runs are complete; the others have the status
        "interrupted" and their record until then.

    Raises
    ------
    InputError
        An entry of `runs` is not an SGD, or `threads` is not a whole number of at least 1.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.syn_small()
    >>> runs = [sd.SGD(classes, eta_Y=eta, eta_Z=eta, steps=20) for eta in (0.1, 0.2)]
    >>> [trajectory.parameters["eta_Y"] for trajectory in sd.sgd_runs(runs)]
    [0.1, 0.2]
    """
    runs = list_of("runs", runs, SGD)
    size = sum(recorded_bytes(run) for run in runs)
    require_memory(f"the records of {len(runs)} runs of SGD", size, "fewer seeds, or a shorter record")
    stop = threading.Event()
    return in_threads([partial(train, run, stop) for run in runs], threads, stop, progress)
