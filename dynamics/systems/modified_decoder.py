"""Attention driven by the modified decoder: Theorem 1 and Eq. (10)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import choice, positive
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.kinds import Kinds
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses, require_independent
from snapdyn.dynamics.kernels.compilation import Bools
from snapdyn.dynamics.kernels.decoder import Decoupled, modified_decoder
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.systems.base import (
    ConservedSum,
    System,
    checked_classes,
    require_one_class_per_next_token,
)
from snapdyn.dynamics.systems.mean_field import MeanField


class ModifiedDecoder(MeanField):
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
    reducible = True
    carries_quotient = False
    decoder, decoder_ids = System.decoder, System.decoder_ids  # its state has h in place of Y

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
        self.beta = choice("beta", beta, ("exact", "leading"))
        self.z_initial, self.residual = classes.check_z(z_initial), False
        self.parameters = {"eta_Y": self.eta_Y, "eta_Z": self.eta_Z, "beta": beta}
        require_one_class_per_next_token(classes, "ModifiedDecoder")
        require_independent(classes.gram(self.z_initial))
        row = self.layout.entry_row
        row_indptr = np.cumsum([0, *np.bincount(row, minlength=self.layout.num_rows)])
        self._kind = np.arange(classes.num_classes)
        no_own = np.zeros(row.size, np.bool_)
        self._decouple(no_own, np.ones(classes.num_classes), row_indptr, np.argsort(row, kind="stable"))

    def _decouple(self, is_own: Bools, number: Floats, row_indptr: Ints, row_entry: Ints) -> None:
        """Take the classes, or kinds of classes, that the form lists.

        `is_own` says which entries are tokens of one class; `number` how many classes each kind has; and the entries of
        shared tokens are row_entry, from row_indptr[r] to row_indptr[r + 1] those of the same token.
        """
        self.size = self.form.num_slots + number.size
        lists = self.form.lists
        self._decoupled = Decoupled(
            lists=lists._replace(value=None),
            kind=np.repeat(np.arange(number.size), np.diff(lists.indptr)),
            is_own=is_own,
            prior=lists.share / number,
            root=np.sqrt(number),
            row_indptr=row_indptr,
            row_entry=row_entry,
            V=float(self.classes.vocab_size),
            eta_Y=self.eta_Y,
            eta_Z=self.eta_Z,
            leading=self.beta == "leading",
        )

    def _take_kinds(self, kinds: Kinds) -> None:
        super()._take_kinds(kinds)
        self._kind = kinds.members().kind
        shared = np.concatenate([kinds.entries(c)[0] for c in range(kinds.number.size)])
        is_own = self.form.lists.slot >= kinds.first_own[0]
        self._decouple(
            is_own,
            kinds.number.astype(np.float64),
            np.cumsum([0, *np.bincount(shared, minlength=kinds.like_shared.size)]),
            np.flatnonzero(~is_own)[np.argsort(shared, kind="stable")],
        )
        copies = np.concatenate([kinds.copies, kinds.number])
        self.norm_weights = copies / copies.sum()

    @property
    def multiplications(self) -> float:
        # The Gram matrix, of each entry with each class, and the products and the inverse of C x C matrices.
        C = self._decoupled.prior.size
        return 50.0 * self.size + C * (self._decoupled.kind.size + 3.0 * C**2)

    def kernel_arguments(self) -> tuple[Any, ...]:
        lists, C = self._decoupled, self._decoupled.prior.size
        return lists, scratch(lists.kind.size), scratch(C), scratch(5, C, C), scratch(2, self.form.width)

    def loss(self, state: Floats) -> float:
        self.check_values(state)
        u, V = state[self.form.num_slots :], self.classes.vocab_size
        return float(self.form.lists.share @ np.log1p((V - 1) * np.exp(-u)))

    def full_state(self, state: Floats) -> Floats:
        return state.take(np.concatenate([self.value_of_slot, self.form.num_slots + self._kind]), axis=-1)

    def extra(self, state: Floats) -> dict[str, Floats]:
        return {"h": state.take(self.form.num_slots + self._kind, axis=-1) / self.classes.vocab_size}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        slots, tokens, start = self.form.num_slots, self.classes.num_tokens, self.initial_logits
        z = state[..., :slots]
        violation = np.abs(self.form.sums_of_z(z - start)).max(axis=-1)

        def scale() -> Floats:
            lead = np.abs(state[..., slots:]).max(axis=-1)
            logits = self.form.sums_of_z(np.abs(z) + np.abs(start)).max(axis=-1)
            return np.asarray(logits + self.rate_ratio * (1.0 + lead) ** 2)

        terms = tokens + self.classes.num_classes
        return {"row sum of Z": ConservedSum(violation, terms, float(tokens), scale)}

    def value_name(self, index: int) -> str:
        slots = self.form.num_slots
        if index < slots:
            return self.form.value_name(index, self.classes)
        kinds = "class" if self.form is self.layout else "classes of kind"
        return f"V h of {kinds} {index - slots}"
