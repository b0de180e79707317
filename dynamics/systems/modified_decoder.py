"""Attention driven by the modified decoder: Theorem 1 and Eq. (10)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes.table import Floats, SequenceClasses, require_independent
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.modified_decoder import Decoupled, modified_decoder
from snapdyn.dynamics.systems.base import (
    ConservedSum,
    System,
    checked_classes,
    require_one_class_per_next_token,
)
from snapdyn.dynamics.systems.layout import build_layout, start_key, z_row_sums
from snapdyn.errors import choice, positive
from snapdyn.memory import scratch


class ModifiedDecoder(System):
    """Eq. (10) on the per-step clock: attention moves, and the decoder follows the modified flow for that attention.

    z_m' = eta_Z sum_{n: psi(n)=m} p_n gamma_n f_n o sum_{k != n} beta_nk (f_n (f_n . f_k) - f_k). Here gamma_n follows
    from h_n by Eq. (85), h_n is integrated by Eq. (44) at rate p_n eta_Y, and E' is that of the current attention.

    Parameters
    ----------
    classes : SequenceClasses
        Next tokens all different, attention vectors linearly independent at t = 0.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    beta : str
        "exact": beta_nk = q1 E'_kn - q0 (h_k - sum_{j != n} E'_kj h_j)/h_n with q1 = V/(V-1), q0 = -V/(V-1)^2; for
        uniform p all h are equal. "leading": beta_nk = E'_kn.
    z_initial : (Q, M) array, optional
        Initial logits. Default 0.

    Raises
    ------
    InputError
        Rates that are not positive, another `beta`, or classes that do not meet the conditions above.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(4, 3, 0.4, 20)
    >>> sd.integrate(sd.ModifiedDecoder(classes, 1.0, 0.1), [1.0, 100.0]).extra["h"][:, 0].round(4)
    array([0.0124, 0.298 ])
    """

    compiled = integrator_of(modified_decoder)

    def __init__(
        self,
        classes: SequenceClasses,
        eta_Y: float,
        eta_Z: float,
        beta: str = "exact",
        z_initial: ArrayLike | None = None,
    ) -> None:
        self.classes: SequenceClasses = checked_classes(classes)
        self.eta_Y, self.eta_Z = positive("eta_Y", eta_Y), positive("eta_Z", eta_Z)
        choice("beta", beta, ("exact", "leading"))
        self.beta = beta
        self.z_initial: Floats = classes.check_z(z_initial)
        self.start_key = start_key(self.z_initial)
        self.parameters = {"eta_Y": self.eta_Y, "eta_Z": self.eta_Z, "beta": beta}
        require_one_class_per_next_token(classes, "ModifiedDecoder")
        require_independent(classes.gram(self.z_initial))
        self.layout = L = build_layout(classes, self.z_initial)
        S = classes.num_classes
        self.size = L.num_slots + S
        self._start = L.slots(classes, self.z_initial)
        by_row = np.argsort(L.entry_row, kind="stable")
        row_indptr = np.concatenate([[0], np.cumsum(np.bincount(L.entry_row, minlength=L.num_rows))])
        classes_of = np.repeat(np.arange(S), np.diff(L.indptr))
        self._lists = Decoupled(
            num_slots=L.num_slots,
            indptr=L.indptr,
            entry_kind=classes_of,
            entry_slot=L.entry_slot,
            log_p=L.log_p,
            multiplicity=L.multiplicity,
            drive=L.prior[classes_of],
            is_own=np.zeros(by_row.size, np.bool_),
            prior=L.prior,
            root=np.ones(S),
            row_indptr=row_indptr.astype(np.int64),
            row_entry=by_row,
            V=float(classes.vocab_size),
            eta_Y=self.eta_Y,
            eta_Z=self.eta_Z,
            leading=beta == "leading",
        )
        self._arguments = self.kernel_arguments()

    @property
    def multiplications(self) -> float:
        # The Gram matrix, of each entry with each class, and the products and the inverse of S x S matrices.
        S = self.classes.num_classes
        return super().multiplications + S * (self.layout.entry_row.size + 3.0 * S**2)

    def initial_state(self) -> Floats:
        state = np.zeros(self.size)
        state[: self.layout.num_slots] = self._start
        return state

    def kernel_arguments(self) -> tuple[Any, ...]:
        return decoupled_arguments(self._lists)

    def write_rate(self, state: Floats, out: Floats) -> float:
        self.check_values(state, out)
        return modified_decoder(state, out, *self._arguments)

    def loss(self, state: Floats) -> float:
        self.check_values(state)
        u, V = state[self.layout.num_slots :], self.classes.vocab_size
        return float(self.classes.prior @ np.log1p((V - 1) * np.exp(-u)))

    @property
    def num_logit_values(self) -> int:
        return self.layout.num_slots

    def z_support(self, state: Floats) -> Floats:
        return self.layout.z_support(state[..., : self.layout.num_slots])

    def extra(self, state: Floats) -> dict[str, Floats]:
        return {"h": state[..., self.layout.num_slots :] / self.classes.vocab_size}

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return {"row sum of Z": z_row_sums(self.layout, state[..., : self.layout.num_slots] - self._start)}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        slots, tokens = self.layout.num_slots, self.classes.num_tokens
        lead = np.abs(state[..., slots:]).max(axis=-1)
        scale = (
            z_row_sums(self.layout, np.abs(state[..., :slots]) + np.abs(self._start))
            + self.rate_ratio * (1.0 + lead) ** 2
        )
        return {"row sum of Z": ConservedSum(tokens + self.classes.num_classes, float(tokens), scale)}

    def value_name(self, index: int) -> str:
        slots = self.layout.num_slots
        return self.layout.slot_name(index, self.classes) if index < slots else f"V h of class {index - slots}"


def decoupled_arguments(lists: Decoupled) -> tuple[Any, ...]:
    """Arguments of `kernels.modified_decoder` after state and out, with new scratch arrays."""
    C = lists.prior.size
    return lists, scratch(lists.log_p.size), scratch(C), scratch(5, C, C)
