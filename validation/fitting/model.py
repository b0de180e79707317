"""The theory as a function of its free parameters: observations, their derivatives, and their covariance."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit, logit

from snapdyn.dynamics import (
    FiniteLengthMeanField,
    MeanField,
    SequenceClasses,
    System,
    Trajectory,
    sensitivity,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.traces.clock import TraceClock
from snapdyn.dynamics.traces.noise import covariance_between_times
from snapdyn.errors import InputError
from snapdyn.validation.fitting import observations
from snapdyn.validation.rungs.run import DESCENT, run_on_rung

FREE = ("eta_Y", "eta_Z", "clock", "common_probability")
# Updates of descent that the correction for finite steps makes: seconds.
MOST_UPDATES = 2_000_000
RTOL = 1e-8


class FitModel:
    """Observations of the theory at given times, by parameters in coordinates without bounds.

    The coordinate of a rate and of the clock is its logarithm, that of common_probability its logit.

    Parameters
    ----------
    system : type of System
        Built as system(classes, eta_Y, eta_Z), with seq_len and z_initial where it takes them.
    classes : SequenceClasses
    free : tuple of str
        Among `FREE`.
    fixed : mapping
        Values of the parameters that are not free.
    quantity : str
    t : (N,) array
        Times by the clock of the trace, batch-size-1 steps; the theory's time is `clock` times them.
    seq_len : int or None
    z_initial : (Q, M) array or None
    """

    def __init__(
        self,
        system: type[System],
        classes: SequenceClasses,
        free: tuple[str, ...],
        fixed: Mapping[str, float],
        quantity: str,
        t: Floats,
        seq_len: int | None,
        z_initial: Floats | None,
    ) -> None:
        self.system, self.classes, self.free, self.fixed = system, classes, free, dict(fixed)
        self.quantity, self.t, self.seq_len, self.z_initial = quantity, t, seq_len, z_initial

    def values(self, coordinates: Floats) -> dict[str, float]:
        """Parameters by name, free and fixed, from the coordinates of the free ones."""
        found = dict(self.fixed)
        for name, x in zip(self.free, coordinates, strict=True):
            found[name] = float(expit(x) if name == "common_probability" else np.exp(x))
        return found

    def coordinates(self, values: Mapping[str, float]) -> Floats:
        """Coordinates of the free parameters (k,)."""
        return np.array([logit(values[n]) if n == "common_probability" else np.log(values[n]) for n in self.free])

    def unit(self, coordinates: Floats) -> Floats:
        """d(parameter)/d(coordinate) of the free parameters, (k,)."""
        values = self.values(coordinates)
        return np.array([values[n] * (1.0 - values[n] if n == "common_probability" else 1.0) for n in self.free])

    def classes_at(self, values: Mapping[str, float]) -> SequenceClasses:
        """Classes whose common tokens have the share common_probability, the profiles within both kinds kept."""
        share = values.get("common_probability")
        return self.classes if share is None else with_common_probability(self.classes, share)

    def build(self, system: type[System], values: Mapping[str, float], **options: Any) -> Any:
        """Build a system at the parameters; the clock multiplies both rates."""
        clock, accepted = values.get("clock", 1.0), inspect.signature(system).parameters
        given = {"seq_len": self.seq_len, "z_initial": self.z_initial}
        options |= {name: value for name, value in given.items() if name in accepted and name not in options}
        constructor: Any = system
        return constructor(self.classes_at(values), clock * values["eta_Y"], clock * values["eta_Z"], **options)

    def evaluate(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Observations (N, m) and their derivatives with respect to the coordinates (k, N, m)."""
        values = self.values(coordinates)
        system = self.build(self.system, values)
        wrt: list[Any] = ["eta_Y", "eta_Z"]
        if "common_probability" in self.free:
            wrt.append(("P", common_direction(system.classes)))
        result = sensitivity(system, self.t, wrt, rtol=RTOL, atol=RTOL / 100)
        changes = observations.derivatives(result, self.quantity)
        of_rates = changes[:, :2] * np.array([system.eta_Y, system.eta_Z])[:, None]  # by the logarithms
        by_name = {"eta_Y": of_rates[:, 0], "eta_Z": of_rates[:, 1], "clock": of_rates.sum(axis=1)}
        if "common_probability" in self.free:
            by_name["common_probability"] = changes[:, 2]
        values_at_times = observations.of_theory(result.trajectory, self.quantity)
        return values_at_times, np.stack([by_name[name] for name in self.free])

    def knows_steps(self, clock: TraceClock, updates: Floats) -> bool:
        """Whether the training of the trace can be made again: whole updates, not too many, of the mean field."""
        counted = clock.counts != "theory" and np.allclose(np.rint(updates), updates) and updates[-1] <= MOST_UPDATES
        return bool(counted) and issubclass(self.system, MeanField)

    def finite_steps(self, coordinates: Floats, clock: TraceClock, updates: Floats) -> Floats | None:
        """Observations of descent on the expectation minus those of the flow, (N, m); None where it is not known.

        Known for whole numbers of updates and for the mean field; at finite length to leading order.
        """
        if not self.knows_steps(clock, updates):
            return None
        whole = np.rint(updates)
        values = self.values(coordinates)
        factor = clock.rate_factor * values.get("clock", 1.0)
        rates, options = (factor * values["eta_Y"], factor * values["eta_Z"]), self.training(clock)
        try:
            run = run_on_rung(DESCENT, self.classes_at(values), *rates, whole.astype(int), **options)
        except RuntimeError:
            return None
        flow = self.run(MeanField, values, self.t)
        return observations.of_theory(run, self.quantity) - observations.of_theory(flow, self.quantity)

    def training(self, clock: TraceClock) -> dict[str, Any]:
        """Momentum and start of the training of the trace, as options of `sgd`."""
        init = "zeros" if self.z_initial is None else {"z": self.z_initial}
        return {"momentum": clock.momentum, "init": init}

    def run(self, system: type[System], values: Mapping[str, float], t: Floats) -> Trajectory:
        """Trajectory of a system at the parameters, at times by the clock of the trace."""
        return whole_run(self.build(system, values), t, rtol=RTOL, atol=RTOL / 100)

    def change(self, coordinates: Floats) -> Floats:
        """Observations minus those at t = 0, (N, m)."""
        run = self.run(self.system, self.values(coordinates), np.concatenate([[0.0], self.t]))
        found = observations.of_theory(run, self.quantity)
        return found[1:] - found[0]

    def covariance(self, coordinates: Floats, clock: TraceClock) -> tuple[Floats, Floats]:
        """Covariance (N m, N m) of the observations of one run, and the square (N,) of the expansion's parameter.

        The square is the variance of all state values together, plus that of the share of the rarest class among the
        sequences so far, relative to its mean: early, Y and z are a sum and a double sum over the sequences. The loss
        of a batch has the variance of drawing its sequences in addition.
        """
        values = self.values(coordinates)
        mean = self.build(FiniteLengthMeanField, values, lump=False, seq_len=self.seq_len)
        if self.quantity == "loss" and self.seq_len is not None:
            raise InputError(
                "expected seq_len=None, or several seeds and errors='seeds', for a fit of the loss, received "
                f"seq_len={self.seq_len}; the noise of short sequences in the loss is not computed"
            )
        observe = observations.of_state(mean, self.quantity)
        extra = np.zeros(self.t.size)

        def rows(k: int, state: Floats) -> Floats:
            if self.quantity == "loss":
                extra[k] = observations.batch_variance(mean, mean.decoder(state), mean.z_support(state))
            return observe(k, state)

        covariance, variance = covariance_between_times(mean, self.t, rows)
        factor = clock.noise_factor
        m = covariance.shape[0] // self.t.size
        rarest = float(self.classes.prior.min())
        squares = factor * (variance + (1.0 - rarest) / (rarest * self.t))
        return factor * covariance + np.diag(np.repeat(extra, m)) / clock.batch_size, squares


def common_share(classes: SequenceClasses) -> Floats:
    """Probability of all common tokens in each class, (S,)."""
    common = classes.omega_size[classes.P.indices] > 1
    return np.asarray(np.add.reduceat(np.where(common, classes.P.data, 0.0), classes.P.indptr[:-1]))


def common_direction(classes: SequenceClasses) -> Floats:
    """dP/d(logit of the common probability), (S, M): p (1 - p) over its share on each kind of token."""
    share = common_share(classes)[classes.class_of_entry]
    common = classes.omega_size[classes.P.indices] > 1
    change = np.zeros(classes.P.shape)
    change[classes.class_of_entry, classes.P.indices] = classes.P.data * np.where(common, 1.0 - share, -share)
    return change


def with_common_probability(classes: SequenceClasses, share: float) -> SequenceClasses:
    """Return the classes with another probability of common tokens, the same in every class."""
    before = common_share(classes)[classes.class_of_entry]
    common = classes.omega_size[classes.P.indices] > 1
    P = classes.P.copy()
    P.data = classes.P.data * np.where(common, share / before, (1.0 - share) / (1.0 - before))
    return SequenceClasses(P, classes.query, classes.next_token, classes.prior, classes.vocab_size)
