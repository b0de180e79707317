"""Decoder dynamics with frozen attention: the original flow (7) and the modified flow (8)."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import flag, positive
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.kinds import Kinds
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses, require_independent
from snapdyn.dynamics.kernels.decoder import frozen_decoder
from snapdyn.dynamics.kernels.dormand_prince import Integrator, integrator_of
from snapdyn.dynamics.systems.base import ConservedSum, System, checked_classes, require_one_class_per_next_token
from snapdyn.dynamics.systems.layout import start_key
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.quotient import places_of_outputs


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

    def on_kinds(self, kinds: Kinds) -> System | None:
        """The original flow on kinds; None for the modified flow, or where a kind has no tokens of its own."""
        if self.modified or not all(own.like.size for own in kinds.own):
            return None
        return FrozenDecoderOnKinds(self, kinds)

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


class FrozenDecoderOnKinds(MeanField):
    """The original flow on kinds of classes, as Y of the mean field with eta_Z = 0.

    If token l occurs in class n only, row l of Y = F C is f_nl C_n. So C follows from Y if every kind has such a token.

    Parameters
    ----------
    full : FrozenDecoder
        The original flow.
    kinds : Kinds
        Every kind has tokens of its own.
    """

    compiled = MeanField.compiled
    shares_logits = False
    carries_quotient = False

    def __init__(self, full: FrozenDecoder, kinds: Kinds) -> None:
        self.full, self.classes, self.residual = full, full.classes, full.residual
        self.eta_Y, self.eta_Z, self.parameters = full.eta_Y, 0.0, full.parameters
        self.z_initial, self.start_key = full.z_initial, full.start_key
        self._take_kinds(kinds)

    @property
    def name(self) -> str:
        return self.full.name

    @cached_property
    def _inputs(self) -> list[Floats]:
        """Decoder input of a class of each kind, on its entries."""
        form, found = self.form, []
        for first, last in pairwise(form.lists.indptr):
            c = form.lists.log_p[first:last] + self.initial_logits[form.lists.slot[first:last]]
            f = np.exp(c - c.max())
            f /= np.sqrt(form.lists.tokens[first:last] @ f**2)
            found.append(f / np.sqrt(2.0) if self.residual else f)
        return found

    @cached_property
    def _value_of_coefficient(self) -> tuple[Ints, Floats]:
        """Index in the state, and factor, for each value of C, (S * columns,)."""
        assert self.quotient is not None
        kinds, classes = self.quotient.kinds, self.classes
        kind = kinds.members().kind
        places = places_of_outputs(classes, self.quotient, self.full.columns.size)
        rows = self.quotient.y_own[kinds.first_own[kind] - kinds.first_own[0]]
        values = np.take_along_axis(rows, places, axis=1)
        values[np.arange(classes.num_classes), classes.next_index] = rows[:, 0]
        f = np.array([f[kinds.entries(c)[0].size] for c, f in enumerate(self._inputs)])
        return values.ravel(), 1.0 / np.repeat(f[kind], places.shape[1])

    def full_state(self, state: Floats) -> Floats:
        values, factor = self._value_of_coefficient
        return state.take(values, axis=-1) * factor

    def decoder(self, state: Floats) -> Floats:
        return self.full.decoder(self.full_state(state))

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.full.decoder_ids()

    def z_support(self, state: Floats) -> Floats:
        return self.full.z_support(state)

    def extra(self, state: Floats) -> dict[str, Floats]:
        assert self.quotient is not None
        lists, logits = self.quotient.lists, []
        for n, (f, (first, last)) in enumerate(zip(self._inputs, pairwise(lists.indptr), strict=True)):
            places = [lists.first[first:last]]
            weights = lists.tokens[first:last] * f
            if self.residual:
                places, weights = [*places, lists.query[n, :1]], np.append(weights, np.sqrt(0.5))
            assert lists.value is not None
            own = state.take(lists.value[np.concatenate(places).astype(np.int64)], axis=-1)
            logits.append(np.einsum("...k,k->...", own, weights))
        return {"own_logit": np.stack(logits, axis=-1).take(self.quotient.kinds.members().kind, axis=-1)}

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return {"row sum of Y": super().invariants(state)["row sum of Y"]}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return {"row sum of Y": super().conserved_sums(state)["row sum of Y"]}
