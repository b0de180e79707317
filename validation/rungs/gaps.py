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
from snapdyn.dynamics.classes import Floats
from snapdyn.errors import InputError, positive, unknown_name
from snapdyn.validation.rungs.observables import attention_observables
from snapdyn.validation.statistics import standard_error

if TYPE_CHECKING:
    import xarray

Ints = NDArray[np.int64]
# Chance that noise of the seeds alone makes some component of one observable break a tolerance.
SIGNIFICANCE = 0.01
# Solver's error relative to an observable's largest value, or to 1: z itself is compared at the solver's atol.
SOLVER_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Rung:
    """One rung: its runs (one per seed where it is random) and what it gives up against the rung above.

    `observe` gives what is compared, by name, (N, components) each; one ladder has one of them.
    """

    name: str
    runs: tuple[Trajectory, ...]
    approximation: str = ""
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
        return {name: standard_error(values) for name, values in self._stacked.items()}

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
            difference[difference <= SOLVER_ROUNDING * max(1.0, float(np.nanmax(np.abs(a))))] = 0.0
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
                    why=rung.approximation,
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
    start = run.z_initial[run.require_classes().z_coordinates]
    Y = None if run.Y is None else np.zeros_like(run.Y[:1])
    return replace(run, t=np.zeros(1), z_support=start[None], Y=Y)


def _quantile(above: Rung, below: Rung, comparisons: int) -> float:
    """Standard errors that noise exceeds with probability SIGNIFICANCE in any comparison; 0 where nothing is random."""
    counts = [len(rung.runs) for rung in (above, below) if len(rung.runs) > 1]
    return float(stdtrit(min(counts) - 1, 1 - SIGNIFICANCE / (2 * comparisons))) if counts else 0.0


def _scaled(difference: Floats, scale: float) -> Floats:
    """Difference in units of the scale; what is not a number is infinitely far."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference == 0, 0.0, difference / scale)
    return np.where(np.isnan(ratio), np.inf, ratio)
