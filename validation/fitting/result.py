"""What a fit returns: estimates with intervals, and the verdict on the theory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from snapdyn.core.errors import choice, positive
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.fitting.bootstrap import LARGEST_MISFIT, LEVEL
from snapdyn.validation.fitting.theories import LINEAR, LOGARITHM, ODDS, Scale


@dataclass(frozen=True, eq=False)
class Fit:
    """A theory fitted to a trace.

    Attributes
    ----------
    estimates : dict of str to float
        Free parameters: rates per batch-size-1 step, "clock" (time of the theory over time of the trace),
        "common_probability", or parameters of an own system.
    standard_errors : dict of str to float
        In the units of the parameters.
    fixed : dict of str to float
        The parameters that were given.
    correlation : (k, k) array
        Correlation of the estimates, in the order of `estimates`.
    p_value : float
        Share of simulated traces of this theory whose residuals, after a fit of their own, are as large; at least
        1/601 for one seed and 1/1000 for several.
    visible_misfit : float
        Smooth misfit that the test notices in 95 of 100 traces of this design, as a share of the change of the curves
        since t = 0, after the fit of the free parameters: the largest of three, early, in the middle and late. If p is
        small and a parameter is not determined, the largest over all minima of the search: noise depends on parameters.
    errors : str
        "simulation": from simulated runs at the estimates; "seeds": from the scatter of the seeds.
    num_seeds : int
    clock : str
        Conversion of the trace's steps, in words.
    knows_length : bool
        Whether the length of the sequences is stated with the trace.
    t : (N,) array
        Times of the records that were used, in batch-size-1 steps.
    residuals : (R, N, m) array
        What was fitted minus the expected curves, for each seed; NaN where a seed lacks a value.
    largest : str
        The largest residual, in words.
    trajectory : Trajectory or None
        The flow at the estimates; None where only finite steps can follow the trace.
    scales : mapping of str to Scale
        Coordinates in which the intervals are symmetric.
    profiler : callable
        name -> (values, rises), which `profile` returns.
    not_quadratic : bool
        Whether intervals come from the profile: the trace hardly determines a parameter.
    warnings : list of str
        What is not determined or doubtful, and what else was tried after a rejection; raised as
        `IdentifiabilityWarning` too.
    recorded : list of str
        How much was recorded, in one sentence, where it is not everything.
    profiles : dict of str to pair of arrays
        Profiles that were asked for.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=2, common_probability=0.3)
    >>> run = sd.sgd(classes, eta_Y=0.02, eta_Z=0.04, steps=2000, batch_size=10, seed=1, record=range(0, 2001, 250))
    >>> result = sd.fit(sd.Trace.from_runs(run), classes, eta_Y=0.02, eta_Z=0.04)
    >>> lower, upper = result.interval(0.9)["eta_Y"]
    >>> bool(lower < 0.02 < upper)
    True
    """

    estimates: dict[str, float]
    standard_errors: dict[str, float]
    fixed: dict[str, float]
    correlation: Floats
    p_value: float
    visible_misfit: float
    errors: str
    num_seeds: int
    clock: str
    knows_length: bool
    t: Floats
    residuals: Floats
    largest: str
    trajectory: Trajectory | None
    scales: Mapping[str, Scale] = field(repr=False)
    profiler: Callable[[str], tuple[Floats, Floats]] = field(repr=False)
    not_quadratic: bool = False
    warnings: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    profiles: dict[str, tuple[Floats, Floats]] = field(default_factory=dict, repr=False)

    @property
    def describes(self) -> bool | None:
        """True: describes (p >= 0.05); False: does not describe; None: not testable.

        A trace is not testable where a misfit of half of the change would go unnoticed, whatever p is: under so much
        noise a true theory was rejected in 23 of 100 traces. Nor is it where the length of its sequences is unknown.
        """
        if not self.knows_length or self.visible_misfit > LARGEST_MISFIT:
            return None
        return bool(self.p_value >= LEVEL)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        p = f"p = {self.p_value:.2g}"
        if not self.knows_length:
            return f"not testable: the length of the sequences is unknown ({p} for infinitely long ones)"
        if self.describes is False:
            return f"this theory does not describe this trace ({p}): {self.largest}"
        seen = (
            f"a misfit of {self.visible_misfit:.2g} times the change of the curves would be noticed in 95 of 100 cases"
        )
        if self.describes is None:
            return f"not testable ({p}): only {seen}"
        return f"this theory describes this trace ({p}); {seen}"

    @property
    def combinations(self) -> list[tuple[str, float]]:
        """Products of powers of the parameters with independent errors, the best determined first.

        Eigenvectors of the covariance of the logarithms of the estimates (common_probability: of its odds), as
        `"eta_Y eta_Z^0.98"`, each with the standard error of its logarithm.
        """
        names = [
            f"odds({n})" if self.scales[n] is ODDS else n if self.scales[n] is LOGARITHM else f"exp({n})"
            for n in self.estimates
        ]
        s = np.array([self.standard_errors[n] / self.scales[n].slope(value) for n, value in self.estimates.items()])
        squares, vectors = np.linalg.eigh(self.correlation * np.outer(s, s))
        found = []
        for square, v in zip(squares, vectors.T, strict=True):
            powers = v / v[np.abs(v).argmax()]
            error = float(np.sqrt(max(square, 0.0)) / np.abs(v).max())
            words = [
                name if power > 0.995 else f"{name}^{power:.2g}"
                for name, power in zip(names, powers, strict=True)
                if abs(power) >= 0.05
            ]
            found.append((" ".join(words), error))
        return found

    def profile(self, name: str) -> tuple[Floats, Floats]:
        """Rise of the weighted sum of squares over one parameter, the others fitted at each of its values.

        Parameters
        ----------
        name : str
            A free parameter.

        Returns
        -------
        values : (21,) array
            Values of the parameter, increasing; the middle one is the estimate.
        rises : (21,) array
            Rise of the sum of squares above its value at the estimate, in units in which 2.71 bounds the interval of
            90 % (with errors="seeds" the square of Student's quantile, 3.59 for 8 seeds).

        Raises
        ------
        InputError
            Another parameter.
        """
        if choice("name", name, tuple(self.estimates)) not in self.profiles:
            self.profiles[name] = self.profiler(name)
        return self.profiles[name]

    def interval(self, level: float = 0.9) -> dict[str, tuple[float, float]]:
        """Confidence intervals of the estimates, symmetric in the logarithm (common_probability: in the logit).

        If the trace hardly determines a parameter, its interval comes from the profile. An end is then 0 or inf if the
        profile, which extends at most 4 standard errors and a factor 30 from the estimate, does not rise enough.
        Of a theory that does not describe the trace they say nothing about parameters of the trace.

        Parameters
        ----------
        level : float
            Between 0 and 1.

        Returns
        -------
        dict of str to (lower, upper)

        Raises
        ------
        InputError
            `level` is not between 0 and 1.
        """
        from scipy.special import ndtri, stdtrit  # importing scipy.stats takes half a second

        level = positive("level", level, below=1.0, advice="0.9 is usual")
        p = 0.5 + 0.5 * level
        quantile = float(stdtrit(self.num_seeds - 1, p) if self.errors == "seeds" else ndtri(p))
        found: dict[str, tuple[float, float]] = {}
        for name, value in self.estimates.items():
            if self.not_quadratic and self.scales[name] is not LINEAR:
                found[name] = _below(*self.profile(name), quantile**2)
                continue
            scale = self.scales[name]
            middle, half = scale.to(value), quantile * self.standard_errors[name] / scale.slope(value)
            found[name] = float(scale.back(middle - half)), float(scale.back(middle + half))
        return found

    def __str__(self) -> str:
        answer = [self.sentence, *self.warnings, *self.recorded]
        if self.describes is False:
            found = ", ".join(f"{name} = {value:.6g}" for name, value in self.estimates.items())
            return "\n".join([f"{found} come closest, by plain least squares", *answer])
        intervals = self.interval()
        lines = [
            f"{name} = {value:.6g} ± {self.standard_errors[name]:.2g} (90 %: {intervals[name][0]:.6g} to "
            f"{intervals[name][1]:.6g})"
            for name, value in self.estimates.items()
        ]
        if len(self.estimates) > 1:
            fixed = [f"{words} {_precision(error)}" for words, error in self.combinations]
            lines.append(f"this trace fixes {', and '.join(fixed)} (90 %)")
        return "\n".join([*lines, *answer])


def _precision(error: float) -> str:
    """Half of the width of a 90 % interval of a logarithm with a standard error, in words."""
    factor = float(np.exp(min(1.645 * error, 700.0)))
    return f"to {100 * (factor - 1):.2g} %" if factor < 1.5 else f"only within a factor {factor:.2g}"


def _below(values: Floats, rises: Floats, level: float) -> tuple[float, float]:
    """Ends between which a profile lies below a level; 0 or inf where the profile does not reach the level."""
    middle, ends = values.size // 2, []
    for side, none in ((slice(middle, None, -1), 0.0), (slice(middle, None), np.inf)):
        x, y = np.log(values[side]), rises[side]
        above = np.flatnonzero(y > level)
        if above.size == 0:
            ends.append(none)
            continue
        k = int(above[0])
        ends.append(float(np.exp(x[k - 1] + (x[k] - x[k - 1]) * (level - y[k - 1]) / (y[k] - y[k - 1]))))
    return ends[0], ends[1]
