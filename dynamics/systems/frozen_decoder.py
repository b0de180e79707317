"""Decoder dynamics with frozen attention: the original flow (7) and the modified flow (8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses, require_independent
from snapdyn.dynamics.kernels.decoder import frozen_decoder
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.systems.base import ConservedSum, System, checked_classes, require_one_class_per_next_token
from snapdyn.dynamics.systems.layout import start_key
from snapdyn.errors import flag, positive
from snapdyn.memory import scratch


class FrozenDecoder(System):
    """Eq. (7), or with `modified` Eq. (8)/(26), in expectation over classes, from Y(0) = 0.

    Original: Y' = eta_Y sum_n p_n f_n (e_n - alpha_n)^T. Modified: f_n is replaced by f_n - F E' e_n in the
    update, which decouples the rows of W = F^T Y (Lemma 3). The state is C (S, columns) with Y = F C
    (original) or Y = F (I - E') C (modified).

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
        self.size = classes.num_classes * self.output_token.size
        self.columns = np.ones(self.output_token.size)
        self.columns[-1] = max(others, 1)
        outputs, mixing = self.output_token.size, np.eye(classes.num_classes) if self.modified else G
        self._constants = (outputs, mixing, classes.prior, classes.next_index, self.columns[-1], self.eta_Y)
        self._arguments = self.kernel_arguments()

    def initial_state(self) -> Floats:
        return np.zeros(self.size)

    def kernel_arguments(self) -> tuple[Any, ...]:
        return *self._constants, scratch(self.output_token.size)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return frozen_decoder(state, out, *self._arguments)

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    def _coefficients(self, state: Floats) -> Floats:
        return state.reshape(*state.shape[:-1], self.classes.num_classes, -1)

    def logits(self, state: Floats) -> Floats:
        """W = F^T Y, (..., S, columns): the decoder's logits for every class, of states (..., size)."""
        C = self._coefficients(state)
        return C if self.modified else self._gram @ C

    @property
    def num_logit_values(self) -> int:
        return 1

    def z_support(self, state: Floats) -> Floats:
        start = self.z_initial[self.classes.z_coordinates]
        return np.broadcast_to(start, (*state.shape[:-1], start.size))

    def extra(self, state: Floats) -> dict[str, Floats]:
        own = self._coefficients(state)[..., self.classes.next_index]
        if self.modified:
            return {"own_logit": np.diagonal(own, axis1=-2, axis2=-1)}
        # Not a matrix product: the last bits of a large one depend on the number of threads of BLAS.
        return {"own_logit": np.einsum("nk,...kn->...n", self._gram, own)}

    def decoder(self, state: Floats) -> Floats:
        C = self._coefficients(state)
        return np.asarray(self._inputs.T @ (np.linalg.solve(self._gram, C) if self.modified else C))

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return self.row_sums(self._coefficients(state) @ self.columns)

    def row_sums(self, sums: Floats) -> dict[str, Floats]:
        """The invariant, from the sums of C over all outputs, (..., S)."""
        if self.modified:
            sums = np.asarray(np.linalg.solve(self._gram, sums[..., None])[..., 0], dtype=np.float64)
        return {"row sum of Y": np.abs(sums @ self._inputs).max(axis=-1)}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return self.row_sum_scales(np.abs(self._coefficients(state)) @ self.columns)

    def row_sum_scales(self, sums: Floats) -> dict[str, ConservedSum]:
        """What the rounding of the invariant depends on, from the sums of |C| over all outputs, (..., S)."""
        S, columns = self.classes.num_classes, float(self.columns.sum())
        if self.modified:
            sums = sums @ np.abs(np.linalg.inv(self._gram))
        scale = np.asarray((sums @ abs(self._inputs)).max(axis=-1))
        return {"row sum of Y": ConservedSum(self.output_token.size + S, S * columns, scale)}

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return np.arange(self._inputs.shape[1]), self.output_token

    def value_name(self, index: int) -> str:
        n, column = divmod(index, self.output_token.size)
        output = self.output_token[column]
        return f"decoder coefficient of class {n}, output {output if output >= 0 else 'shared'}"
