"""Attention driven by the modified decoder, Eq. (10), on representatives.

The rate needs columns of G^{-1}, G = F^T F. Column n solves G x = e_n, so x_k and x_k' are equal if no sum of G tells
the classes k and k' apart once n is marked. The search therefore refines a colour for every pair (k, n): Y_ln sums
f_kl x_kn over the classes k, (G x)_kn sums f_kl Y_ln over the tokens l. Y_ln also is the pull of G^{-1} on token l, and
column n with the h of its classes gives sum_j G^{-1}_nj h_j.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.modified_decoder_quotient import modified_decoder_quotient
from snapdyn.dynamics.symmetry.dependence import Colours, Dependence, Sum
from snapdyn.dynamics.symmetry.reduced_system import ReducedSystem
from snapdyn.dynamics.systems.layout import scratch
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder


def modified_decoder_dependence(system: ModifiedDecoder) -> Dependence:
    """Parts and sums of the rate of `system`; its state is (slot, h)."""
    L, S = system.layout, system.classes.num_classes
    start = system.initial_state()
    of = np.repeat(np.arange(S), np.diff(L.indptr))
    classes, entry = np.arange(S), np.arange(of.size)
    pairs = np.arange(S * S).reshape(S, S)  # (k, n)
    left = pairs[of]
    right = L.entry_row[:, None] * S + classes
    tokens = L.multiplicity
    labels = {
        "slot": [start[: L.num_slots]],
        "h": [start[L.num_slots :], L.prior],
        "class": [L.prior],
        "entry": [L.log_p],
        "x": [np.eye(S).ravel()],
        "Y": [np.zeros(L.num_rows * S)],
    }
    of_k, of_n = np.broadcast_to(classes[:, None], (S, S)), np.broadcast_to(classes, (S, S))
    sums = [
        Sum("entry", entry, (("slot", L.entry_slot),)),
        Sum("class", of, (("entry", entry),), tokens),
        Sum("class", classes, (("h", classes),)),
        Sum("entry", entry, (("class", of),)),
        Sum("x", pairs, (("class", of_k),)),
        Sum("x", pairs, (("class", of_n),)),
        Sum("Y", right, (("entry", entry[:, None]), ("x", left))),
        Sum("x", left, (("entry", entry[:, None]), ("Y", right)), tokens[:, None]),
        Sum("class", of_n, (("x", pairs),)),
        Sum("entry", entry, (("Y", L.entry_row * S + of),)),
        Sum("slot", L.entry_slot, (("entry", entry),)),
    ]
    return Dependence(labels, sums, ("slot", "h"))


def share_of_work(system: ModifiedDecoder, colours: Colours) -> float:
    """Work for the columns of G^{-1}, r^3/6 for r cells and one class of each colour, over S^3/2, that of all."""
    S = system.classes.num_classes
    x = colours["x"].reshape(S, S)
    representatives = np.unique(colours["class"], return_index=True)[1]
    return sum((np.unique(x[:, n]).size / S) ** 3 / 6.0 for n in representatives) / 0.5


class ModifiedDecoderLists(NamedTuple):
    """Lists of `kernels/modified_decoder_quotient`, class by class."""

    ranges: Ints  # (C, 6): first and last + 1 of the entries, of the cells, of the terms of M
    value: Ints  # (C,) state value of V h
    prior: Floats  # (values of V h,) p_n
    entry_slot: Ints  # (entries,) state value of the logit
    entries: Floats  # (3, entries): ln P; number of tokens; p_n times the number of classes and entries per logit
    cell_class: Ints  # (cells,) number of the colour of its classes
    cell_root: Floats  # (cells,) root of the number of its classes
    gram_index: Ints  # (4, terms of M): two cells within the class, two entries
    gram_weight: Floats  # (terms of M,): number of tokens, times the roots that make M symmetric
    pull_range: Ints  # (entries, 2) first and last + 1 of its terms
    pull_index: Ints  # (2, terms): cell, entry
    pull_number: Floats  # (terms,) classes with the same token


def _lists(system: ModifiedDecoder, colours: Colours) -> tuple[ModifiedDecoderLists, int]:
    """The lists, and the most cells of a class."""
    L, S = system.layout, system.classes.num_classes
    of = np.repeat(np.arange(S), np.diff(L.indptr))
    by_row = np.argsort(L.entry_row, kind="stable")
    row_begin = np.concatenate([[0], np.cumsum(np.bincount(L.entry_row, minlength=L.num_rows))])
    x, entry_colour, class_colour = colours["x"].reshape(S, S), colours["entry"], colours["class"]
    num_slots = int(colours["slot"].max()) + 1
    slot_number = np.bincount(colours["slot"])
    representatives, number_of = np.unique(class_colour, return_index=True, return_counts=True)[1:]
    place = np.empty(int(entry_colour.max()) + 1, dtype=np.int64)  # of each colour of entries, class by class
    count = 0
    for n in representatives:
        kinds = np.unique(entry_colour[L.indptr[n] : L.indptr[n + 1]])
        place[kinds] = count + np.arange(kinds.size)
        count += kinds.size
    entry = place[entry_colour]

    ranges, entry_slot, entries, cell_class, cell_root = [], [], [], [], []
    gram, gram_weight, pulls, pull_number, pull_range = [], [], [], [], []
    begin = np.zeros(3, np.int64)
    num_pulls = 0
    for n, number in zip(representatives, number_of, strict=True):
        part = np.arange(L.indptr[n], L.indptr[n + 1])
        first, kind = np.unique(entry[part], return_index=True, return_inverse=True)[1:]
        slots = colours["slot"][L.entry_slot[part[first]]]
        drive = number * L.prior[n] * np.bincount(kind) / slot_number[slots]
        entry_slot.append(slots)
        entries.append(np.stack([L.log_p[part[first]], np.bincount(kind, L.multiplicity[part]), drive]))
        # Cells, the class itself last.
        member, cell, size = np.unique(x[:, n], return_index=True, return_inverse=True, return_counts=True)[1:]
        order = np.argsort(member == n, kind="stable")
        rank = np.argsort(order, kind="stable")
        cell, member, root = rank[cell.ravel()], member[order], np.sqrt(size[order])
        cell_class.append(class_colour[member])
        cell_root.append(root)
        num_terms = 0
        for X, k in enumerate(member):
            own, others = _neighbours(L.indptr[k], L.indptr[k + 1], L.entry_row, row_begin, by_row)
            lower = cell[of[others]] <= X
            own, others = own[lower], others[lower]
            index = np.stack([np.full(own.size, X), cell[of[others]], entry[own], entry[others]])
            index, term = np.unique(index, axis=1, return_inverse=True)
            gram.append(index)
            gram_weight.append(np.bincount(term.ravel(), L.multiplicity[own]) * root[X] / root[index[1]])
            num_terms += index.shape[1]
        for e in part[first]:
            others = by_row[row_begin[L.entry_row[e]] : row_begin[L.entry_row[e] + 1]]
            others = others[of[others] != n]
            index, count_of = np.unique(
                np.stack([begin[1] + cell[of[others]], entry[others]]), axis=1, return_counts=True
            )
            pulls.append(index)
            pull_number.append(count_of.astype(np.float64))
            pull_range.append((num_pulls, num_pulls + index.shape[1]))
            num_pulls += index.shape[1]
        end = begin + np.array([first.size, member.size, num_terms])
        ranges.append(np.column_stack([begin, end]).ravel())
        begin = end
    first_h = np.unique(colours["h"], return_index=True)[1]
    lists = ModifiedDecoderLists(
        ranges=np.array(ranges),
        value=(num_slots + colours["h"][representatives]).astype(np.int64),
        prior=L.prior[first_h],
        entry_slot=np.concatenate(entry_slot).astype(np.int64),
        entries=np.ascontiguousarray(np.concatenate(entries, axis=1)),
        cell_class=np.concatenate(cell_class).astype(np.int64),
        cell_root=np.concatenate(cell_root),
        gram_index=np.ascontiguousarray(np.concatenate(gram, axis=1)).astype(np.int64),
        gram_weight=np.concatenate(gram_weight),
        pull_range=np.array(pull_range, dtype=np.int64),
        pull_index=np.ascontiguousarray(np.concatenate(pulls, axis=1)).astype(np.int64),
        pull_number=np.concatenate(pull_number),
    )
    return lists, max(each.size for each in cell_root)


def _neighbours(first: int, last: int, entry_row: Ints, row_begin: Ints, by_row: Ints) -> tuple[Ints, Ints]:
    """All pairs of an entry first..last - 1 and an entry on the same row."""
    rows = entry_row[first:last]
    length = row_begin[rows + 1] - row_begin[rows]
    own = np.repeat(np.arange(first, last), length)
    offset = np.arange(own.size) - np.repeat(np.cumsum(length) - length, length)
    return own, by_row[np.repeat(row_begin[rows], length) + offset]


class ReducedModifiedDecoder(ReducedSystem):
    """Eq. (10) with one value of z and V h per colour.

    Parameters
    ----------
    full : ModifiedDecoder
    colours : dict
        A balanced colouring of `modified_decoder_dependence(full)`.
    """

    full: ModifiedDecoder

    def __init__(self, full: ModifiedDecoder, colours: Colours) -> None:
        self.num_slots = int(colours["slot"].max()) + 1
        super().__init__(full, np.concatenate([colours["slot"], self.num_slots + colours["h"]]))
        self.eta_Z = full.eta_Z
        lists, self._most_cells = _lists(full, colours)
        self._constants = (
            self.num_slots, *lists, float(full.classes.vocab_size), full.eta_Y, full.eta_Z, full.beta == "leading"
        )  # fmt: skip
        self._sizes = lists.entry_slot.size, lists.cell_root.size, lists.value.size
        h_number = np.bincount(colours["h"])
        self._loss_share = h_number * lists.prior
        self._slot_of_z = colours["slot"][full.layout.slot_of_z]
        self._arguments = self.kernel_arguments()

    def kernel_arguments(self) -> tuple[Any, ...]:
        most = self._most_cells
        return *self._constants, *(scratch(size) for size in self._sizes), scratch(most, most)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(modified_decoder_quotient(state, out, *self._arguments))

    def loss(self, state: Floats) -> float:
        u, V = state[self.num_slots :], self.full.classes.vocab_size
        return float(self._loss_share @ np.log1p((V - 1) * np.exp(-u)))

    @property
    def num_logit_values(self) -> int:
        return self.num_slots

    def z_support(self, state: Floats) -> Floats:
        return state.take(self._slot_of_z, axis=-1)
