"""Gaps between the rungs of a ladder, with the noise of the seeds, and the rungs at which a tolerance breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from snapdyn.core.errors import InputError, positive, unknown_name
from snapdyn.core.html import html_table
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.observables import attention_observables
from snapdyn.validation.statistics import standard_error

if TYPE_CHECKING:
    import xarray

# Probability that the noise of the seeds alone makes any component of one observable break a tolerance.
SIGNIFICANCE = 0.01
# Rounding of a run relative to the size of an observable: its largest value, and at least its `_unit`.
SOLVER_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Rung:
    """One rung of a ladder.

    Attributes
    ----------
    name : str
        Name of the rung.
    runs : tuple of Trajectory
        One run per seed if the rung is random, else one run.
    approximation : str
        The approximation that the rung makes relative to the rung above.
    observe : callable
        ``observe(run)`` returns the observables to compare, by name, (N, components) each. All rungs of a ladder have
        the same observables.
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
        """Standard error of the mean of each observable, (N, components); 0 if the rung is not random."""
        count = len(self.runs)
        if count == 1:
            return {name: np.zeros_like(values[0]) for name, values in self._stacked.items()}
        return {name: standard_error(values) for name, values in self._stacked.items()}

    @cached_property
    def _stacked(self) -> dict[str, Floats]:
        observed = [self.observe(run) for run in self.runs]
        return {name: np.array([values[name] for values in observed]) for name in observed[0]}


@dataclass(frozen=True)
class Break:
    """A rung whose gap to the rung above is larger than the tolerance.

    Attributes
    ----------
    rung : str
        Name of the rung.
    finer : str
        Name of the rung above.
    observable : str
        Observable with the largest resolved gap at `t`.
    t : float
        First time at which the gap is larger than the tolerance, in batch-size-1 steps.
    gap : float
        Gap of `observable` at `t`, as in `Ladder.compare`.
    largest_gap : float
        Largest gap of all observables and times.
    tolerance : float
        The tolerance.
    why : str
        Approximation from `finer` to `rung`, together with those of absent rungs between them.
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
        Times of every rung, batch-size-1 steps without momentum. If SGD or descent run, these are the whole steps
        nearest to the requested times (with momentum: the `momentum_clock` of these steps): no interpolation is needed.
    rungs : tuple of Rung
        The rungs that apply.
    absent : dict
        Names of the rungs that do not apply, with the reasons.
    tolerance : float
        Default of `first_break`.
    rate_ratio : float
        eta_Z/eta_Y of the runs, to which z is proportional while attention is slow.
    """

    t: Floats
    rungs: tuple[Rung, ...]
    absent: dict[str, str] = field(default_factory=dict)
    tolerance: float = 0.05
    rate_ratio: float = 1.0

    def __repr__(self) -> str:
        span = f"t = {self.t[0]:.4g}..{self.t[-1]:.4g}" if self.t.size else "no times"
        return f"Ladder({', '.join(rung.name for rung in self.rungs)}; {self.t.size} times, {span})"

    def _repr_html_(self) -> str:
        """Table of the rungs, for notebooks: the largest gap of each to the rung above, with its observable."""
        rows = {rung.name: f"{len(rung.runs)} run{'s' * (len(rung.runs) > 1)}" for rung in self.rungs}
        for above, rung in pairwise(self.rungs):
            gaps = self.gaps.gap.sel(rung=rung.name).max("t")
            worst = gaps.fillna(-1.0).idxmax().item()
            rows[rung.name] += f"; largest gap to {above.name}: {gaps.sel(observable=worst).item():.3g} ({worst})"
        return html_table("Ladder", rows | {name: f"does not apply: {why}" for name, why in self.absent.items()})

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
        """Return the ladder with the runs of rung `name` replaced by `runs`, which have the same times."""
        if any(not np.array_equal(run.t, self.t) for run in runs) or not runs:
            raise InputError("expected runs on the ladder's own times, received others; run them at t_eval=ladder.t")
        changed = replace(self[name], runs=runs)
        return replace(self, rungs=tuple(changed if rung.name == name else rung for rung in self.rungs))

    def compare(self, finer: str, coarser: str) -> xarray.Dataset:
        """Gaps between two rungs.

        Parameters
        ----------
        finer : str
            Name of the reference rung.
        coarser : str
            Name of the rung that is compared with it.

        Returns
        -------
        xarray.Dataset
            `gap` (observable, t): max over components of |finer - coarser|/scale. `scale` (observable): largest change
            of any component from its start on the finer rung, over the whole run. `resolved` (observable, t): max
            of (|difference| - q standard errors)/scale, the part that the noise of the seeds does not explain, q for a
            level of 1 % per observable (Student's t, Bonferroni over components and times). An observable without
            components is NaN (the relative gain, if no class has two distinct tokens). The gap is infinite where one
            of the two rungs has no value (after the end of the reduced system).

        Raises
        ------
        InputError
            If a rung is unknown or does not apply.
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
            # Differences below the rounding of a run are not gaps.
            size = max(self._unit(name), float(np.nanmax(np.abs(a))))
            difference[difference <= SOLVER_ROUNDING * size] = 0.0
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

    def _unit(self, observable: str) -> float:
        """Return the smallest size of the terms that an observable adds up.

        It is 1 for all but z. The rate of z in the decoder's time eta_Y t is eta_Z/eta_Y times a sum of terms of order
        1, so the unit of z is the smaller of 1 and eta_Z/eta_Y: small logits z are computed to all their digits.
        """
        return min(1.0, self.rate_ratio) if observable == "z" else 1.0

    @cached_property
    def gaps(self) -> xarray.Dataset:
        """Gaps between neighbouring rungs as in `compare`, (rung, observable, t), with the rung above as `finer`."""
        import xarray

        names = [rung.name for rung in self.rungs]
        if len(names) < 2:
            raise InputError(f"expected a ladder of at least two rungs, received {names}; see ladder.absent")
        pairs = [self.compare(finer, coarser) for finer, coarser in pairwise(names)]
        together = xarray.concat(pairs, dim="rung")
        return together.assign_coords(rung=("rung", names[1:]), finer=("rung", names[:-1]))

    def breaks(self, tolerance: float | None = None) -> list[Break]:
        """Rungs whose resolved gap to the rung above is larger than the tolerance, from the finest down."""
        limit = self.tolerance if tolerance is None else positive("tolerance", tolerance)
        broken = []
        for rung in self.rungs[1:]:
            here = self.gaps.sel(rung=rung.name)
            beyond = here.resolved.values > limit
            if not beyond.any():
                continue
            first = int(np.flatnonzero(beyond.any(axis=0))[0])
            worst = int(np.nanargmax(here.resolved.values[:, first]))
            broken.append(
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
        return broken

    def first_break(self, tolerance: float | None = None) -> Break | None:
        """Return the first of `breaks`, or None if no rung breaks the tolerance."""
        return next(iter(self.breaks(tolerance)), None)

    def undecided(self, tolerance: float | None = None) -> tuple[str, ...]:
        """Rungs whose gap is above the tolerance, but within the noise of the seeds: more seeds can decide these."""
        limit = self.tolerance if tolerance is None else positive("tolerance", tolerance)
        largest = self.gaps[["gap", "resolved"]].max(("observable", "t"))
        unresolved = (largest.gap.values > limit) & (largest.resolved.values <= limit)
        return tuple(str(name) for name in largest.rung.values[unresolved])

    def __str__(self) -> str:
        width = max(len(name) for name in (*(rung.name for rung in self.rungs), *self.absent))
        lines = [" " * width + "".join(f"{name:>15}" for name in self.gaps.observable.values)]
        lines.append(f"{self.rungs[0].name:>{width}}")
        for rung in self.rungs[1:]:
            largest = self.gaps.gap.sel(rung=rung.name).max("t").values
            lines.append(f"{rung.name:>{width}}" + "".join(f"{value:15.2e}" for value in largest))
        lines += [f"{name:>{width}}  does not apply: {reason}" for name, reason in self.absent.items()]
        broken = self.first_break()
        noise = " by more than the noise of the seeds" if self.undecided() else ""
        lines.append(str(broken) if broken else f"No gap exceeds the tolerance {self.tolerance:g}{noise}.")
        return "\n".join(lines)


def _at_start(run: Trajectory) -> Trajectory:
    if not run.has_z:  # such a run has the start as its first time
        state = None if run.state is None else run.state[:1]
        return run.changed(t=run.t[:1], state=state, observables={k: v[:1] for k, v in run.observables.items()})
    start = run.z_initial[run.require_classes().z_coordinates]
    Y = None if run.Y is None else np.zeros_like(run.Y[:1])
    return run.changed(t=np.zeros(1), z_support=start[None], Y=Y)


def _quantile(above: Rung, below: Rung, comparisons: int) -> float:
    """Number of standard errors that noise exceeds in any comparison with probability SIGNIFICANCE; 0 without noise."""
    counts = [len(rung.runs) for rung in (above, below) if len(rung.runs) > 1]
    from scipy.special import stdtrit  # a worker of a sweep needs none

    return float(stdtrit(min(counts) - 1, 1 - SIGNIFICANCE / (2 * comparisons))) if counts else 0.0


def _scaled(difference: Floats, scale: float) -> Floats:
    """Difference relative to the scale; 0 where there is none, infinite where the ratio is not a number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference == 0, 0.0, difference / scale)
    return np.where(np.isnan(ratio), np.inf, ratio)
