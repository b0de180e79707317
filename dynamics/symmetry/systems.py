"""Systems with one value in place of all that stay equal; each has the interface of its full system."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from snapdyn.dynamics.classes.kinds import Kinds
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.finite_length import finite_length_quotient
from snapdyn.dynamics.kernels.modified_decoder import Decoupled, modified_decoder
from snapdyn.dynamics.kernels.quotient import mean_field_quotient
from snapdyn.dynamics.symmetry.quotient import (
    KindsQuotient,
    logit_of_z,
    places_of_outputs,
    quotient_of,
    value_of_decoder,
)
from snapdyn.dynamics.systems.base import ConservedSum, System
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder, decoupled_arguments
from snapdyn.memory import scratch


class ReducedSystem(System):
    """Base class of the systems with one value in place of all values that stay equal.

    Parameters
    ----------
    full : MeanField, FiniteLengthMeanField, FrozenDecoder or ModifiedDecoder
    kinds : Kinds
    """

    shares_logits = True

    def __init__(self, full: MeanField | FrozenDecoder | ModifiedDecoder, kinds: Kinds) -> None:
        self.full: Any = full
        residual: bool = getattr(full, "residual", False)
        self.kinds = kinds
        self.quotient: KindsQuotient = full.classes.kept.get_or_make(
            ("quotient", residual), full.start_key, lambda: quotient_of(kinds, full.classes.vocab_size, residual)
        )
        self.classes, self.parameters, self.eta_Y, self.eta_Z = full.classes, full.parameters, full.eta_Y, full.eta_Z

    @property
    def name(self) -> str:
        return self.full.name

    @property
    def has_z(self) -> bool:
        return True

    @property
    def z_initial(self) -> Floats | None:  # type: ignore[override]  # (Q, M) numbers, made when they are read
        return self.full.z_initial

    @property
    def num_logit_values(self) -> int:
        return self.kinds.num_slots

    @cached_property
    def value_of_z(self) -> Ints:
        """For each logit in classes.z_coordinates, its index in the state, (nz,)."""
        return logit_of_z(self.full.classes, self.kinds, self.full.z_initial)

    @property
    def slots(self) -> Ints:
        """Index in the state of every logit in the layout of the full system."""
        slots = np.empty(self.full.layout.num_slots, np.int64)
        slots[self.full.layout.slot_of_z] = self.value_of_z
        return slots

    def z_support(self, state: Floats) -> Floats:
        return state.take(self.value_of_z, axis=-1)

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.full.decoder_ids()


class MeanFieldQuotient(ReducedSystem):
    """The mean field with one value in place of all that stay equal; observables are those of the full system.

    Arrays with the size of all classes (`z_support`, `decoder`, `full_state`) are made only when they are asked for.

    Parameters
    ----------
    full : MeanField, FiniteLengthMeanField or FrozenDecoder
    kinds : Kinds
    """

    compiled = integrator_of(mean_field_quotient, mean_field_quotient)

    def __init__(self, full: MeanField | FrozenDecoder, kinds: Kinds) -> None:
        super().__init__(full, kinds)
        self.size = self.quotient.size
        # Share of each state value in mean squares over the full state, which decide on a step.
        self.norm_weights = self.quotient.copies / self.quotient.copies.sum()
        if isinstance(full, MeanField) and full.needs_quotient:
            # Weighted by their copies, N^2 values of Y that hardly move would hide errors of the N that matter: with
            # 10^9 classes, an error of 10^4 tolerances in the own next token. No full run is there to agree with.
            self.norm_weights = np.full(self.size, 1.0 / self.size)
        self._rates = np.array([self.eta_Y, self.eta_Z])

    @property
    def holds_kinds(self) -> bool:  # type: ignore[override]
        return isinstance(self.full, MeanField) and self.full.carries_quotient

    def initial_state(self) -> Floats:
        state = np.zeros(self.size)
        state[: self.num_logit_values] = self.kinds.start
        return state

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_arguments()

    def kernel_arguments(self) -> tuple[Any, ...]:
        return self.quotient.lists, self._rates, scratch(3, self.quotient.width)

    def write_rate(self, state: Floats, out: Floats) -> float:
        self.check_values(state, out)
        return float(mean_field_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    def value_name(self, index: int) -> str:
        return self.quotient.value_name(index)

    def full_state(self, state: Floats) -> Floats:
        return state.take(np.concatenate([self.slots, self.value_of_decoder.ravel()]), axis=-1)

    def decoder(self, state: Floats) -> Floats:
        return state.take(self.value_of_decoder, axis=-1)

    @cached_property
    def value_of_decoder(self) -> Ints:
        """Index in the state of each value of Y, (rows, columns) in the layout of all classes."""
        return value_of_decoder(self.full.classes, self.full.layout, self.quotient, self.value_of_z)

    def invariants(self, state: Floats) -> dict[str, Floats]:
        sums, logits = self.quotient.sums, self.num_logit_values
        change = state[..., :logits] - self.kinds.start
        return {
            "row sum of Y": np.abs((sums.y @ state[..., logits:].T).T).max(axis=-1),
            "row sum of Z": np.abs((sums.z @ change.T).T).max(axis=-1),
        }

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        sums, logits = self.quotient.sums, self.num_logit_values
        change = np.abs(state[..., :logits] - self.kinds.start)
        rows = (sums.y @ np.abs(state[..., logits:]).T).T
        length = np.sqrt(rows**2 @ sums.tokens)  # as in `MeanField.conserved_sums`
        z = (sums.z @ change.T).T.max(axis=-1) + self.rate_ratio * (1.0 + length) ** 2
        terms = self.quotient.lists.value.size
        return {
            "row sum of Y": ConservedSum(terms, float(self.full.classes.vocab_size), rows.max(axis=-1)),
            "row sum of Z": ConservedSum(terms, float(sums.z.sum(axis=1).max()), z),
        }


class FiniteLengthQuotient(MeanFieldQuotient):
    """The mean field of finite sequences, with one value in place of all that stay equal.

    Parameters
    ----------
    full : FiniteLengthMeanField
    kinds : Kinds
    """

    compiled = integrator_of(finite_length_quotient, finite_length_quotient)

    def kernel_arguments(self) -> tuple[Any, ...]:
        width, ranges = self.quotient.width, self.quotient.lists.ranges
        of_pairs = scratch(2, int((ranges[:, 5] - ranges[:, 4]).max()))
        rates = np.append(self._rates, self.full.inverse_length)
        return self.quotient.lists, rates, scratch(8, width), *of_pairs, np.empty(width, np.int64)

    def write_rate(self, state: Floats, out: Floats) -> float:
        self.check_values(state, out)
        return float(finite_length_quotient(state, out, *self._arguments))

    def extra(self, state: Floats) -> dict[str, Floats]:
        noise = self.full.count_noise(self.z_support(state))
        self.full.warn_outside(noise, [self.loss(each) for each in state.reshape(-1, self.size)])
        return {"count_noise": noise}


class FrozenDecoderQuotient(MeanFieldQuotient):
    """The original flow with frozen attention: Y of the mean field with eta_Z = 0.

    If token l occurs in class n only, row l of Y = F C is f_nl C_n. So C follows from Y if every kind has such a token.

    Parameters
    ----------
    full : FrozenDecoder
        The original flow.
    kinds : Kinds
        Every kind has tokens of its own.
    """

    compiled = MeanFieldQuotient.compiled
    shares_logits = False

    @cached_property
    def _inputs(self) -> list[Floats]:
        """Decoder input of a class of each kind, on its entries."""
        lists, found = self.quotient.lists, []
        for first, last in lists.ranges[:, :2]:
            contextual = slice(first, last - lists.residual)
            c = lists.entries[0, contextual] + self.kinds.start[lists.entry_slot[contextual]]
            f = np.exp(c - c.max())
            f /= np.sqrt(lists.entries[1, contextual] @ f**2)
            found.append(np.append(f, 1.0) / np.sqrt(2.0) if lists.residual else f)
        return found

    @cached_property
    def _value_of_coefficient(self) -> tuple[Ints, Floats]:
        """Index in the state, and factor, for each value of C, (S * columns,)."""
        kinds, classes = self.kinds, self.full.classes
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

    def z_support(self, state: Floats) -> Floats:
        return self.full.z_support(state)

    def extra(self, state: Floats) -> dict[str, Floats]:
        lists, logits = self.quotient.lists, []
        for f, (first, last, output, end, begin, stop) in zip(self._inputs, lists.ranges, strict=True):
            own = state.take(lists.value[begin : stop : end - output], axis=-1)
            logits.append(np.einsum("...k,k->...", own, lists.entries[1, first:last] * f))
        return {"own_logit": np.stack(logits, axis=-1).take(self.kinds.members().kind, axis=-1)}

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return {"row sum of Y": super().invariants(state)["row sum of Y"]}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return {"row sum of Y": super().conserved_sums(state)["row sum of Y"]}


class ModifiedDecoderQuotient(ReducedSystem):
    """Eq. (10) with one value of z for all that stay equal, and one of V h for each kind.

    Parameters
    ----------
    full : ModifiedDecoder
    kinds : Kinds
    """

    compiled = ModifiedDecoder.compiled

    def __init__(self, full: ModifiedDecoder, kinds: Kinds) -> None:
        super().__init__(full, kinds)
        self.size = kinds.num_slots + kinds.number.size
        copies = np.concatenate([kinds.copies, kinds.number])
        self.norm_weights = copies / copies.sum()
        lists = self.quotient.lists
        ends, shared = lists.ranges[:, 1], np.concatenate([kinds.entries(c)[0] for c in range(kinds.number.size)])
        is_own = lists.entry_slot >= kinds.first_own[0]
        self._lists = Decoupled(
            num_slots=kinds.num_slots,
            indptr=np.append(0, ends),
            entry_kind=np.repeat(np.arange(kinds.number.size), np.diff(ends, prepend=0)),
            entry_slot=lists.entry_slot,
            log_p=lists.entries[0],
            multiplicity=lists.entries[1],
            drive=lists.entries[2],
            is_own=is_own,
            prior=kinds.prior,
            root=np.sqrt(kinds.number),
            row_indptr=np.cumsum([0, *np.bincount(shared, minlength=kinds.like_shared.size)]),
            row_entry=np.flatnonzero(~is_own)[np.argsort(shared, kind="stable")],
            V=float(full.classes.vocab_size),
            eta_Y=full.eta_Y,
            eta_Z=full.eta_Z,
            leading=full.beta == "leading",
        )
        self._arguments = self.kernel_arguments()

    def initial_state(self) -> Floats:
        return np.concatenate([self.kinds.start, np.zeros(self.kinds.number.size)])

    def kernel_arguments(self) -> tuple[Any, ...]:
        return decoupled_arguments(self._lists)

    def write_rate(self, state: Floats, out: Floats) -> float:
        self.check_values(state, out)
        return float(modified_decoder(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        self.check_values(state)
        u, V = state[self.kinds.num_slots :], self._lists.V
        return float((self.kinds.number * self.kinds.prior) @ np.log1p((V - 1) * np.exp(-u)))

    @property
    def num_logit_values(self) -> int:
        return self.kinds.num_slots

    def full_state(self, state: Floats) -> Floats:
        return state.take(np.concatenate([self.slots, self.kinds.num_slots + self.kinds.members().kind]), axis=-1)

    def value_name(self, index: int) -> str:
        slots = self.kinds.num_slots
        return self.quotient.value_name(index) if index < slots else f"V h of classes of kind {index - slots}"

    def extra(self, state: Floats) -> dict[str, Floats]:
        return self.full.extra(self.full_state(state))

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return self.full.invariants(self.full_state(state))

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return self.full.conserved_sums(self.full_state(state))
