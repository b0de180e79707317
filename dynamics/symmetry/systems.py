"""Systems on one value for all that stay equal; each looks like the full system that it stands for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from snapdyn.dynamics.classes.kinds import Kinds
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.kernels.decoder import frozen_decoder
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.finite_length import finite_length_quotient
from snapdyn.dynamics.kernels.modified_decoder import Decoupled, modified_decoder
from snapdyn.dynamics.kernels.quotient import mean_field_quotient
from snapdyn.dynamics.symmetry.quotient import KindsQuotient, logit_of_z, quotient_of, value_of_decoder
from snapdyn.dynamics.systems.base import ConservedSum, System
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder, decoupled_arguments
from snapdyn.memory import scratch


class ReducedSystem(System):
    """What all systems on one value for all that stay equal have in common.

    Parameters
    ----------
    full : System
    """

    kinds: Kinds
    shares_logits = True

    def __init__(self, full: System) -> None:
        self.full: Any = full
        self.classes, self.parameters, self.eta_Y = full.classes, full.parameters, full.eta_Y

    @property
    def name(self) -> str:
        return self.full.name

    @property
    def rate_ratio(self) -> float:
        return self.full.rate_ratio

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
        """State value of every logit in classes.z_coordinates, (nz,)."""
        return logit_of_z(self.full.classes, self.kinds, self.full.z_initial)

    def z_support(self, state: Floats) -> Floats:
        return state.take(self.value_of_z, axis=-1)

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.full.decoder_ids()


class MeanFieldQuotient(ReducedSystem):
    """The mean field of one value for all that stay equal; observables are those of the full system, lifted.

    What has the size of all classes (`z_support`, `decoder`, `full_state`) is made when it is asked for.

    Parameters
    ----------
    full : MeanField, FiniteLengthMeanField or FrozenDecoder
    kinds : Kinds
    """

    compiled = integrator_of(mean_field_quotient, mean_field_quotient)
    eta_Z: float
    residual = False

    def __init__(self, full: MeanField | FrozenDecoder, kinds: Kinds) -> None:
        super().__init__(full)
        self.kinds = kinds
        self.residual = full.residual
        self.eta_Z = full.eta_Z if isinstance(full, MeanField) else 0.0
        self.quotient: KindsQuotient = full.classes.kept.get_or_make(
            ("quotient", self.residual),
            full.start_key,
            lambda: quotient_of(kinds, full.classes.vocab_size, self.residual),
        )
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

    @cached_property
    def value_names(self) -> list[str]:  # type: ignore[override]
        return self.quotient.names()

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
        return float(mean_field_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    def full_state(self, state: Floats) -> Floats:
        full = self.full
        slots = np.empty(full.layout.num_slots, np.int64)
        slots[full.layout.slot_of_z] = self.value_of_z
        return state.take(np.concatenate([slots, self.value_of_decoder.ravel()]), axis=-1)

    def decoder(self, state: Floats) -> Floats:
        return state.take(self.value_of_decoder, axis=-1)

    @cached_property
    def value_of_decoder(self) -> Ints:
        """State value of each value of Y, (rows, columns) of the layout of all classes."""
        return value_of_decoder(self.full.classes, self.full.layout, self.quotient, self.value_of_z)

    def invariants(self, state: Floats) -> dict[str, Floats]:
        sums, change = self.quotient.sums, self._change(state)
        return {
            "row sum of Y": np.abs((sums.y @ state.T).T).max(axis=-1),
            "row sum of Z": np.abs((sums.z @ change.T).T).max(axis=-1),
        }

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        sums, change = self.quotient.sums, np.abs(self._change(state))
        rows = (sums.y @ np.abs(state).T).T
        length = np.sqrt(rows**2 @ sums.y_number)  # as in `MeanField.conserved_sums`
        z = (sums.z @ change.T).T.max(axis=-1) + self.rate_ratio * (1.0 + length) ** 2
        terms = self.quotient.lists.terms.shape[1]
        return {
            "row sum of Y": ConservedSum(terms, float(sums.y.sum(axis=1).max()), rows.max(axis=-1)),
            "row sum of Z": ConservedSum(terms, float(sums.z.sum(axis=1).max()), z),
        }

    def _change(self, state: Floats) -> Floats:
        change = state.copy()
        change[..., : self.num_logit_values] -= self.kinds.start
        return change


class FiniteLengthQuotient(MeanFieldQuotient):
    """The mean field of finite sequences, of one value for all that stay equal.

    Parameters
    ----------
    full : FiniteLengthMeanField
    kinds : Kinds
    """

    compiled = integrator_of(finite_length_quotient, finite_length_quotient)

    def kernel_arguments(self) -> tuple[Any, ...]:
        ranges = self.quotient.lists.ranges
        most_terms = int((ranges[:, 5] - ranges[:, 4]).max())
        rates = np.append(self._rates, self.full.inverse_length)
        return self.quotient.lists, rates, scratch(16, self.quotient.width), scratch(2, most_terms)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(finite_length_quotient(state, out, *self._arguments))

    def extra(self, state: Floats) -> dict[str, Floats]:
        noise = self.full.count_noise(self.z_support(state))
        self.full.warn_outside(noise, [self.loss(each) for each in state.reshape(-1, self.size)])
        return {"count_noise": noise}


class FrozenDecoderQuotient(MeanFieldQuotient):
    """The original flow with frozen attention: Y of the mean field with eta_Z = 0.

    Row l of Y = F C of a token of class n alone is f_nl C_n, so C follows from Y where every kind has such a token.

    Parameters
    ----------
    full : FrozenDecoder
    kinds : Kinds
        Every kind has tokens of its own.
    """

    compiled = MeanFieldQuotient.compiled
    shares_logits = False

    @cached_property
    def _inputs(self) -> list[Floats]:
        """Decoder input of a class of each kind on its entries, the query token's share last with the residual."""
        lists, found = self.quotient.lists, []
        for first, last in lists.ranges[:, :2]:
            contextual = slice(first, last - 1 if self.residual else last)
            c = lists.entries[0, contextual] + self.kinds.start[lists.entry_slot[contextual]]
            f = np.exp(c - c.max())
            f /= np.sqrt(lists.entries[1, contextual] @ f**2)
            found.append(np.append(f, 1.0) / np.sqrt(2.0) if self.residual else f)
        return found

    @cached_property
    def _value_of_coefficient(self) -> tuple[Ints, Floats]:
        """State value and factor of each value of C, (S, columns)."""
        members, classes, C = self.kinds.members(), self.full.classes, self.kinds.number.size
        by_output = np.argsort(classes.next_index)
        columns = np.append(members.kind[by_output], C)[: self.full.columns.size]
        same = np.append(classes.query_index[by_output], -1)[: columns.size] == classes.query_index[:, None]
        first = self.kinds.first_own[:-1] - self.kinds.first_own[0]
        rows = self.quotient.y_own[first[members.kind]]
        values = np.take_along_axis(rows, 1 + columns + (C + 1) * (same & self.residual), axis=1)
        values[np.arange(classes.num_classes), classes.next_index] = rows[:, 0]
        f = np.array([f[self.kinds.entries(c)[0].size] for c, f in enumerate(self._inputs)])
        return values.ravel(), 1.0 / np.repeat(f[members.kind], columns.size)

    def full_state(self, state: Floats) -> Floats:
        values, factor = self._value_of_coefficient
        return state.take(values, axis=-1) * factor

    def decoder(self, state: Floats) -> Floats:
        return self.full.decoder(self.full_state(state))

    def z_support(self, state: Floats) -> Floats:
        return self.full.z_support(state)

    def extra(self, state: Floats) -> dict[str, Floats]:
        lists, logits = self.quotient.lists, []
        for f, (first, last, *_, begin, end) in zip(self._inputs, lists.ranges, strict=True):
            entry, output, value = lists.term_index[:, begin:end]
            values = value[output == 0][np.argsort(entry[output == 0])]
            logits.append(np.einsum("...k,k->...", state.take(values, axis=-1), lists.entries[1, first:last] * f))
        return {"own_logit": np.stack(logits, axis=-1).take(self.kinds.members().kind, axis=-1)}

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return {"row sum of Y": super().invariants(state)["row sum of Y"]}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return {"row sum of Y": super().conserved_sums(state)["row sum of Y"]}


class ModifiedFlowQuotient(ReducedSystem):
    """The modified flow with frozen attention: nothing couples the classes, so that the prior alone tells them apart.

    The state is C of each different prior: on the own next token, and on every other output.

    Parameters
    ----------
    full : FrozenDecoder
        With `modified`.
    """

    compiled = FrozenDecoder.compiled._replace(knows_loss=False)  # classes of one prior count in the loss
    shares_logits = False

    def __init__(self, full: FrozenDecoder) -> None:
        super().__init__(full)
        prior, self._of_class, number = np.unique(full.classes.prior, return_inverse=True, return_counts=True)
        self._share, self._others = number * prior, full.classes.vocab_size - 1.0
        self.size = 2 * prior.size
        copies = np.outer(number, [1.0, full.columns.size - 1.0])
        self.norm_weights = copies.ravel() / copies.sum()
        own = np.zeros(prior.size, np.int64)
        self._constants = (2, np.eye(prior.size), prior, own, self._others, full.eta_Y)
        self._arguments = self.kernel_arguments()

    def initial_state(self) -> Floats:
        return np.zeros(self.size)

    def kernel_arguments(self) -> tuple[Any, ...]:
        return *self._constants, scratch(2)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(frozen_decoder(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return float(self._share @ np.log1p(self._others * np.exp(state[1::2] - state[::2])))

    @property
    def num_logit_values(self) -> int:
        return 1

    def z_support(self, state: Floats) -> Floats:
        return self.full.z_support(state)

    def full_state(self, state: Floats) -> Floats:
        own = np.arange(self.full.columns.size) == self.full.classes.next_index[:, None]
        return state.take((2 * self._of_class[:, None] + np.where(own, 0, 1)).ravel(), axis=-1)

    def value_name(self, index: int) -> str:
        output = "other output" if index % 2 else "next token"
        return f"decoder coefficient of classes of prior {self._constants[2][index // 2]:g}, {output}"

    def decoder(self, state: Floats) -> Floats:
        return self.full.decoder(self.full_state(state))

    def extra(self, state: Floats) -> dict[str, Floats]:
        return {"own_logit": state[..., ::2].take(self._of_class, axis=-1)}

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return self.full.row_sums((state[..., ::2] + self._others * state[..., 1::2]).take(self._of_class, axis=-1))

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        sizes = np.abs(state[..., ::2]) + self._others * np.abs(state[..., 1::2])
        return self.full.row_sum_scales(sizes.take(self._of_class, axis=-1))


class ModifiedDecoderQuotient(ReducedSystem):
    """Eq. (10) with one value of z for all that stay equal, and one of V h for each kind.

    Parameters
    ----------
    full : ModifiedDecoder
    kinds : Kinds
    """

    compiled = ModifiedDecoder.compiled

    def __init__(self, full: ModifiedDecoder, kinds: Kinds) -> None:
        super().__init__(full)
        self.kinds, self.eta_Z = kinds, full.eta_Z
        self.size = kinds.num_slots + kinds.number.size
        copies = np.concatenate([kinds.copies, kinds.number])
        self.norm_weights = copies / copies.sum()
        entries = [kinds.entries(c) for c in range(kinds.number.size)]
        lengths = [slots.size for _, slots in entries]
        kind = np.repeat(np.arange(kinds.number.size), lengths)
        slot = np.concatenate([slots for _, slots in entries])
        # The shared token of each entry, -1 for own tokens.
        shared = np.concatenate([np.append(of, np.full(slots.size - of.size, -1)) for of, slots in entries])
        in_shared = np.flatnonzero(shared >= 0)
        like = np.concatenate(
            [np.append(kinds.like_shared[of], own.like) for (of, _), own in zip(entries, kinds.own, strict=True)]
        )
        P = [
            np.append(kinds.shared[c, of], own.probability)
            for c, ((of, _), own) in enumerate(zip(entries, kinds.own, strict=True))
        ]
        number = kinds.number.astype(np.float64)
        self._lists = Decoupled(
            num_slots=kinds.num_slots,
            indptr=np.cumsum([0, *lengths]),
            entry_kind=kind,
            entry_slot=slot,
            log_p=np.log(np.concatenate(P)),
            multiplicity=like,
            drive=(kinds.prior * number)[kind] / kinds.copies[slot],
            is_own=shared < 0,
            prior=kinds.prior,
            root=np.sqrt(number),
            row_indptr=np.cumsum([0, *np.bincount(shared[in_shared], minlength=kinds.like_shared.size)]),
            row_entry=in_shared[np.argsort(shared[in_shared], kind="stable")],
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
        return float(modified_decoder(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        u, V = state[self.kinds.num_slots :], self._lists.V
        return float((self.kinds.number * self.kinds.prior) @ np.log1p((V - 1) * np.exp(-u)))

    @property
    def num_logit_values(self) -> int:
        return self.kinds.num_slots

    def full_state(self, state: Floats) -> Floats:
        slots = np.empty(self.full.layout.num_slots, np.int64)
        slots[self.full.layout.slot_of_z] = self.value_of_z
        return state.take(np.concatenate([slots, self.kinds.num_slots + self.kinds.members().kind]), axis=-1)

    def value_name(self, index: int) -> str:
        slots = self.kinds.num_slots
        return f"z of logit {index} of the kinds" if index < slots else f"V h of classes of kind {index - slots}"

    def extra(self, state: Floats) -> dict[str, Floats]:
        h = state[..., self.kinds.num_slots :] / self.full.classes.vocab_size
        return {"h": h.take(self.kinds.members().kind, axis=-1)}

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return self.full.invariants(self.full_state(state))

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return self.full.conserved_sums(self.full_state(state))
