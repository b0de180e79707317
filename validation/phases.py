"""Observables that need closed forms or a ladder: the transition, frozen attention, a winner, fallen tokens, gaps."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn import analytic
from snapdyn.core.errors import InputError
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.request import Event, State
from snapdyn.dynamics.observables import LADDER, OBSERVABLES, ODE, STEPS, Observable
from snapdyn.dynamics.training.steps import momentum_clock
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.dense_algebra import dense_attention, growth_over_gamma

# Phases at the end of a run, in the order in which training goes through them.
SCANNING, MOVING, SNAPPED, WINNER = range(4)
PHASES = ("scanning", "moving", "snapped", "winner takes all")
# Attention has snapped when over the last decade of t it moves, per unit of ln t, less than this share of its
# fastest; it is a winner's when one distinct token has more than half of a class's attention, on average.
FROZEN_SPEED = 0.1
WINNER_SHARE = 0.5
# A drop below the running maximum of this share of the run's largest |z| is a fall: it is more than the solver's error
# at rtol 1e-8 (some hundred steps).
FALL = 1e-5
TIMES = {"t_peak": "peak", "t_start": "start", "t_end": "end"}
# Values of settings of `sgd` that the theory assumes; no theory covers other values.
OF_THEORY = {"optimizer": "sgd", "init": "zeros"}
# Observables in which the rungs of a ladder are compared, by name.
OF_ATTENTION = {name: name for name in ("z", "attention", "entropy", "relative_gain", "growth_factor")}
OF_DECODER = {"logits": "logits", "loss": "class_loss", "speed": "speed"}


def attention_observables(run: Trajectory) -> dict[str, Floats]:
    """Observables of a run on a ladder of attention, by name, (N, components) each."""
    return {name: OBSERVABLES[observable].values_on_support(run) for name, observable in OF_ATTENTION.items()}


def decoder_observables(run: Trajectory) -> dict[str, Floats]:
    """Observables of a run with a saved decoder on a ladder of the decoder, by name, (N, components) each.

    The logits have one column for all outputs that are not the next token of a class. The loss -ln alpha_n[n] of a
    class is that of infinitely long sequences with the attention of the run.
    """
    return {name: OBSERVABLES[observable].values_on_support(run) for name, observable in OF_DECODER.items()}


def transition_excess(loss: ArrayLike, vocab_size: int) -> Floats:
    """u alpha - 1, which rises through 0 where the theory's speed of attention gamma peaks.

    gamma is proportional to u/(V-1+exp(u)), u the lead of the right logit over the others; its slope vanishes where
    (u-1) exp(u) = V-1, and there alpha = exp(u)/(V-1+exp(u)) = 1/u. It can be measured on any run: alpha = exp(-loss),
    and u is the lead that gives this loss. It is not in the paper; a test of the package compares its zero with
    the t* of the modified flow (Lemma 9).

    Parameters
    ----------
    loss : (N,) array or float
        -ln alpha, nats.
    vocab_size : int
        V >= 2.
    """
    loss = np.asarray(loss, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.log(vocab_size - 1) - np.log(np.expm1(loss))) * np.exp(-loss) - 1.0


def transition_event(vocab_size: int) -> Event:
    """Event at which `transition_excess` of the run's loss rises through 0."""

    def excess(t: Floats, state: State) -> Floats:
        return transition_excess(state.loss, vocab_size)

    return Event(excess, direction=1, vectorized=True)


def transition_between(t: Floats, loss: Floats, vocab_size: int) -> float:
    """Time at which `transition_excess` first rises through 0 between the times `t`, linear in between; inf: never."""
    excess = transition_excess(loss, vocab_size)
    after = np.flatnonzero((excess[1:] >= 0) & (excess[:-1] < 0))
    if not after.size:
        return np.inf
    i = int(after[0])
    return float(t[i] - excess[i] * (t[i + 1] - t[i]) / (excess[i + 1] - excess[i]))


def transition_time(run: Trajectory) -> float:
    """Measured time of the transition in batch-size-1 steps; inf: not by the end of the run.

    The time is that of the event "transition" (`transition_event`) of an integration; otherwise it follows from the
    loss at the saved times. A run of SGD needs its decoder: the loss is then the expected one of infinitely long
    sequences, on the clock of the momentum, since the noisy loss of a drawn batch would cross too early.
    """
    classes, settings, t = run.require_classes(), run.parameters, run.t
    located = [event.t for event in run.events if event.name == "transition"]
    if located:
        return located[0]
    if "optimizer" not in settings:
        return transition_between(t, run.loss, classes.vocab_size)
    with np.errstate(all="ignore"):  # of rates so large that probabilities underflow
        loss = OBSERVABLES["class_loss"].values(run) @ classes.prior
    if settings["optimizer"] == "sgd":
        t = momentum_clock(t, settings["momentum"], settings.get("schedule"))
    return transition_between(t, loss, classes.vocab_size)


def theory_time(name: str, run: Trajectory) -> float:
    """Time `name` of `transition_times` for a run; NaN for settings that no theory covers, or for unknown eta_Y."""
    covered = all(run.parameters.get(setting, value) == value for setting, value in OF_THEORY.items())
    if not covered or "eta_Y" not in run.parameters:
        return np.nan
    return transition_times(run.require_classes(), run.parameters["eta_Y"])[name]


def transition_times(classes: SequenceClasses, eta_Y: float) -> dict[str, float]:
    """Theory's t* (t_peak), t0' (t_start) and t0 (t_end), batch-size-1 steps; NaN where there is none.

    They need classes of equal weights with next tokens of their own, and t0 needs V >= 4.
    """
    K, V = classes.num_classes, classes.vocab_size
    if np.ptp(classes.prior) > 1e-12 or classes.next_tokens.size < K:
        return dict.fromkeys(TIMES, np.nan)
    return {
        name: float(analytic.transition_time(K, V, eta_Y, kind=kind)) if V >= 4 or kind != "end" else np.nan
        for name, kind in TIMES.items()
    }


def late_speed(run: Trajectory) -> float:
    """Path of attention per unit of ln t in the last decade of t, over its largest value; NaN for less than a decade.

    The path is the total variation distance (half of the sum of |changes|), mean over classes, between saved times.
    """
    starts = run.require_classes().P.indptr[:-1]
    later = run.t > 0
    steps = np.abs(np.diff(run.attention_entries[later], axis=0))
    t, steps = run.t[later], np.add.reduceat(steps, starts, axis=1).mean(axis=1)
    if t.size < 2 or t[-1] < 10 * t[0]:
        return np.nan
    speed = steps / np.diff(np.log(t))
    last = int(np.searchsorted(t, t[-1] / 10 * (1 + 1e-12), side="right")) - 1
    fastest = float(speed.max())
    return float(steps[last:].sum() / np.log(t[-1] / t[last]) / fastest) if fastest > 0 else 0.0


def winner_share(run: Trajectory) -> float:
    """Largest share of a class's attention that one distinct token has at the end, mean over classes."""
    classes = run.require_classes()
    distinct = classes.omega_size[classes.P.indices] == 1
    attention = np.where(distinct, run.attention_entries[-1], 0.0)
    return float(np.maximum.reduceat(attention, classes.P.indptr[:-1]).mean())


def phase(run: Trajectory, transition: float) -> int:
    """Phase at the end of the run, an index into PHASES, given the measured time of the transition (inf: never)."""
    if winner_share(run) > WINNER_SHARE:
        return WINNER
    if not transition <= run.t[-1]:
        return SCANNING
    return SNAPPED if late_speed(run) < FROZEN_SPEED else MOVING


def drop_below_maximum(paths: Floats) -> Floats:
    """How far each path (N, L) lies below its running maximum at every time, (N, L), at least 0."""
    return np.maximum.accumulate(paths, axis=0) - paths


def falls(run: Trajectory) -> tuple[Floats, Floats]:
    """Largest drop so far of the logit of each distinct token (N, L), and largest |z| so far (N,)."""
    classes = run.require_classes()
    coordinates = classes.z_coordinates
    z = np.vstack([run.z_initial[coordinates], run.z_support])
    drop = drop_below_maximum(z[:, classes.omega_size[coordinates[1]] == 1])
    return np.maximum.accumulate(drop, axis=0)[1:], np.maximum.accumulate(np.abs(z).max(axis=1))[1:]


def fallen(run: Trajectory) -> NDArray[np.bool_]:
    """Whether a logit of a distinct token has fallen by more than FALL of the run's largest |z|, (N, L)."""
    drop, largest = falls(run)
    return drop > FALL * largest[-1]


def fallen_share(run: Trajectory) -> float:
    """Share of distinct tokens whose logit falls from its highest by more than FALL of the run's largest |z| (F10)."""
    down = fallen(run)
    return float(down[-1].mean()) if down.size else np.nan


def growth_exponents(run: Trajectory, eta_Y: float, ratio: float, every: int = 1) -> tuple[Floats, Floats]:
    """B_n (N, S) along a run, with the xi of Theorem 1 and any priors, by Simpson's rule in h_n from the start.

    `ratio` is eta_Z/eta_Y; only each `every`-th saved time is used, which shows the error of the quadrature.

    The second array (S,) is the relative change of xi_n/gamma_n up to the first time.

    p_n gamma_n dt = (V-1)^2 h_n dh_n/eta_Y, exactly (128), so that B_n = (eta_Z/eta_Y) (V-1)^2 int (xi_n/gamma_n) h_n
    dh_n: until attention moves, the integrand is proportional to h_n for equal priors, and smooth for unequal priors,
    where h_k/h_n changes.
    """
    from scipy.integrate import cumulative_simpson

    classes = run.require_classes()
    V = classes.vocab_size
    z = np.concatenate([run.z_initial[None], run.z[::every]])
    h = analytic.h(classes.prior * run.t[::every, None], eta_Y, V)
    E = np.array([dense_attention(classes, at)[1] for at in z])
    E = np.einsum("tnm,tkm->tnk", E, E) * (1 - np.eye(classes.num_classes))
    # At t -> 0 the h_n are in proportion to the priors.
    xi = growth_over_gamma(E, float(V), np.vstack([classes.prior, h]))
    h = np.vstack([np.zeros(classes.num_classes), h]) * (V - 1)
    # Up to the first time xi/gamma = xi_0 + a h + b h^2 through three points: unequal priors give a, attention, which
    # moves like h^2, gives b.
    first, second = (xi[1] - xi[0]) / h[1], (xi[2] - xi[0]) / h[2]
    b = (second - first) / (h[2] - h[1])
    a = first - b * h[1]
    start = h[1] ** 2 * (xi[0] / 2 + a * h[1] / 3 + b * h[1] ** 2 / 4)
    B = start + np.column_stack(
        [cumulative_simpson((xi * h)[1:, n], x=h[1:, n], initial=0) for n in range(classes.num_classes)]
    )
    return ratio * B, np.abs(xi[1] / xi[0] - 1)


def _rung_gaps(ladder: Any) -> dict[str, float]:
    """Largest gap of each rung to the one above, over observables and times."""
    largest = ladder.gaps.gap.max(("observable", "t"))
    return {str(rung): float(value) for rung, value in zip(largest.rung.values, largest.values, strict=True)}


def _largest_gap(found: Any) -> float:
    """Largest gap of a ladder, or that of z between the rungs below a run of the mean field.

    For classes that share one common token, Eq. (10) with exact and with leading beta is its orbit, and (13) its closed
    form, so that K may be of any size.
    """
    if not isinstance(found, Trajectory):
        return max(_rung_gaps(found).values())
    classes = found.require_classes()
    kinds = classes.kinds if isinstance(classes, SymmetricClasses) else ()
    at_zero = found.representatives is not None or not found.z_initial.any()  # a run of representatives starts there
    alike = len(kinds) == 1 and len(kinds[0].common) == 1 and at_zero
    if found.system != "MeanField" or found.parameters["residual"] or not alike:
        raise InputError(
            "expected the mean field of classes as of single_common_token, from z = 0, for largest_gap, received "
            f"{found.system} of others; take a section [ladder] in place of [system]"
        )
    rates = found.parameters["eta_Y"], found.parameters["eta_Z"]
    sizes = classes.num_classes, classes.vocab_size
    t, one, p = found.t, found.of_class(0), np.array(kinds[0].common + kinds[0].distinct)
    rungs = [one.z[:, 0]]
    for beta in ("exact", "leading"):
        orbit = analytic.single_common_token_orbit(t, p[1:], p[0], *sizes, *rates, beta)
        rungs.append(np.column_stack([orbit.z_common, orbit.z_distinct]))
    setting = t, *rates, *reversed(sizes), np.linalg.norm(p) / p[0]
    left = 1 - 2 * (p[1:] / np.linalg.norm(p)) ** 2 * np.reshape(analytic.growth_exponent(*setting), (-1, 1))
    z_distinct = -0.5 * np.log(np.where(left > 0, left, np.nan))
    rungs.append(np.column_stack([analytic.common_token_logit(*setting), z_distinct]))
    gaps = [np.abs(finer - coarser).max() / np.abs(finer).max() for finer, coarser in pairwise(rungs)]
    # A rung without a value, after the end of Eq. (13), is infinitely far.
    return float(np.nan_to_num(gaps, nan=np.inf).max())


def _first_break(ladder: Any) -> str:
    first = ladder.first_break()
    return first.rung if first else "none"


OBSERVABLES.declare(
    [
        *OBSERVABLES.own.values(),
        Observable("transition_time", "time of the transition", STEPS, transition_time, (), needs_transition=True),
        *(
            Observable(name, label, STEPS, partial(theory_time, name), ())
            for name, label in (
                ("t_peak", "t*: peak of gamma"),
                ("t_start", "t0' = K ln V/eta_Y"),
                ("t_end", "t0 = 2 (1+omega_1) K ln V/eta_Y"),
            )
        ),
        Observable(
            "phase",
            f"phase ({', '.join(f'{number}: {name}' for number, name in enumerate(PHASES))})",
            "1",
            lambda run: phase(run, transition_time(run)),
            (),
            cells=(ODE,),
            needs_transition=True,
        ),
        Observable(
            "winner_share",
            "largest attention to one distinct token at the end, mean over classes",
            "1",
            winner_share,
            (),
            cells=(ODE,),
        ),
        Observable(
            "late_speed",
            "speed of attention per ln $t$ in the last decade over its fastest",
            "1",
            late_speed,
            (),
            cells=(ODE,),
        ),
        Observable("fallen_share", "share of distinct tokens that fall", "1", fallen_share, (), cells=(ODE,)),
        Observable(
            "largest_gap",
            "largest gap of the ladder",
            "1",
            _largest_gap,
            (),
            cells=(LADDER, ODE),
        ),
        Observable("gap", "largest gap of each rung to the one above", "1", _rung_gaps, ("rung",), cells=(LADDER,)),
        Observable(
            "first_break",
            "first rung, from the finest down, that breaks the tolerance",
            "1",
            _first_break,
            (),
            cells=(LADDER,),
            text=True,
        ),
    ]
)
