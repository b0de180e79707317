"""What a fit returns: estimates with their errors, the test of the residuals, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from snapdyn.dynamics import Trajectory
from snapdyn.dynamics.classes import Floats
from snapdyn.errors import InputError, positive
from snapdyn.validation.fitting.residuals import LEVEL_OF_TEST


@dataclass(frozen=True, eq=False)
class Fit:
    """A theory fitted to a trace.

    Attributes
    ----------
    estimates : dict of str to float
        Free parameters: rates per batch-size-1 step, "clock" (time of the theory over time of the trace), and
        "common_probability". Corrected for finite steps where `finite_step_bias` is not NaN.
    standard_errors : dict of str to float
        In the units of the parameters.
    fixed : dict of str to float
        The parameters that were given.
    allowance : dict of str to float
        Share of the variance of each estimate that is the allowance for the second order of the noise, from 0 to 1: an
        interval of a large share is wider than needed. 0 for errors="simulation" and "seeds".
    correlation : (k, k) array
        Of the estimates, in the order of `estimates`.
    condition : float
        Condition number of `correlation`; above 1000 the parameters can hardly be told apart.
    finite_step_bias : dict of str to float
        What the flow alone would add to each estimate, from descent on the expectation with the steps of the trace; NaN
        where it is not known.
    p_value : float
        Probability of residuals as large as these if the theory describes the trace; NaN where the noise at the
        estimates is too large for the test, or hides even a misfit as large as the change of the curves.
    degrees : int
        Number of directions of the residuals that are tested, minus the free parameters.
    errors : str
        "noise": from the linear-noise covariance over all times; "simulation": from runs of SGD at the estimates;
        "seeds": from the scatter of the seeds.
    num_seeds : int
    clock : str
        Conversion of the trace's steps, in words.
    seq_len : int, math.inf or None
        Length of the sequences as stated with the trace; None where it is unknown.
    t : (N,) array
        Times that are fitted, batch-size-1 steps.
    residuals : (R, N, m) array
        Trace minus theory, of each seed.
    trajectory : Trajectory
        The theory at the estimates, at `t` times the clock factor.
    warnings : list of str
        Sentences about parameters that the trace does not determine, about a verdict that it does not allow, and about
        intervals that are wider than needed. All but the last are raised as `IdentifiabilityWarning` too.

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
    allowance: dict[str, float]
    correlation: Floats
    condition: float
    finite_step_bias: dict[str, float]
    p_value: float
    degrees: int
    errors: str
    num_seeds: int
    clock: str
    seq_len: float | None
    t: Floats
    residuals: Floats
    trajectory: Trajectory
    warnings: list[str] = field(default_factory=list)

    @property
    def describes(self) -> bool:
        """Whether the theory describes the trace: its `seq_len` is known, and p_value is at least 0.001."""
        return self.seq_len is not None and self.p_value >= LEVEL_OF_TEST

    @property
    def sentence(self) -> str:
        """The verdict of the test of the residuals."""
        if np.isnan(self.p_value):
            return "not testable: at the estimates the noise of this theory is too large for a test on this trace"
        numbers = f"(p = {self.p_value:.2g}, {self.degrees} degrees of freedom)"
        if self.p_value < LEVEL_OF_TEST:
            return f"this theory does not describe this trace {numbers}"
        if self.seq_len is None:
            return f"undecided: the residuals are as predicted {numbers}, but the length of the sequences is unknown"
        return f"this theory describes this trace {numbers}"

    def interval(self, level: float = 0.9) -> dict[str, tuple[float, float]]:
        """Confidence intervals of the estimates, symmetric in the logarithm (common_probability: in the logit).

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
        from scipy.special import expit, logit
        from scipy.stats import norm, t

        level = positive("level", level)
        if level >= 1.0:
            raise InputError(f"expected level between 0 and 1, received {level:g}; 0.9 is usual")
        of = t(self.num_seeds - 1) if self.errors == "seeds" else norm
        quantile = float(of.ppf(0.5 + 0.5 * level))
        found: dict[str, tuple[float, float]] = {}
        for name, value in self.estimates.items():
            odds = name == "common_probability"
            half = quantile * self.standard_errors[name] / (value * (1.0 - value) if odds else value)
            middle = logit(value) if odds else np.log(value)
            back = expit if odds else np.exp
            found[name] = float(back(middle - half)), float(back(middle + half))
        return found

    def __str__(self) -> str:
        intervals = self.interval()
        lines = [
            f"{name} = {value:.6g} ± {self.standard_errors[name]:.2g} (90 %: {intervals[name][0]:.6g} to "
            f"{intervals[name][1]:.6g}; the flow alone: {self.finite_step_bias[name]:+.2g})"
            for name, value in self.estimates.items()
        ]
        return "\n".join([*lines, self.sentence, *self.warnings])
