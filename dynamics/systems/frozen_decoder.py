"""Decoder dynamics with frozen attention: the original flow (7) and the modified flow (8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import flag, positive
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses, require_independent
from snapdyn.dynamics.kernels.decoder import modified_flow
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.systems.base import ConservedSum, checked_classes, require_one_class_per_next_token
from snapdyn.dynamics.systems.mean_field import MeanField


class FrozenDecoder(MeanField):
    """Eq. (7), or with `modified` Eq. (8)/(26), in expectation over classes, from Y(0) = 0.

    Original: Y' = eta_Y sum_n p_n f_n (e_n - alpha_n)^T. Modified: f_n is replaced by f_n - F E' e_n in the
    update, which decouples the rows of W = F^T Y (Lemma 3). The original flow is the mean field with eta_Z = 0, and has
    its state. In the modified flow, Y = F (I - E') C with C (S, columns), and nothing couples the classes, so that the
    state has two values of C for each different prior: on the class's own next token, and on every other output.

    Parameters
    ----------
    classes : SequenceClasses
        For the modified flow: next tokens all different, attention vectors linearly independent.
    eta_Y : float
        Learning rate per batch-size-1 step.
    modified : bool
        Use the modified flow (8)/(26).
    z_initial : (Q, M) array, optional
        The frozen logits. Default 0.
    residual : bool
        Decoder input LN(f_n + e_psi(n)) in place of f_n.

    Raises
    ------
    InputError
        A rate that is not positive, or classes that the modified flow cannot use.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.integrate(sd.FrozenDecoder(sd.syn_small(), eta_Y=1.0), [1.0, 100.0]).loss.round(4)
    array([3.0635, 0.0456])
    """

    compiled = MeanField.compiled
    reducible = True
    carries_quotient = False
    modified = False

    def __init__(
        self,
        classes: SequenceClasses,
        eta_Y: float,
        modified: bool = False,
        z_initial: ArrayLike | None = None,
        residual: bool = False,
    ) -> None:
        if flag("modified", modified) and type(self) is FrozenDecoder:
            self.__class__ = ModifiedFlow  # it has another state
        self.classes: SequenceClasses = checked_classes(classes)
        self.eta_Y, self.eta_Z = positive("eta_Y", eta_Y), 0.0
        self.z_initial = classes.check_z(z_initial)
        self.residual = flag("residual", residual)
        self.parameters = {"eta_Y": self.eta_Y, "modified": bool(modified), "residual": self.residual}
        self._lay_out()

    def _lay_out(self) -> None:
        self._require_indices()

    def extra(self, state: Floats) -> dict[str, Floats]:
        # Entry n of w_n = Y^T f_n.
        inputs = self.classes.decoder_inputs(self.z_initial, self.residual)
        column = np.repeat(self.classes.next_index, np.diff(inputs.indptr))
        own = state.take(self.value_of_decoder[self.layout.row_of_token[inputs.indices], column], axis=-1)
        return {"own_logit": np.add.reduceat(own * inputs.data, inputs.indptr[:-1], axis=-1)}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return {"row sum of Y": super().conserved_sums(state)["row sum of Y"]}


class ModifiedFlow(FrozenDecoder):
    """The modified flow of `FrozenDecoder`."""

    compiled = integrator_of(modified_flow)
    modified = True

    def _lay_out(self) -> None:
        classes = self.classes
        require_one_class_per_next_token(classes, "the modified flow")
        self._inputs = classes.decoder_inputs(self.z_initial, self.residual)
        self._gram = classes.gram(self.z_initial, self.residual)
        require_independent(self._gram)
        self._prior, self._of_class, self._number = np.unique(classes.prior, return_inverse=True, return_counts=True)
        others = classes.vocab_size > classes.num_classes
        self.output_token = np.append(classes.next_tokens, -1) if others else np.array(classes.next_tokens)
        columns = self.output_token.size
        self.norm_weights = np.outer(self._number / classes.num_classes, [1.0, columns - 1.0]).ravel() / columns
        self.size = 2 * self._prior.size

    @property
    def name(self) -> str:
        return FrozenDecoder.__name__

    @property
    def multiplications(self) -> float:
        return 50.0 * self.size

    def initial_state(self) -> Floats:
        return np.zeros(self.size)

    def kernel_arguments(self) -> tuple[Any, ...]:
        return self._prior, float(self.classes.vocab_size), self.eta_Y

    def loss(self, state: Floats) -> float:
        self.check_values(state)
        others = self.classes.vocab_size - 1.0
        return float((self._number * self._prior) @ np.log1p(others * np.exp(state[1::2] - state[::2])))

    def full_state(self, state: Floats) -> Floats:
        return state

    @property
    def num_logit_values(self) -> int:
        return 1

    def z_support(self, state: Floats) -> Floats:
        start = self.z_initial[self.classes.z_coordinates]
        return np.broadcast_to(start, (*state.shape[:-1], start.size))

    def extra(self, state: Floats) -> dict[str, Floats]:
        return {"own_logit": state[..., ::2].take(self._of_class, axis=-1)}

    def decoder(self, state: Floats) -> Floats:
        is_other = np.arange(self.output_token.size) != self.classes.next_index[:, None]
        C = state.take(2 * self._of_class[:, None] + is_other, axis=-1)
        return np.asarray(self._inputs.T @ np.linalg.solve(self._gram, C))

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return np.arange(self._inputs.shape[1]), self.output_token

    def _sums(self, state: Floats) -> Floats:
        """Sum of C over all outputs, for each class."""
        return (state[..., ::2] + (self.classes.vocab_size - 1.0) * state[..., 1::2]).take(self._of_class, axis=-1)

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        S, V = self.classes.num_classes, self.classes.vocab_size
        sums = np.asarray(np.linalg.solve(self._gram, self._sums(state)[..., None])[..., 0], dtype=np.float64)
        violation = np.abs(sums @ self._inputs).max(axis=-1)

        def scale() -> Floats:
            sizes = self._sums(np.abs(state)) @ np.abs(np.linalg.inv(self._gram))
            return np.asarray((sizes @ abs(self._inputs)).max(axis=-1))

        return {"row sum of Y": ConservedSum(violation, self.output_token.size + S, float(S * V), scale)}

    def value_name(self, index: int) -> str:
        n, column = divmod(index, 2)
        output = "other output" if column else "next token"
        return f"decoder coefficient of classes of prior {self._prior[n]:g}, {output}"
