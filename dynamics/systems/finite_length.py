"""The mean field of finite sequences: the expectation over the counts to second order."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, whole
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.finite_length import FINITE_LENGTH_ROWS, finite_length
from snapdyn.dynamics.systems.mean_field import MeanField

# Where the frequencies that attention weights vary by as much as their mean, a second-order expansion fails: on
# Syn-Small the correction divides the bias by 5 at a noise of 0.5, still reduces it at 1, and diverges at 2
# (docs/theory/finite_length_and_noise.md).
LARGEST_COUNT_NOISE = 1.0
# Beyond it rounding in the logarithms of the binomial distribution could be seen, and such sequences act as infinite.
LONGEST_SEQUENCE = 10**9


class ExpansionWarning(UserWarning):
    """A run reached states where the second-order correction for finite sequences is not valid."""


class FiniteLengthMeanField(MeanField):
    """Expectation of the SGD step (3)-(4) as a flow, to second order in the fluctuations of the counts.

    A sequence has T-1 contextual tokens, so its token frequencies scatter around P(.|n) with covariance
    (diag P - P P^T)/(T-1). The step is a nonlinear function of the frequencies, so its expectation differs from the
    step at P. The correction includes the second derivatives exactly; the remainder is O(1/(T-1)^2). The loss is the
    expected loss to the same order.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    seq_len : int or None
        T-1, number of contextual tokens; None is infinite (MeanField itself).
    z_initial : (Q, M) array, optional
        Initial logits, rows in increasing query id. Default 0.

    Raises
    ------
    InputError
        Rates that are not positive, or sequences so short that count_noise (see `extra`) is above 1 at the start.

    Warns
    -----
    ExpansionWarning
        At a saved time count_noise is above 1 or the corrected loss is below 0: the run is not valid from that time.

    Notes
    -----
    Derived in `docs/theory/finite_length_and_noise.md`, with the measured error; verified against the exact expectation
    over all count vectors in the tests of this module.

    Examples
    --------
    >>> import snapdyn as sd
    >>> system = sd.FiniteLengthMeanField(sd.syn_small(), 1.0, 1.0, seq_len=1000)
    >>> sd.integrate(system, [10.0, 100.0]).loss.round(4)
    array([0.732 , 0.0285])
    """

    compiled = integrator_of(finite_length, finite_length)
    reducible = True

    def __init__(
        self,
        classes: SequenceClasses,
        eta_Y: float,
        eta_Z: float,
        seq_len: int | None,
        z_initial: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes, eta_Y, eta_Z, z_initial)
        self.seq_len = None if seq_len is None else whole("seq_len", seq_len, 1, LONGEST_SEQUENCE)
        self.parameters = {"eta_Y": self.eta_Y, "eta_Z": self.eta_Z, "seq_len": self.seq_len}
        self.inverse_length = 0.0 if self.seq_len is None else 1.0 / self.seq_len
        start = float(self.count_noise(self.z_initial[classes.z_coordinates]).max())
        if start > LARGEST_COUNT_NOISE:
            raise InputError(
                f"expected seq_len of at least {math.ceil(start / self.inverse_length / LARGEST_COUNT_NOISE)} for the "
                f"second-order correction on these classes, received {seq_len} (count_noise {start:.4g}, above 1); use "
                f"sgd with seq_len={seq_len}, which is exact, or longer sequences"
            )

    def kernel_arguments(self) -> tuple[Any, ...]:
        lists, rates, _ = super().kernel_arguments()
        pairs = np.diff(lists.indptr) * np.diff(lists.output)[:, 0]
        work = scratch(FINITE_LENGTH_ROWS, self.form.width)
        return lists, np.append(rates, self.inverse_length), work, scratch(int(pairs.max()))

    def extra(self, state: Floats) -> dict[str, Floats]:
        """count_noise (..., S), the parameter of the expansion: variance over squared mean of the token frequencies.

        It is (sum_k f_nk^2/P(k|n) - 1)/(T-1), about 1 over the expected count, averaged over tokens with weights
        f_nk^2. The correction is accurate where this is small. Values above 1 cause an ExpansionWarning.
        """
        noise = self.count_noise(self.z_support(state))
        self.warn_outside(noise, [self.loss(each) for each in state.reshape(-1, self.size)])
        return {"count_noise": noise}

    def count_noise(self, z_support: Floats) -> Floats:
        """count_noise (..., S) of `extra`, from logits on classes.z_coordinates, (..., nz)."""
        classes = self.classes
        weight = classes.attention_from_support(z_support) ** 2
        starts = classes.P.indptr[:-1]
        inverse = np.add.reduceat(weight / classes.P.data, starts, axis=-1) / np.add.reduceat(weight, starts, axis=-1)
        return np.asarray((inverse - 1.0) * self.inverse_length)

    def warn_outside(self, noise: Floats, losses: list[float]) -> None:
        """Warn where the expansion is not valid, from count_noise and the losses at some states."""
        if self.seq_len is None:
            return
        problems = []
        if noise.max() > LARGEST_COUNT_NOISE:
            problems.append(f"count_noise up to {noise.max():.4g}")
        least = min(losses)
        if least < 0.0:
            problems.append(f"a loss down to {least:.2g}")
        if problems:
            warnings.warn(
                f"expected count_noise of at most 1 and a loss of at least 0, where the correction for sequences of "
                f"{self.seq_len} tokens holds, received {' and '.join(problems)}; do not use the run from there on "
                f"(trajectory.extra['count_noise'], trajectory.loss), use sgd with seq_len={self.seq_len} instead",
                ExpansionWarning,
                stacklevel=2,
            )
