"""The decoder with frozen attention on representatives.

C' = eta_Y p_n (e_n - alpha_n) on every pair (class n, output), from the logits W = F^T F C. The search takes W by way
of Y = F C: row l of Y sums f_kl C_k over the classes k, W_n sums f_nl Y_l over the tokens l, and the softmax of class n
sums over its outputs. In the modified flow W is C.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.frozen_decoder_quotient import frozen_decoder_quotient
from snapdyn.dynamics.symmetry.dependence import Colours, Dependence, Sum, entries_of
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.layout import build_layout, scratch


def frozen_decoder_dependence(system: FrozenDecoder) -> Dependence:
    """Parts and sums of the rate of `system`; C is its state, row by row."""
    classes, columns = system.classes, system.columns
    S, width = classes.num_classes, columns.size
    pairs = np.arange(S * width).reshape(S, width)
    of_pair = np.broadcast_to(np.arange(S)[:, None], pairs.shape)
    own = np.zeros((S, width))
    own[np.arange(S), classes.next_index] = 1.0
    labels: dict[str, list[Any]] = {"class": [classes.prior], "C": [own.ravel()]}
    outputs = [
        Sum("C", pairs, (("class", of_pair),)),
        Sum("class", of_pair, (("C", pairs),), columns),
    ]
    if system.modified:
        return Dependence(labels, outputs, ("C",))
    L = build_layout(classes, system.z_initial, system.residual)
    of, row, number = entries_of(L)
    # A query token that enters with the residual connection is one more entry, of no weight of its own.
    contextual, entry = number >= 0, np.arange(of.size)
    logit = L.slots(classes, system.z_initial)[L.entry_slot]
    labels["entry"] = [
        np.where(contextual, values[number], 0.0) for values in (L.log_p, logit)
    ] + [1.0 * contextual, 1.0 * np.isin(number, L.query_entry[L.query_entry >= 0])]  # fmt: skip
    labels["Y"] = [np.zeros(L.num_rows * width)]
    tokens = np.where(contextual, L.multiplicity[number], 1.0)
    left = pairs[of]
    right = row[:, None] * width + np.arange(width)
    inputs = [
        Sum("class", of, (("entry", entry),), tokens),
        Sum("entry", entry, (("class", of),)),
        Sum("Y", right, (("entry", entry[:, None]), ("C", left))),
        Sum("C", left, (("entry", entry[:, None]), ("Y", right)), tokens[:, None]),
    ]
    return Dependence(labels, [*inputs, *outputs], ("C",))


class ReducedFrozenDecoder(ReducedSystem):
    """The decoder with frozen attention, one value of C per colour.

    Parameters
    ----------
    full : FrozenDecoder
    colours : dict
        A balanced colouring of `frozen_decoder_dependence(full)`.
    """

    full: FrozenDecoder

    def __init__(self, full: FrozenDecoder, colours: Colours) -> None:
        super().__init__(full, colours["C"])
        classes, mixing = full.classes, full.mixing
        C = colours["C"].reshape(classes.num_classes, -1)
        representatives, of_class, number_of = np.unique(
            colours["class"], return_index=True, return_inverse=True, return_counts=True
        )[1:]
        ranges: list[tuple[int, int]] = []
        own: list[int] = []
        value: list[int] = []
        number: list[float] = []
        begin, index, weight = [0], [], []
        for n in representatives:
            outputs, column, kind = np.unique(C[n], return_index=True, return_inverse=True)
            ranges.append((len(value), len(value) + outputs.size))
            own.append(len(value) + kind[classes.next_index[n]])
            value += outputs.tolist()
            number += np.bincount(kind, full.columns).tolist()
            mixed_in = np.flatnonzero(mixing[n])
            for o in column:  # sums of row n of the mixing matrix over classes of equal value
                values, kind = np.unique(C[mixed_in, o], return_inverse=True)
                index.append(values)
                weight.append(np.bincount(kind, mixing[n, mixed_in]))
                begin.append(begin[-1] + values.size)
        self._class = of_class.ravel()
        prior = classes.prior[representatives]
        self._constants = (
            np.array(ranges, dtype=np.int64), np.array(own, dtype=np.int64),
            np.stack([full.eta_Y * prior, number_of * prior]), np.array(value, dtype=np.int64), np.array(number),
            np.array(begin, dtype=np.int64), np.concatenate(index).astype(np.int64), np.concatenate(weight),
        )  # fmt: skip
        self._arguments = self.kernel_arguments()

    def kernel_arguments(self) -> tuple[Any, ...]:
        return *self._constants, scratch(self.full.columns.size)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(frozen_decoder_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    @property
    def num_logit_values(self) -> int:
        return 1

    def z_support(self, state: Floats) -> Floats:
        return self.full.z_support(state)

    def extra(self, state: Floats) -> dict[str, Floats]:
        own, begin, index, weight = self._constants[1], *self._constants[5:]
        logits = [
            np.einsum(
                "...k,k->...", state.take(index[begin[j] : begin[j + 1]], axis=-1), weight[begin[j] : begin[j + 1]]
            )
            for j in own
        ]
        return {"own_logit": np.stack(logits, axis=-1).take(self._class, axis=-1)}
