"""Decoder dynamics with frozen attention: the original flow (7) and the modified flow (8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import flag, positive
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses, require_independent
from snapdyn.dynamics.kernels.decoder import frozen_decoder
from snapdyn.dynamics.kernels.dormand_prince import Integrator, integrator_of
from snapdyn.dynamics.systems.base import ConservedSum, System, checked_classes, require_one_class_per_next_token
from snapdyn.dynamics.systems.layout import start_key


class FrozenDecoder(System):
    """Eq. (7), or with `modified` Eq. (8)/(26), in expectation over classes, from Y(0) = 0.

    Original: Y' = eta_Y sum_n p_n f_n (e_n - alpha_n)^T. Modified: f_n is replaced by f_n - F E' e_n in the
    update, which decouples the rows of W = F^T Y (Lemma 3). With C (S, columns), Y = F C (original) or Y = F (I - E') C
    (modified). In the original flow the state is C. In the modified flow nothing couples the classes, so that the state
    has two values of C for each different prior: on the class's own next token, and on every other output.

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

    compiled = integrator_of(frozen_decoder, frozen_decoder)
    reducible = True

    def __init__(
        self,
        classes: SequenceClasses,
        eta_Y: float,
        modified: bool = False,
        z_initial: ArrayLike | None = None,
        residual: bool = False,
    ) -> None:
        self.classes: SequenceClasses = checked_classes(classes)
        self.eta_Y = positive("eta_Y", eta_Y)
        self.z_initial: Floats = classes.check_z(z_initial)
        self.start_key = start_key(self.z_initial)
        self.modified, self.residual = flag("modified", modified), flag("residual", residual)
        self.parameters = {"eta_Y": self.eta_Y, "modified": self.modified, "residual": self.residual}
        self._inputs = classes.decoder_inputs(self.z_initial, self.residual)
        self._gram = G = classes.gram(self.z_initial, self.residual)
        if self.modified:
            require_one_class_per_next_token(classes, "the modified flow")
            require_independent(G)
        others = classes.vocab_size - classes.next_tokens.size
        self.output_token = np.append(classes.next_tokens, -1) if others else np.array(classes.next_tokens)
        columns = self.output_token.size
        self.columns = np.ones(columns)
        self.columns[-1] = max(others, 1)
        self._constants: tuple[Any, ...] = (G, classes.prior, classes.next_index, self.columns, self.eta_Y)
        if self.modified:
            prior, self._of_class, self._number = np.unique(classes.prior, return_inverse=True, return_counts=True)
            own = np.zeros(prior.size, np.int64)
            number = np.array([1.0, classes.vocab_size - 1.0])
            self._constants = (np.eye(prior.size), prior, own, number, self.eta_Y)
            copies = np.outer(self._number / classes.num_classes, [1.0, columns - 1.0]) / columns
            self.norm_weights = copies.ravel()
        self.size = self._constants[3].size * self._constants[1].size
        self._arguments = self.kernel_arguments()

    @property
    def multiplications(self) -> float:
        G, _, _, number, _ = self._constants
        return (
            super().multiplications + 2.0 * G.size * number.size
        )  # the outputs, and their products with the Gram matrix

    @property
    def integrator(self) -> Integrator | None:
        compiled = super().integrator
        # Classes of one prior count in the loss.
        return compiled._replace(knows_loss=not self.modified) if compiled else None

    def initial_state(self) -> Floats:
        return np.zeros(self.size)

    def kernel_arguments(self) -> tuple[Any, ...]:
        return *self._constants, scratch(self._constants[3].size)

    def write_rate(self, state: Floats, out: Floats) -> float:
        self.check_values(state, out)
        return frozen_decoder(state, out, *self._arguments)

    def loss(self, state: Floats) -> float:
        if self.modified:
            self.check_values(state)
            prior, others = self._constants[1], self._constants[3][1]
            return float((self._number * prior) @ np.log1p(others * np.exp(state[1::2] - state[::2])))
        return self.write_rate(state, np.empty_like(state))

    def _coefficients(self, state: Floats) -> Floats:
        """C of states (..., size): (..., S, columns)."""
        if not self.modified:
            return state.reshape(*state.shape[:-1], self.classes.num_classes, -1)
        is_other = np.arange(self.output_token.size) != self.classes.next_index[:, None]
        return state.take(2 * self._of_class[:, None] + is_other, axis=-1)

    def _sums(self, state: Floats) -> Floats:
        """Sums of C over all outputs, (..., S)."""
        if not self.modified:
            return self._coefficients(state) @ self.columns
        return (state[..., ::2] + self._constants[3][1] * state[..., 1::2]).take(self._of_class, axis=-1)

    @property
    def num_logit_values(self) -> int:
        return 1

    def z_support(self, state: Floats) -> Floats:
        start = self.z_initial[self.classes.z_coordinates]
        return np.broadcast_to(start, (*state.shape[:-1], start.size))

    def extra(self, state: Floats) -> dict[str, Floats]:
        if self.modified:
            return {"own_logit": state[..., ::2].take(self._of_class, axis=-1)}
        # Not a matrix product: the last bits of a large one depend on the number of threads of BLAS.
        own = self._coefficients(state)[..., self.classes.next_index]
        return {"own_logit": np.einsum("nk,...kn->...n", self._gram, own)}

    def decoder(self, state: Floats) -> Floats:
        C = self._coefficients(state)
        return np.asarray(self._inputs.T @ (np.linalg.solve(self._gram, C) if self.modified else C))

    def invariants(self, state: Floats) -> dict[str, Floats]:
        sums = self._sums(state)
        if self.modified:
            sums = np.asarray(np.linalg.solve(self._gram, sums[..., None])[..., 0], dtype=np.float64)
        return {"row sum of Y": np.abs(sums @ self._inputs).max(axis=-1)}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        S, sums = self.classes.num_classes, self._sums(np.abs(state))
        if self.modified:
            sums = sums @ np.abs(np.linalg.inv(self._gram))
        scale = np.asarray((sums @ abs(self._inputs)).max(axis=-1))
        return {"row sum of Y": ConservedSum(self.output_token.size + S, S * float(self.columns.sum()), scale)}

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return np.arange(self._inputs.shape[1]), self.output_token

    def value_name(self, index: int) -> str:
        n, column = divmod(index, self._constants[3].size)
        if self.modified:
            output = "other output" if column else "next token"
            return f"decoder coefficient of classes of prior {self._constants[1][n]:g}, {output}"
        output = self.output_token[column]
        return f"decoder coefficient of class {n}, output {output if output >= 0 else 'shared'}"
