"""Gaps between the rungs of a ladder, with the noise of the seeds, the rungs that break a tolerance, and the orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from snapdyn.core.errors import InputError, positive, unknown_name, whole
from snapdyn.core.prose import html_table
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.phases import attention_observables
from snapdyn.validation.statistics import DECISIVE, Fit, spread, standard_error

if TYPE_CHECKING:
    import xarray

STOCHASTIC, DESCENT, FLOW = "stochastic", "descent", "flow"
MEAN = "mean"  # of the seeds of the stochastic rung
# Probability that the noise of the seeds alone makes any component of one observable break a tolerance.
SIGNIFICANCE = 0.01
# Rounding of a run relative to the size of an observable: its largest value, and at least the size of its terms.
SOLVER_ROUNDING = 1e-12
# Gaps below this are the errors of the flow's integration, not of the steps.
SMALLEST_GAP = 1e-7


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
    def observed(self) -> dict[str, Floats]:
        """Each observable of each run, (runs, N, components)."""
        found = [self.observe(run) for run in self.runs]
        return {name: np.array([values[name] for values in found]) for name in found[0]}

    @cached_property
    def observables(self) -> dict[str, Floats]:
        """Mean over the runs of each observable, (N, components)."""
        return {name: values.mean(axis=0) for name, values in self.observed.items()}

    @cached_property
    def standard_errors(self) -> dict[str, Floats]:
        """Standard error of the mean of each observable, (N, components); 0 if the rung is not random."""
        stacks = self.observed.items()
        return {name: standard_error(x) if len(x) > 1 else np.zeros_like(x[0]) for name, x in stacks}

    @cached_property
    def start(self) -> dict[str, Floats]:
        """Observables at the start of the runs, (1, components)."""
        run = self.runs[0]
        if not run.has_z:  # such a run has the start as its first time
            return {name: values[0, :1] for name, values in self.observed.items()}
        z, Y = run.z_initial[None, *run.require_classes().z_coordinates], run.Y
        return self.observe(run.changed(t=np.zeros(1), z_support=z, Y=None if Y is None else np.zeros_like(Y[:1])))


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
    halved : callable, optional
        ``halved(k, seeds)`` returns step size h/2^k and the ladder on the same steps of the flow at this step size;
        for ladders of `ladder_of`.
    """

    t: Floats
    rungs: tuple[Rung, ...]
    absent: dict[str, str] = field(default_factory=dict)
    tolerance: float = 0.05
    rate_ratio: float = 1.0
    halved: Callable[[int, int | None], tuple[float, Ladder]] | None = None

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
        found = {rung.name: rung for rung in self.rungs}
        if name in self.absent:
            raise InputError(
                f"expected a rung of this ladder, received {name!r}, which does not apply: {self.absent[name]}"
            )
        if name not in found:
            raise unknown_name("rung", name, found)
        return found[name]

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
        names = list(above.start)
        gap, resolved = np.full((2, len(names), self.t.size), np.nan)
        scale = np.full(len(names), np.nan)
        for i, name in enumerate(names):
            a, b = above.observables[name], below.observables[name]
            if a.shape[1] == 0:
                continue
            difference = np.where(np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b))
            scale[i] = np.nanmax(np.abs(a - above.start[name]))
            # Differences below the rounding of a run are not gaps. The rate of z in the decoder's time eta_Y t is
            # eta_Z/eta_Y times a sum of terms of order 1; other observables add terms of order 1.
            terms = min(1.0, self.rate_ratio) if name == "z" else 1.0
            difference[difference <= SOLVER_ROUNDING * max(terms, np.nanmax(np.abs(a)))] = 0.0
            gap[i] = _scaled(difference, scale[i])
            resolved[i] = _scaled(np.maximum(difference - _noise(above, below, name), 0.0), scale[i])
        return xarray.Dataset(
            {
                "gap": (("observable", "t"), gap),
                "resolved": (("observable", "t"), resolved),
                "scale": ("observable", scale),
            },
            {"observable": names, "t": ("t", self.t, {"units": self.rungs[0].runs[0].clock})},
        )

    @cached_property
    def gaps(self) -> xarray.Dataset:
        """Gaps between neighbouring rungs as in `compare`, (rung, observable, t), with the rung above as `finer`."""
        import xarray

        names = [rung.name for rung in self.rungs]
        if len(names) < 2:
            raise InputError(f"expected a ladder of at least two rungs, received {names}; see ladder.absent")
        together = xarray.concat([self.compare(*pair) for pair in pairwise(names)], dim="rung")
        return together.assign_coords(rung=names[1:], finer=("rung", names[:-1]))

    def breaks(self, tolerance: float | None = None) -> list[Break]:
        """Rungs whose resolved gap to the rung above is larger than the tolerance, from the finest down."""
        limit = self.tolerance if tolerance is None else positive("tolerance", tolerance)
        broken = []
        for above, rung in pairwise(self.rungs):
            here = self.gaps.sel(rung=rung.name)
            gap, resolved = here.gap.values, here.resolved.values
            late = np.flatnonzero((resolved > limit).any(axis=0))
            if late.size:
                first = late[0]
                worst = np.nanargmax(resolved[:, first])
                where = str(here.observable.values[worst]), float(self.t[first]), float(gap[worst, first])
                broken.append(Break(rung.name, above.name, *where, np.nanmax(gap), limit, rung.approximation))
        return broken

    def first_break(self, tolerance: float | None = None) -> Break | None:
        """Return the first of `breaks`, or None if no rung breaks the tolerance."""
        return next(iter(self.breaks(tolerance)), None)

    def undecided(self, tolerance: float | None = None) -> tuple[str, ...]:
        """Rungs whose gap is above the tolerance, but within the noise of the seeds: more seeds can decide these."""
        limit = self.tolerance if tolerance is None else positive("tolerance", tolerance)
        largest = self.gaps.max(("observable", "t"))
        return tuple(self.gaps.rung.values[(largest.gap > limit) & (largest.resolved <= limit)])

    def orders(self, halvings: int = 4, seeds: int | None = None) -> dict[str, Fit]:
        """Halve the step size, at fixed times of the flow; fit the orders of descent, the seeds' spread and their mean.

        Parameters
        ----------
        halvings : int
            Number of halvings, at least 3.
        seeds : int, optional
            Seeds at each step size; default 10 times those of the ladder.

        Returns
        -------
        dict of str to Fit
            Fits with their `order` and whether it `agrees` with the expected order: "descent", 1 for its distance from
            the flow; "stochastic", 1/2 for the spread of the seeds; "mean", 1 for the distance of their mean from the
            flow, along its direction at the largest step. All are relative to the largest change of the state on the
            flow. Left out are rungs that the ladder does not have, descent where it equals the flow to the tolerance
            of the integration, and the mean where its noise leaves the order open: give more seeds, or a larger step.
            Empty for ladders of sequence classes: figure "orders" has their orders.

        Raises
        ------
        InputError
            The samples do not differ between seeds, or a run at a smaller step size failed.

        Examples
        --------
        >>> import snapdyn as sd, sympy
        >>> u = sympy.Symbol("u")
        >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u})
        >>> sd.ladder_of(decay, [1.0], step_size=0.1).orders()["descent"].agrees
        True
        """
        whole("halvings", halvings, 3)
        names = {rung.name for rung in self.rungs} & {DESCENT, STOCHASTIC}
        if self.halved is None or not names:
            return {}
        if seeds is not None:
            whole("seeds", seeds, 2)
        sizes, ladders = zip(*(self.halved(k, seeds) for k in range(halvings + 1)), strict=True)
        found = {}
        if STOCHASTIC in names:
            scales = [float(each.compare(FLOW, STOCHASTIC).scale.sel(observable="state")) or 1.0 for each in ladders]
            spreads, errors = np.transpose([spread(each[STOCHASTIC].observed["state"]) for each in ladders]) / scales
            if not (errors > 0).all():
                raise InputError(
                    "expected samples that differ between seeds, received runs without spread; draw from rng in "
                    "sample_update"
                )
            name = "spread of the seeds, in the step"
            found[STOCHASTIC] = Fit(name, STOCHASTIC, np.array(sizes), spreads, errors, 0.5, 1.0)
            off = [each[STOCHASTIC].observed["state"] - each[FLOW].observables["state"] for each in ladders]
            direction = off[0].mean(axis=0) / np.linalg.norm(off[0].mean(axis=0))
            along = np.array([np.tensordot(values, direction) for values in off]) / np.array(scales)[:, None]
            noise = standard_error(along, axis=1)
            for next_order in (1.0, None):  # a next term only where the noise lets it be fitted
                mean = Fit("mean to flow", STOCHASTIC, np.array(sizes), along.mean(axis=1), noise, 1.0, next_order)
                if (mean.gap > 0).all() and mean.order.margin() < DECISIVE:
                    found[MEAN] = mean
                    break
        if DESCENT in names:
            gaps = np.array([each.compare(FLOW, DESCENT).gap.sel(observable="state").max() for each in ladders])
            if gaps.max() > SMALLEST_GAP:
                found[DESCENT] = Fit("descent to flow, in the step", DESCENT, np.array(sizes), gaps, None, 1.0, 1.0)
        return found

    def __str__(self) -> str:
        width = max(len(name) for name in (*(rung.name for rung in self.rungs), *self.absent))
        largest = self.gaps.gap.max("t")
        lines = [" " * width + "".join(f"{name:>15}" for name in largest.observable.values)]
        lines.append(f"{self.rungs[0].name:>{width}}")
        for name, row in zip(largest.rung.values, largest.values, strict=True):
            lines.append(f"{name:>{width}}" + "".join(f"{value:15.2e}" for value in row))
        lines += [f"{name:>{width}}  does not apply: {reason}" for name, reason in self.absent.items()]
        noise = " by more than the noise of the seeds" if self.undecided() else ""
        lines.append(str(self.first_break() or f"No gap exceeds the tolerance {self.tolerance:g}{noise}."))
        return "\n".join(lines)


def _noise(above: Rung, below: Rung, name: str) -> Floats:
    """Size that the noise of an observable's difference exceeds anywhere with probability SIGNIFICANCE; 0 without."""
    counts = [len(rung.runs) for rung in (above, below) if len(rung.runs) > 1]
    if not counts:
        return np.zeros(1)
    from scipy.special import stdtrit  # a worker of a sweep needs none

    errors = np.hypot(above.standard_errors[name], below.standard_errors[name])
    return np.asarray(stdtrit(min(counts) - 1, 1 - SIGNIFICANCE / (2 * errors.size)) * errors)


def _scaled(difference: Floats, scale: float) -> Floats:
    """Largest of the components of the difference relative to the scale, (N,).

    It is 0 where there is no difference, infinite where the ratio is not a number.
    """
    largest = difference.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(largest == 0, 0.0, largest / scale)
    return np.where(np.isnan(ratio), np.inf, ratio)
