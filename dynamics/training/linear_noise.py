"""Fluctuations of SGD around its mean field: the linear-noise covariance, and confidence bands from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import positive, whole
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import integrate
from snapdyn.dynamics.kernels.law import TANGENT_ROWS, jacobian
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.trajectories.trajectory import Trajectory

# The covariance is dense: n^2 numbers and 2 n^3 operations per evaluation.
LARGEST_SIZE = 400
# Central differences: truncation STEP^2/6, rounding 1e-16/STEP, both about 1e-11 of the rate.
STEP = 1e-5
NODES = 3  # of the Gauss rule over one count


@dataclass(frozen=True)
class Fluctuations:
    """Mean path of SGD and the Gaussian fluctuations around it.

    Attributes
    ----------
    trajectory : Trajectory
        Run of MeanField, or of FiniteLengthMeanField when seq_len is given; t in batch-size-1 steps.
    z_covariance : (N, nz, nz) array
        Covariance of the logits on classes.z_coordinates over runs of SGD, at trajectory.t.
    decoder_variance : (N, rows, columns) array
        Variance of every decoder logit in the compressed form of the trajectory's decoder.
    batch_size : int
        Sequences per update.
    seq_len : int or None
        T-1, contextual tokens per sequence; None is infinite.
    """

    trajectory: Trajectory
    z_covariance: Floats
    decoder_variance: Floats
    batch_size: int
    seq_len: int | None

    @property
    def z_std(self) -> Floats:
        """Standard deviation of the logits on classes.z_coordinates, (N, nz)."""
        # A logit that does not fluctuate has a variance of 0 up to the solver's tolerance, of either sign.
        return np.sqrt(np.maximum(np.diagonal(self.z_covariance, axis1=1, axis2=2), 0.0))

    def band(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Gaussian band that contains a logit with probability `level`, at each time separately.

        Parameters
        ----------
        level : float
            Between 0 and 1.

        Returns
        -------
        lower : (N, nz) array
        upper : (N, nz) array

        Raises
        ------
        InputError
            `level` is not between 0 and 1.
        """
        level = positive("level", level, below=1.0, advice="0.9 is usual")
        from scipy.special import ndtri

        half = ndtri(0.5 + 0.5 * level) * self.z_std
        return self.trajectory.z_support - half, self.trajectory.z_support + half


def fluctuations(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    t_eval: ArrayLike,
    batch_size: int = 1,
    seq_len: int | None = None,
    rtol: float = 1e-6,
    z_initial: ArrayLike | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Fluctuations:
    """Linear-noise covariance of SGD's logits around the mean field, from Y(0) = 0.

    A step is x <- x + g with g the mean update over the batch. Let F = E g, A = dF/dx, and let
    D = sum_n p_n E[g_n g_n^T] - F F^T be the covariance of the update of one sequence, all along the mean path. Then

        dSigma/dt = A Sigma + Sigma A^T + D/batch_size,  Sigma(0) = 0.

    The noise of drawing the class is exact. The noise of drawing the counts (with `seq_len`) is of first order in
    1/seq_len and includes the curvature in each single count. The result is correct to leading order in the rates:
    the spread is O(sqrt(eta)); two effects of O(eta) are neglected, the discreteness of steps and the shift of the
    mean by the spread. The derivation and the measured coverage are in `docs/theory/finite_length_and_noise.md`; the
    result is verified against ensembles of SGD in `tests/dynamics/training/test_linear_noise.py`.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y : float
        Learning rate of Y, per step.
    eta_Z : float
        Learning rate of z, per step.
    t_eval : (N,) array_like
        Times in steps; one step is one update, for any batch size.
    batch_size : int
        Sequences per update.
    seq_len : int, optional
        T-1, contextual tokens per sequence; None is infinite.
    rtol : float
        Relative tolerance of the integration; the absolute tolerance is rtol/100.
    z_initial : (Q, M) array_like, optional
        Initial logits, the same in every run. Default 0.
    progress : callable (t, fraction), optional
        Called during the integration.

    Returns
    -------
    Fluctuations
        After a failure or Ctrl-C: at the times that were reached, with status and message in its `trajectory`.

    Raises
    ------
    InputError
        Wrong values; more than 400 values of z and Y (the covariance is dense); sequences too short for the
        expansion in 1/seq_len.

    Warns
    -----
    ExpansionWarning
        The sequences are so short that the expansion may be inaccurate, as in `FiniteLengthMeanField`.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=2, num_distinct=1, common_probability=0.5)
    >>> result = sd.fluctuations(classes, eta_Y=0.05, eta_Z=0.05, t_eval=[0, 10, 100])
    >>> result.z_std.shape
    (3, 3)
    >>> lower, upper = result.band(0.9)
    >>> bool((lower <= upper).all())
    True
    """
    batch_size = whole("batch_size", batch_size, 1)
    mean = FiniteLengthMeanField(classes, eta_Y, eta_Z, seq_len, z_initial, lump=False)
    trajectory = integrate(LinearNoise(mean), t_eval, rtol=rtol, atol=positive("rtol", rtol) / 100, progress=progress)
    nz = trajectory.z_support.shape[1]
    # A run that fails at its first step has saved nothing.
    covariance = trajectory.extra.pop("z_covariance", np.empty((0, nz, nz)))
    variance = trajectory.extra.pop("decoder_variance", np.empty((0, mean.layout.num_rows, mean.layout.num_columns)))
    return Fluctuations(
        trajectory=trajectory,
        z_covariance=covariance.reshape(-1, nz, nz) / batch_size,
        decoder_variance=variance / batch_size,
        batch_size=batch_size,
        seq_len=mean.seq_len,
    )


class LinearNoise(System):
    """The mean field with the covariance of its fluctuations: state [z slots, Y, Sigma/unit (n x n)].

    Tokens are not lumped, because samples break the symmetry of equal tokens. `unit`, the larger rate, makes
    Sigma/unit of order 1, as the tolerances expect.
    """

    def __init__(self, mean: FiniteLengthMeanField) -> None:
        advice = "use fewer classes or tokens, or an ensemble of SGD runs"
        n = whole("the number of values of z and Y, whose covariance is dense,", mean.size, 0, LARGEST_SIZE, advice)
        self.mean = mean
        self.classes, self.parameters = mean.classes, mean.parameters
        self.z_initial: Floats = mean.z_initial
        self.eta_Y, self.unit = mean.eta_Y, max(mean.eta_Y, mean.eta_Z)
        self.size = n + n * n
        L = mean.layout
        self._rate_arguments = L.lists, np.array([mean.eta_Y, mean.eta_Z]), scratch(TANGENT_ROWS, L.width)
        self._vector = scratch(n)
        if mean.seq_len is not None:
            counts, self._weights = poisson_nodes(mean.seq_len * np.exp(L.log_p))  # per entry of the layout
            self._log_nodes = np.log(np.maximum(counts, np.finfo(np.float64).tiny) / mean.seq_len)
            # One class moves the rate by p_n times its step, and the step's covariance enters D with p_n.
            self._step_weights = np.sqrt(self._weights / np.repeat(L.prior, np.diff(L.indptr))[:, None])

    @property
    def name(self) -> str:
        return "MeanField" if self.mean.seq_len is None else self.mean.name

    @property
    def rate_ratio(self) -> float:
        return self.mean.rate_ratio

    @property
    def multiplications(self) -> float:
        return super().multiplications + 3.0 * self.mean.size**3  # A Sigma, D = B^T B, and A itself

    def initial_state(self) -> Floats:
        return np.concatenate([self.mean.initial_state(), np.zeros(self.mean.size**2)])

    def write_rate(self, state: Floats, out: Floats) -> float:
        x, sigma = self._split(state)
        F, sigma_rate = self._split(out)
        loss = self.mean.write_rate(x, F)
        A, D = self.linearised(x, F)
        half = A @ sigma
        sigma_rate[...] = half + half.T + D / self.unit
        return loss

    def linearised(self, x: Floats, F: Floats) -> tuple[Floats, Floats]:
        """A = dF/dx and D, the noise of a step, (n, n) each, at the mean x with its rate F, (n,)."""
        B = np.concatenate([self.class_noise(x, F), self.count_noise(x)])
        return self.jacobian(x), B.T @ B

    def jacobian(self, x: Floats) -> Floats:
        """A = dF/dx, (n, n)."""
        if self.mean.seq_len is None:  # 1.7 to 3.8 times faster than differences, for the whole computation
            columns = np.empty((x.size, x.size))
            jacobian(x, self._vector, columns, *self._rate_arguments, np.empty(0))
            return columns.T
        return _central_differences(self.mean.write_rate, x).T

    def class_noise(self, x: Floats, F: Floats) -> Floats:
        """sqrt(p_n) (E g_n - F) for every class, (S, n), F (n,) the mean update."""
        prior = self.mean.layout.prior
        rows = np.empty((prior.size, x.size))
        for row, one_class in zip(rows, np.eye(prior.size), strict=True):
            self.mean.write_rate(x, row, prior=one_class)
        return np.sqrt(prior)[:, None] * (rows - F)

    def count_noise(self, x: Floats) -> Floats:
        """Rows B with B^T B the mean covariance that the counts give to a step, (rows, n); none for T infinite.

        One count at a time varies, as a Poisson variable. That the sum of the counts is fixed makes no difference,
        because g_n does not change when all counts are scaled. Means are taken by a Gauss rule, which is exact where
        g_n is a polynomial of degree NODES - 1 in one count; joint variations of several counts enter to first order in
        1/(T-1) only.
        """
        mean, L = self.mean, self.mean.layout
        if mean.seq_len is None:
            return np.empty((0, x.size))
        log_p = L.log_p.copy()
        steps = np.empty((log_p.size, NODES, x.size))
        for entry, log_nodes in enumerate(self._log_nodes):
            for step, log_node in zip(steps[entry], log_nodes, strict=True):
                log_p[entry] = log_node
                mean.write_rate(x, step, log_p=log_p, inverse_length=0.0)
            log_p[entry] = L.log_p[entry]
        steps -= self._weights[:, None, :] @ steps
        steps *= self._step_weights[..., None]
        return steps.reshape(-1, x.size)

    def loss(self, state: Floats) -> float:
        return self.mean.loss(self._split(state)[0])

    def z_support(self, state: Floats) -> Floats:
        return self.mean.z_support(self._split(state)[0])

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return self.mean.invariants(self._split(state)[0])

    def value_name(self, index: int) -> str:
        n = self.mean.size
        if index < n:
            return self.mean.value_name(index)
        i, j = divmod(index - n, n)
        return f"the covariance of {self.mean.value_name(i)} and {self.mean.value_name(j)}"

    def extra(self, state: Floats) -> dict[str, Floats]:
        x, sigma = self._split(state)
        slots = self.mean.layout.slot_of_z
        return {
            **self.mean.extra(x),
            "z_covariance": self.unit * sigma[..., slots[:, None], slots],
            "decoder_variance": self.mean.decoder(self.unit * np.diagonal(sigma, axis1=-2, axis2=-1)),
        }

    def _split(self, state: Floats) -> tuple[Floats, Floats]:
        """(x, Sigma/unit) as views of a state."""
        n = self.mean.size
        return state[..., :n], state[..., n:].reshape(*state.shape[:-1], n, n)


def poisson_nodes(mean: Floats) -> tuple[Floats, Floats]:
    """Gauss rule for Poisson variables of the given means (n,): nodes and weights, (n, NODES) each.

    By the method of Golub and Welsch, from the recurrence of the Charlier polynomials (diagonal k + mean, off-diagonal
    sqrt(k mean)).
    """
    k = np.arange(NODES)
    jacobi = (k + mean[:, None])[..., None] * np.eye(NODES)
    jacobi[:, k[1:], k[:-1]] = np.sqrt(k[1:] * mean[:, None])
    nodes, vectors = np.linalg.eigh(jacobi)  # reads the lower triangle
    return nodes, vectors[:, 0] ** 2


def _central_differences(rate: Callable[[Floats, Floats], object], at: Floats) -> Floats:
    """Derivative of the rate with respect to at[i] as row i, (n, n); rate(at, out) writes n values."""
    rows = np.empty((at.size, at.size))
    moved, below = at.copy(), np.empty(at.size)
    for i, row in enumerate(rows):
        moved[i] = at[i] + STEP
        rate(moved, row)
        moved[i] = at[i] - STEP
        rate(moved, below)
        moved[i] = at[i]
        row -= below
    rows /= 2.0 * STEP
    return rows
