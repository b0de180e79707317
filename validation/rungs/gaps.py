"""Gaps between the rungs of a ladder: what is compared, how noise counts, and where a tolerance breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from snapdyn.dynamics import Trajectory
from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.errors import InputError, positive, unknown_name

if TYPE_CHECKING:
    import xarray

Ints = NDArray[np.int64]
# Chance that noise of the seeds alone makes some component of one observable break a tolerance.
LEVEL = 0.01
ROUNDING = 1e-12  # of an observable's size, or of 1: z itself is compared at the solver's atol


def attention_observables(run: Trajectory) -> dict[str, Floats]:
    """Observables of a run by name, (N, components) each.

    z (moving logits), attention (entries of P), entropy (classes), relative_gain r_{l0/l|n} of each class's dominant
    distinct token l0 over its other distinct tokens, growth_factor chi_l (moving logits).
    """
    classes = run.classes
    assert classes is not None
    first, second = _dominant_pairs(classes, run.z_initial)
    z, log_P, of_entry = run.z_support, np.log(classes.P.data), classes.z_of_entry
    ratio = log_P[first] - log_P[second] + z[:, of_entry[first]] - z[:, of_entry[second]]
    return {
        "z": z,
        "attention": run.attention_entries,
        "entropy": run.entropy(),
        "relative_gain": np.expm1(2.0 * ratio),
        "growth_factor": np.exp(2.0 * (z - run.z_initial[classes.z_coordinates])),
    }


def decoder_observables(run: Trajectory) -> dict[str, Floats]:
    """Observables of a run that kept its decoder, by name, (N, components) each.

    logits w_n = Y^T f_n (classes x outputs; the outputs that are no class's next token count as one), loss
    -ln alpha_n[n] (classes; nats, at the attention of infinitely long sequences), speed gamma_n = w_n[n]
    (1 - alpha_n[n]) (classes), which is (85) under the modified flow.
    """
    classes = run.classes
    assert classes is not None
    assert run.Y is not None
    assert run.decoder_rows is not None
    assert run.decoder_outputs is not None
    entries, starts = run.attention_entries, classes.P.indptr[:-1]
    norm = np.sqrt(np.add.reduceat(entries**2, starts, axis=1))
    rows = run.Y[:, run.decoder_rows[classes.P.indices]]
    W = np.add.reduceat(entries[:, :, None] * rows, starts, axis=1) / norm[:, :, None]
    # The next tokens first, in their order, then the others: systems order their columns differently.
    outputs = run.decoder_outputs.tolist()
    order = [outputs.index(output) for output in (*classes.next_tokens, -1) if output in outputs]
    W = W[:, :, order]
    own = np.arange(classes.num_classes), classes.next_index
    count = np.ones(len(order))
    count[classes.next_tokens.size :] = classes.vocab_size - classes.next_tokens.size
    others = count * np.exp(W - W[:, *own][:, :, None])
    others[:, *own] = 0.0
    odds = others.sum(axis=2)  # (1 - alpha_n[n])/alpha_n[n]
    return {
        "logits": W.reshape(W.shape[0], -1),
        "loss": np.log1p(odds),
        "speed": W[:, *own] * odds / (1.0 + odds),
    }


def _dominant_pairs(classes: SequenceClasses, z: Floats) -> tuple[Ints, Ints]:
    """Entries of P (dominant distinct token of the class, other distinct token of it), one pair per other token."""
    first: list[int] = []
    second: list[int] = []
    weight = np.log(classes.P.data) + z[classes.z_coordinates][classes.z_of_entry]
    distinct = classes.omega_size[classes.P.indices] == 1
    for start, stop in zip(classes.P.indptr[:-1], classes.P.indptr[1:], strict=True):
        own = start + np.flatnonzero(distinct[start:stop])
        if own.size < 2:
            continue
        dominant = own[np.argmax(weight[own])]
        others = own[own != dominant]
        first += [dominant] * others.size
        second += others.tolist()
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Rung:
    """One rung: its runs (one per seed where it is random) and what it gives up against the rung above.

    `observe` gives what is compared, by name, (N, components) each; one ladder has one of them.
    """

    name: str
    runs: tuple[Trajectory, ...]
    gives_up: str = ""
    observe: Callable[[Trajectory], dict[str, Floats]] = attention_observables

    @cached_property
    def observables(self) -> dict[str, Floats]:
        """Mean over the runs of each observable, (N, components)."""
        return {name: values.mean(axis=0) for name, values in self._stacked.items()}

    @cached_property
    def standard_errors(self) -> dict[str, Floats]:
        """Standard error of that mean, (N, components); 0 where the rung is not random."""
        count = len(self.runs)
        if count == 1:
            return {name: np.zeros_like(values[0]) for name, values in self._stacked.items()}
        return {name: values.std(axis=0, ddof=1) / np.sqrt(count) for name, values in self._stacked.items()}

    @cached_property
    def _stacked(self) -> dict[str, Floats]:
        found = [self.observe(run) for run in self.runs]
        return {name: np.array([values[name] for values in found]) for name in found[0]}


@dataclass(frozen=True)
class Break:
    """Where a tolerance breaks: between `finer` and `rung`, first in `observable` at time `t`.

    `why` is what is given up from the one to the other, with the rungs between them that do not apply.
    """

    rung: str
    finer: str
    observable: str
    t: float
    gap: float
    largest_gap: float
    tolerance: float
    why: str

    def __str__(self) -> str:
        return (
            f"{self.rung}: its gap to {self.finer} passes {self.tolerance:g} first in {self.observable}, at "
            f"t = {self.t:.4g}, and reaches {self.largest_gap:.3g}. {self.why}"
        )


@dataclass(frozen=True, eq=False)
class Ladder:
    """Rungs on one clock, from the finest down.

    Attributes
    ----------
    t : (N,) array
        Times of every rung, batch-size-1 steps without momentum. Where there are stepped rungs these are the whole
        steps nearest to the times asked for (with momentum: `momentum_clock` of them), so nothing is interpolated.
    rungs : tuple of Rung
    absent : dict
        Rungs that do not apply, with the reason.
    tolerance : float
        Default of `first_break`.
    """

    t: Floats
    rungs: tuple[Rung, ...]
    absent: dict[str, str] = field(default_factory=dict)
    tolerance: float = 0.05

    def __getitem__(self, name: str) -> Rung:
        for rung in self.rungs:
            if rung.name == name:
                return rung
        if name in self.absent:
            raise InputError(
                f"expected a rung of this ladder, received {name!r}, which does not apply: {self.absent[name]}"
            )
        raise unknown_name("rung", name, [rung.name for rung in self.rungs])

    def with_rung(self, name: str, *runs: Trajectory) -> Ladder:
        """Return the ladder with the runs of one rung put in the place of its own, on the same times."""
        if any(not np.array_equal(run.t, self.t) for run in runs) or not runs:
            raise InputError("expected runs on the ladder's own times, received others; run them at t_eval=ladder.t")
        changed = replace(self[name], runs=runs)
        return replace(self, rungs=tuple(changed if rung.name == name else rung for rung in self.rungs))

    def compare(self, finer: str, coarser: str) -> xarray.Dataset:
        """Gaps between any two rungs.

        Returns
        -------
        xarray.Dataset
            Over (observable, t): `gap` = max over components of |finer - coarser| / scale, where the scale is the
            farthest that any component of the observable gets from its start on the finer rung, over the whole
            run: 1 is as much as happens. `resolved` = max of (|difference| - q standard errors)/scale: what the noise
            of the seeds does not explain at level 1 % per observable (Student's t, Bonferroni over components and
            times). `scale` over (observable). An observable without components (no class with two distinct
            tokens: no relative gain) is NaN. Where one of the two rungs has no value any more (the reduced
            system ends) the gap is infinite.
        """
        import xarray

        above, below = self[finer], self[coarser]
        start = above.observe(_at_start(above.runs[0]))
        gap = np.full((len(start), self.t.size), np.nan)
        resolved, scale = gap.copy(), np.full(len(start), np.nan)
        for i, name in enumerate(start):
            a, b = above.observables[name], below.observables[name]
            if a.shape[1] == 0:
                continue
            difference = np.where(np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b))
            noise = _quantile(above, below, a.size) * np.hypot(above.standard_errors[name], below.standard_errors[name])
            scale[i] = np.nanmax(np.abs(a - start[name]))
            # Where nothing has moved, differences are rounding and solver error, not gaps.
            difference[difference <= ROUNDING * max(1.0, float(np.nanmax(np.abs(a))))] = 0.0
            gap[i] = _scaled(difference.max(axis=1), scale[i])
            resolved[i] = _scaled(np.maximum(difference - noise, 0.0).max(axis=1), scale[i])
        return xarray.Dataset(
            {
                "gap": (("observable", "t"), gap),
                "resolved": (("observable", "t"), resolved),
                "scale": ("observable", scale),
            },
            {"observable": list(start), "t": ("t", self.t, {"units": "batch-size-1 steps"})},
        )

    @cached_property
    def gaps(self) -> xarray.Dataset:
        """Gaps between neighbours as in `compare`, over (rung, observable, t); `finer` names the rung above."""
        import xarray

        names = [rung.name for rung in self.rungs]
        if len(names) < 2:
            raise InputError(f"expected a ladder of at least two rungs, received {names}; see ladder.absent")
        pairs = [self.compare(finer, coarser) for finer, coarser in pairwise(names)]
        together = xarray.concat(pairs, dim="rung")
        return together.assign_coords(rung=("rung", names[1:]), finer=("rung", names[:-1]))

    def breaks(self, tolerance: float | None = None) -> list[Break]:
        """Every rung whose gap to its neighbour above passes the tolerance by more than noise, from the finest down."""
        limit = self.tolerance if tolerance is None else positive("tolerance", tolerance)
        found = []
        for rung in self.rungs[1:]:
            here = self.gaps.sel(rung=rung.name)
            beyond = here.resolved.values > limit
            if not beyond.any():
                continue
            first = int(np.flatnonzero(beyond.any(axis=0))[0])
            worst = int(np.nanargmax(here.resolved.values[:, first]))
            found.append(
                Break(
                    rung=rung.name,
                    finer=str(here.finer.values),
                    observable=str(here.observable.values[worst]),
                    t=float(self.t[first]),
                    gap=float(here.gap.values[worst, first]),
                    largest_gap=float(np.nanmax(here.gap.values)),
                    tolerance=limit,
                    why=rung.gives_up,
                )
            )
        return found

    def first_break(self, tolerance: float | None = None) -> Break | None:
        """The first rung, from the finest down, at which the tolerance breaks; None when it holds all the way."""
        return next(iter(self.breaks(tolerance)), None)

    def undecided(self, tolerance: float | None = None) -> tuple[str, ...]:
        """Rungs whose gap is above the tolerance but within the noise of the seeds: more seeds would tell."""
        limit = self.tolerance if tolerance is None else positive("tolerance", tolerance)
        largest = self.gaps[["gap", "resolved"]].max(("observable", "t"))
        open_ = (largest.gap.values > limit) & (largest.resolved.values <= limit)
        return tuple(str(name) for name in largest.rung.values[open_])

    def __str__(self) -> str:
        width = max(len(name) for name in (*(rung.name for rung in self.rungs), *self.absent))
        lines = [" " * width + "".join(f"{name:>15}" for name in self.gaps.observable.values)]
        lines.append(f"{self.rungs[0].name:>{width}}")
        for rung in self.rungs[1:]:
            largest = self.gaps.gap.sel(rung=rung.name).max("t").values
            lines.append(f"{rung.name:>{width}}" + "".join(f"{value:15.2e}" for value in largest))
        lines += [f"{name:>{width}}  does not apply: {reason}" for name, reason in self.absent.items()]
        broken = self.first_break()
        lines.append(str(broken) if broken else f"No rung passes the tolerance {self.tolerance:g}.")
        return "\n".join(lines)


def _at_start(run: Trajectory) -> Trajectory:
    assert run.classes is not None
    start = run.z_initial[run.classes.z_coordinates]
    Y = None if run.Y is None else np.zeros_like(run.Y[:1])
    return replace(run, t=np.zeros(1), z_support=start[None], Y=Y)


def _quantile(above: Rung, below: Rung, comparisons: int) -> float:
    """Standard errors that noise exceeds with chance LEVEL in any of the comparisons; 0 where nothing is random."""
    counts = [len(rung.runs) for rung in (above, below) if len(rung.runs) > 1]
    return float(stdtrit(min(counts) - 1, 1 - LEVEL / (2 * comparisons))) if counts else 0.0


def _scaled(difference: Floats, scale: float) -> Floats:
    """Difference in units of the scale; what is not a number is infinitely far."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference == 0, 0.0, difference / scale)
    return np.where(np.isnan(ratio), np.inf, ratio)
