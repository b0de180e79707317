"""The mean field of finite sequences: the expectation over the counts to second order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.dynamics.errors import whole
from snapdyn.dynamics.kernels.finite_length import finite_length_mean_field
from snapdyn.dynamics.layout import build_layout
from snapdyn.dynamics.sgd import LONGEST_SEQUENCE
from snapdyn.dynamics.systems.mean_field import MeanField


class FiniteLengthMeanField(MeanField):
    """Expectation of the SGD step (3)-(4) as a flow, to second order in the fluctuations of the counts.

    A sequence has T-1 contextual tokens, so its token frequencies scatter around P(.|n) with covariance
    (diag P - P P^T)/(T-1), and the step, curved in them, has an expectation that differs from the step at P.
    The correction takes that curvature exactly; the rest is O(1/(T-1)^2). The loss is the expected loss to
    the same order.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y, eta_Z : float
        Learning rates per batch-size-1 step.
    seq_len : int or None
        T-1, number of contextual tokens; None is infinite (MeanField itself).
    z_initial : (Q, M) array, optional
        Initial logits, rows in increasing query id. Default 0.
    lump : bool
        Let one row stand for all tokens of equal columns P(l|.) and initial logits, exact in expectation.

    Notes
    -----
    Own derivation, in `docs/finite_length_and_noise.md` with its measured error; verified against the exact
    expectation over all count vectors in `tests/dynamics/test_finite_length.py`.
    """

    def __init__(
        self,
        classes: SequenceClasses,
        eta_Y: float,
        eta_Z: float,
        seq_len: int | None,
        z_initial: ArrayLike | None = None,
        lump: bool = True,
    ) -> None:
        super().__init__(classes, eta_Y, eta_Z, z_initial)
        self.seq_len = None if seq_len is None else whole("seq_len", seq_len, 1, LONGEST_SEQUENCE)
        self.parameters = {"eta_Y": self.eta_Y, "eta_Z": self.eta_Z, "seq_len": self.seq_len}
        if not lump:
            self.layout = build_layout(classes, self.z_initial, lump=False)
            self.size = self.layout.size
            self._start = self.layout.slots(classes, self.z_initial)
        self._inverse_length = 0.0 if self.seq_len is None else 1.0 / self.seq_len
        self._work = np.empty((9, max(self.layout.max_support, self.layout.num_columns)))

    def write_rate(
        self,
        state: Floats,
        out: Floats,
        log_p: Floats | None = None,
        prior: Floats | None = None,
        inverse_length: float | None = None,
    ) -> float:
        """Write d(state)/dt, by default of this system, else with other ln P, p_n or 1/(T-1) on its layout."""
        L = self.layout
        return finite_length_mean_field(
            state, out, L.num_slots, L.num_columns, L.indptr, L.entry_row, L.entry_slot, L.entry_first,
            L.log_p if log_p is None else log_p, L.multiplicity, L.prior if prior is None else prior, L.column,
            L.last_column_multiplicity, self.eta_Y, self.eta_Z,
            self._inverse_length if inverse_length is None else inverse_length, self._work,
        )  # fmt: skip

    def extra(self, state: Floats) -> dict[str, Floats]:
        """count_noise (..., S): the expansion parameter, Var of the frequencies over their mean squared.

        (sum_k f_nk^2/P(k|n) - 1)/(T-1): one over the expected counts, averaged over the tokens attended to.
        The correction is a small one while this is small, and misleads where it exceeds 1.
        """
        classes = self.classes
        weight = classes.attention_from_support(self.z_support(state)) ** 2
        starts = classes.P.indptr[:-1]
        inverse = np.add.reduceat(weight / classes.P.data, starts, axis=-1) / np.add.reduceat(weight, starts, axis=-1)
        return {"count_noise": (inverse - 1.0) * self._inverse_length}
