"""Finite-step SGD on sampled sequences: the training run that the continuous-time systems describe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.dynamics.training.settings import MOST_SEEDS, Init, SGDSettings
from snapdyn.dynamics.training.sgd_run import recorded_bytes, train
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.errors import InputError, list_of, optional_function, shown, whole
from snapdyn.memory import require_memory
from snapdyn.parallel import cores, in_threads


@dataclass(frozen=True, eq=False)
class SGD(SGDSettings):
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
        Contextual tokens T-1; None: infinite, q = c_n (5). Cost and memory do not depend on it.
    momentum : float
        Heavy ball, v <- momentum v + d, x <- x - eta v, d the gradient of the loss -J plus weight_decay x.
    optimizer : {"sgd", "adam"}
        Adam with bias correction, eps outside the root, weight decay added to the gradient.
    init : str, mapping or tuple
        Start. "zeros": the outputs that are no class's next token share one column, so that the cost does not
        depend on V. "uniform": both Y and z are drawn from +-1/sqrt(V). A mapping {"Y": (rows, V), "z": (Q, M)}
        or a tuple (Y, z) gives arrays; a missing one is zero. Rows of Y are token ids below M (with the
        residual below max(M, largest query id + 1)).
    seed : int
        Each seed has its own random streams, one for the start and one for the data.
    record : array_like of int, optional
        Increasing steps in 0..steps at which the state is kept; "i" is the state after i updates, with the
        loss of the batch drawn next. Default: all.
    weight_decay : float
        Weight decay of either optimiser. It acts on what training can move: logits of tokens in a support of
        their query, and rows of Y of such tokens (and of queries with the residual).
    betas : pair of float
        Decay rates of Adam's first and second moment.
    eps : float
        Adam's addition to the root of the second moment.
    residual : bool
        Decoder input (f + e_psi(n))/|f + e_psi(n)|; the query token is a row of Y.
    save_decoder : bool
        Keep Y as well (records x rows x columns numbers).
    reduce : "auto", True or False
        Descend on one value of all that stay equal by symmetry (docs/how_to/numerics.md), which needs batch_size=None
        and Y(0) = 0; steps are those of all values up to rounding. "auto": for 100 steps or more, where it does so for
        `integrate` of the mean field. `trajectory.stats` gives "state_size" and "full_state_size".

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

    def run(self) -> Trajectory:
        """Train and return the trajectory.

        Returns
        -------
        Trajectory
            As `sgd` returns it; Ctrl-C returns what was recorded until then.
        """
        return sgd_runs([self])[0]


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
        Contextual tokens T-1; None: infinite. Cost and memory do not depend on it.
    momentum : float
        Heavy ball, v <- momentum v + d, x <- x - eta v.
    optimizer : {"sgd", "adam"}
    init : str, mapping or tuple
        Start: "zeros", "uniform", {"Y": array, "z": array} or (Y, z), as in `SGD`.
    seed : int or iterable of int
        One seed, or several: each has its own random streams.
    record : array_like of int, optional
        Increasing steps in 0..steps at which the state is kept; default: all.
    threads : int, optional
        Threads for several seeds; default all cores. The numbers do not depend on it.
    **settings : dict
        `weight_decay`, `betas`, `eps`, `residual`, `save_decoder` and `reduce`, as in `SGD`.

    Returns
    -------
    Trajectory or list of Trajectory
        A list, with one trajectory per seed, when `seed` is an iterable; its runs are made in parallel.
        t: recorded steps (updates made: the clock of the paper for any batch size; with momentum the
        first-order clock runs 1/(1-momentum) times faster). loss: mean -ln alpha of the batch drawn next,
        nats. invariants (plain and momentum SGD without weight decay): change of the row sums of Y and z.
        status "diverged" when loss or state stop being finite, "interrupted" after Ctrl-C, with the record
        until then.

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
    single, seeds = seed_list(seed)
    if record is None and isinstance(steps, int):
        require_memory(f"the records of {len(seeds)} seeds", 16.0 * steps * len(seeds), "fewer seeds, or a record")
    runs = [
        SGD(classes, eta_Y, eta_Z, steps, batch_size, seq_len, momentum, optimizer, init, each, record, **settings)
        for each in seeds
    ]
    trajectories = sgd_runs(runs, threads)
    return trajectories[0] if single else trajectories


def sgd_runs(
    runs: Sequence[SGD], threads: int | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Trajectory]:
    """Train many runs, which may differ in every setting, on all cores.

    Parameters
    ----------
    runs : sequence of SGD
    threads : int, optional
        Number of threads; default all cores. Neither it nor the order of the runs changes a number.
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
    optional_function("progress", progress)
    threads = cores() if threads is None else whole("threads", threads, 1)
    size = sum(recorded_bytes(run) for run in runs)
    require_memory(f"the records of {len(runs)} runs of SGD", size, "fewer seeds, or a shorter record")
    stop = threading.Event()
    return in_threads([partial(train, run, stop) for run in runs], threads, stop, progress)


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
