"""The mean field of finite sequences on representatives.

The rate takes the sums of the mean field and those of its second order (`kernels/finite_length`): over the outputs, of
functions of a token's attention, its values of Y and the errors of the class; and over the tokens, of the same
functions. So the search refines the pairs (class, token) and (class, output) against each other until they are stable
too, which the sums of the mean field alone do not need.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.finite_length_quotient import finite_length_quotient
from snapdyn.dynamics.symmetry.dependence import Colours, Dependence, Sum
from snapdyn.dynamics.symmetry.quotient import Quotient
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.layout import scratch


def finite_length_dependence(system: FiniteLengthMeanField) -> Dependence:
    """Parts and sums of the rate of `system`; its state is (slot, Y)."""
    L = system.layout
    S, width = L.prior.size, L.num_columns
    columns = np.ones(width)
    columns[-1] = L.last_column_multiplicity
    of = np.repeat(np.arange(S), np.diff(L.indptr))
    entry = np.arange(of.size)
    pairs = np.arange(S * width).reshape(S, width)
    of_pair = np.broadcast_to(np.arange(S)[:, None], pairs.shape)
    own = np.zeros((S, width))
    own[np.arange(S), L.column] = 1.0
    left, right = pairs[of], L.entry_row[:, None] * width + np.arange(width)
    of_entry = np.broadcast_to(entry[:, None], left.shape)
    labels = {
        "slot": [system.initial_state()[: L.num_slots]],
        "Y": [np.zeros(L.num_rows * width)],
        "class": [L.prior],
        "entry": [L.log_p],
        "output": [own.ravel()],
    }
    sums = [
        Sum("entry", entry, (("slot", L.entry_slot),)),
        Sum("class", of, (("entry", entry),), L.multiplicity),
        Sum("entry", entry, (("class", of),)),
        Sum("output", pairs, (("class", of_pair),)),
        Sum("output", left, (("entry", of_entry), ("Y", right)), L.multiplicity[:, None]),
        Sum("class", of_pair, (("output", pairs),), columns),
        Sum("entry", of_entry, (("output", left), ("Y", right)), columns),
        Sum("Y", right, (("entry", of_entry), ("output", left))),
        Sum("slot", L.entry_slot, (("entry", entry),)),
    ]
    return Dependence(labels, sums, ("slot", "Y"))


def finite_length_quotient_of(system: FiniteLengthMeanField, colours: Colours) -> Quotient:
    """The lists of `symmetry.quotient` for these colours; state values of Y come after those of the logits."""
    L = system.layout
    width = L.num_columns
    num_slots = int(colours["slot"].max()) + 1
    value, output = colours["Y"].reshape(L.num_rows, width), colours["output"].reshape(-1, width)
    number = np.concatenate([np.bincount(colours["slot"]), np.bincount(colours["Y"])]).astype(np.float64)
    columns = np.ones(width)
    columns[-1] = L.last_column_multiplicity
    representatives, class_number = np.unique(colours["class"], return_index=True, return_counts=True)[1:]
    parts: dict[str, list[Any]] = {
        name: [] for name in ("ranges", "own", "slot", "entries", "outputs", "index", "terms")
    }
    begin = np.zeros(3, np.int64)
    for n, count in zip(representatives, class_number, strict=True):
        part = slice(L.indptr[n], L.indptr[n + 1])
        rows, tokens = L.entry_row[part], L.multiplicity[part]
        first, k = np.unique(colours["entry"][part], return_index=True, return_inverse=True)[1:]
        O = np.unique(output[n], return_inverse=True)[1]
        tokens_k, outputs_O = np.bincount(k, tokens), np.bincount(O, columns)
        slots = colours["slot"][L.entry_slot[part][first]]
        drive = count * L.prior[n] / number[slots] * np.bincount(k)
        index = np.stack(np.broadcast_arrays(k[:, None], O, num_slots + value[rows])).reshape(3, -1)
        index, term = np.unique(index, axis=1, return_inverse=True)
        weight = np.bincount(term.ravel(), (tokens[:, None] * columns).ravel())
        pairs = count * L.prior[n] * np.bincount(term.ravel())
        parts["terms"].append(
            np.stack([weight / outputs_O[index[1]], weight / tokens_k[index[0]], pairs / number[index[2]]])
        )
        parts["index"].append(index)
        parts["slot"].append(slots)
        parts["entries"].append(np.stack([L.log_p[part][first], tokens_k, drive]))
        parts["outputs"].append(outputs_O)
        parts["own"].append((O[L.column[n]], -1, -1))
        end = begin + np.array([slots.size, outputs_O.size, index.shape[1]])
        parts["ranges"].append(np.column_stack([begin, end]).ravel())
        begin = end
    first_slot = np.unique(colours["slot"], return_index=True)[1]
    start = np.zeros(number.size)
    start[:num_slots] = system.initial_state()[first_slot]
    return Quotient(
        ranges=np.array(parts["ranges"]),
        classes=np.array(parts["own"], dtype=np.int64),
        share=class_number * L.prior[representatives],
        entry_slot=np.concatenate(parts["slot"]).astype(np.int64),
        entries=np.ascontiguousarray(np.concatenate(parts["entries"], axis=1)),
        output_number=np.concatenate(parts["outputs"]),
        term_index=np.ascontiguousarray(np.concatenate(parts["index"], axis=1)).astype(np.int64),
        terms=np.ascontiguousarray(np.concatenate(parts["terms"], axis=1)),
        start=start,
        number=number,
        num_slots=num_slots,
    )


class ReducedFiniteLength(ReducedSystem):
    """The mean field of finite sequences, of one value per colour.

    Parameters
    ----------
    full : FiniteLengthMeanField
    colours : dict
        A balanced colouring of `finite_length_dependence(full)`.
    """

    full: FiniteLengthMeanField

    def __init__(self, full: FiniteLengthMeanField, colours: Colours) -> None:
        q = finite_length_quotient_of(full, colours)
        super().__init__(full, np.concatenate([colours["slot"], q.num_slots + colours["Y"]]))
        self.num_slots = q.num_slots
        lengths = q.ranges[:, 1::2] - q.ranges[:, ::2]
        self._constants = (
            q.ranges, q.classes, q.share, q.entry_slot, q.entries, q.output_number, q.term_index, q.terms,
            np.array([full.eta_Y, full.eta_Z, full.inverse_length]),
        )  # fmt: skip
        self._widths = int(lengths[:, :2].max()), int(lengths[:, 2].max())
        self._slot_of_z = colours["slot"][full.layout.slot_of_z]
        self._arguments = self.kernel_arguments()

    def kernel_arguments(self) -> tuple[Any, ...]:
        width, most_terms = self._widths
        return *self._constants, scratch(16, width), scratch(2, most_terms)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(finite_length_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    @property
    def num_logit_values(self) -> int:
        return self.num_slots

    def z_support(self, state: Floats) -> Floats:
        return state.take(self._slot_of_z, axis=-1)

    def extra(self, state: Floats) -> dict[str, Floats]:
        noise = self.full.count_noise(self.z_support(state))
        self.full.warn_outside(noise, [self.loss(each) for each in state.reshape(-1, self.size)])
        return {"count_noise": noise}
