"""The quotient of symmetric classes in any number, from their blocks and counts; nothing has the size of their number.

Kinds c of classes, K_c per query, N_c = Q K_c and N = sum_c N_c in all, p_c the prior of one class, Y(0) = 0 and equal
z. Classes of one kind, and queries, can be exchanged, so the values that stay equal are: z of each common token (one
of every query) and of each distinct token of a kind; Y of a common token on the next tokens of each kind, and on the
V - N outputs that are no next token; Y of a distinct token of a class of kind c on its own next token, on the others
of kind c, on those of each other kind, and on the rest. Whether another class has the same query does not matter: Y of
a common token does not depend on it, and with it the softmax of a class. Tokens of equal probabilities have one value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from snapdyn.dynamics.class_kinds import EquivalentTokens, SymmetricClasses
from snapdyn.dynamics.classes import Ints
from snapdyn.dynamics.symmetry.quotient import Quotient, RowSums
from snapdyn.dynamics.systems.layout import Layout

NONE = -1


@dataclass(frozen=True)
class SymmetricQuotient:
    """Quotient of symmetric classes, and which of its values a value of Y is.

    Attributes
    ----------
    lists : Quotient
    sums : RowSums
    tokens : EquivalentTokens
    y_of_other_outputs : (num_slots, kinds + 1) array of int
        State value of Y of a token on the next token of another class of each kind, and on the outputs that are no
        next token; -1 where there is none.
    y_of_next_token : (num_slots,) array of int
        The same on the class's own next token, for distinct tokens; -1 for common ones.
    """

    lists: Quotient
    sums: RowSums
    tokens: EquivalentTokens
    y_of_other_outputs: Ints
    y_of_next_token: Ints

    def names(self) -> list[str]:
        """Names of the state values, for messages."""
        tokens, several = self.tokens, len(self.tokens.number) > 1
        C = self.tokens.like_common.size
        of = [f" of kind {c}" if several else "" for c in range(len(tokens.number))]
        token = [f"common token of P = {', '.join(f'{p:g}' for p in column)}" for column in tokens.common.T]
        for c, values in enumerate(tokens.distinct):
            token += [f"distinct token{of[c]}, P = {p:g}" for p in values]
        names = [f"z[{each}]" for each in token] + [""] * (self.lists.size - len(token))
        output = [f"next token{' of another class' if not several else ''}{each}" for each in of]
        for slot, each in enumerate(token):
            for c, value in enumerate(self.y_of_other_outputs[slot]):
                if value >= 0 and not names[value]:
                    which = "other output" if c == len(of) else output[c] if slot >= C else f"next token{of[c]}"
                    names[value] = f"Y[{each}, {which}]"
            if self.y_of_next_token[slot] >= 0:
                names[self.y_of_next_token[slot]] = f"Y[{each}, own next token]"
        return names


def symmetric_quotient(classes: SymmetricClasses) -> SymmetricQuotient:
    """The quotient of the mean field of symmetric classes, from z = 0 and Y = 0; kept with the classes.

    With n_y the number of copies of a value, the counts of `quotient` are: A, the tokens of the entry; B, the outputs;
    C, N_c p_c times the pairs of one class that have the value y, over n_y; D, N_c p_c / n_z.
    """
    return classes.kept.get_or_make("quotient", b"", lambda: _built(classes))


def _built(classes: SymmetricClasses) -> SymmetricQuotient:
    tokens, V, Q, N = classes.equivalent_tokens, classes.vocab_size, classes.num_queries, classes.num_classes
    kinds, num_common = len(tokens.number), tokens.like_common.size
    rest = V - N
    y_of_other_outputs = np.full((tokens.num_slots, kinds + 1), NONE)
    y_of_next_token = np.full(tokens.num_slots, NONE)
    number: list[float] = [float(Q)] * num_common  # of the state values, so far those of z
    for c, count in enumerate(tokens.number):
        number += [float(count)] * tokens.distinct[c].size

    def value(copies: float) -> int:
        number.append(float(copies))
        return len(number) - 1

    # Y of common tokens, the same for all classes.
    for slot in range(num_common):
        y_of_other_outputs[slot, :kinds] = [value(count) for count in tokens.number]
        if rest:
            y_of_other_outputs[slot, kinds] = value(1)

    ranges, own_output, entry_slot, entries, outputs, index, terms = [], [], [], [], [], [], []
    sum_rows, sum_number = [], []
    begin = np.zeros(3, np.int64)
    for c, count in enumerate(tokens.number):
        p = tokens.prior[c]
        others, column = _outputs(tokens, c, rest)
        roles = np.array([1.0, *others])
        slots, like = tokens.entries(c)
        values = np.empty((slots.size, roles.size), np.int64)
        driven = np.full(values.shape, p)
        for k, slot in enumerate(slots):
            if k < num_common:
                values[k] = [y_of_other_outputs[slot, c], *(y_of_other_outputs[slot, o] for o in column)]
                # Pairs of one class: its own next token, other classes, one column for the rest.
                pairs = [1.0, *(1.0 if o == kinds else n for o, n in zip(column, others, strict=True))]
                driven[k] = [count * p * n / number[v] for n, v in zip(pairs, values[k], strict=True)]
            else:
                y_of_next_token[slot] = value(count)
                values[k, 0] = y_of_next_token[slot]
                for i, (o, n) in enumerate(zip(column, others, strict=True)):
                    values[k, 1 + i] = value(count * (1.0 if o == kinds else n))
                    y_of_other_outputs[slot, o] = values[k, 1 + i]
                if not num_common:  # outputs of other classes are alike
                    y_of_other_outputs[slot, :kinds] = values[k, 1] if N > 1 else NONE
                    if rest == 1 and N > 1:
                        y_of_other_outputs[slot, kinds] = values[k, 1]
                sum_rows.append((values[k], roles))
                sum_number.append(count * like[k])
        shape = values.shape
        index.append(
            np.stack([*(i.ravel() for i in np.indices(shape)), values.ravel()])  # entry, output, value
        )
        terms.append(np.stack([np.broadcast_to(each, shape).ravel() for each in (like[:, None], roles, driven)]))
        slot_copies = np.array([number[slot] for slot in slots])
        probabilities = np.concatenate([tokens.common[c, :num_common], tokens.distinct[c]])
        entries.append(np.stack([np.log(probabilities), like, count * p / slot_copies]))
        entry_slot.append(slots)
        outputs.append(roles)
        own_output.append((0, -1, -1))
        end = begin + np.array([slots.size, roles.size, values.size])
        ranges.append(np.column_stack([begin, end]).ravel())
        begin = end

    for slot in range(num_common):
        held = [*tokens.number, rest] if rest else tokens.number
        sum_rows.append((y_of_other_outputs[slot, : len(held)], np.array(held, dtype=np.float64)))
        sum_number.append(tokens.like_common[slot])
    size = len(number)
    lists = Quotient(
        ranges=np.array(ranges),
        classes=np.array(own_output, dtype=np.int64),
        share=np.array([n * p for n, p in zip(tokens.number, tokens.prior, strict=True)]),
        entry_slot=np.concatenate(entry_slot).astype(np.int64),
        entries=np.concatenate(entries, axis=1),
        output_number=np.concatenate(outputs),
        term_index=np.concatenate(index, axis=1).astype(np.int64),
        terms=np.concatenate(terms, axis=1),
        start=np.zeros(size),
        number=np.array(number),
        num_slots=tokens.num_slots,
    )
    of_query = np.concatenate(
        [tokens.like_common, *(k * like for k, like in zip(tokens.per_query, tokens.like_distinct, strict=True))]
    )
    z = scipy.sparse.csr_array((of_query, np.arange(of_query.size), [0, of_query.size]), shape=(1, size))
    row_end = np.cumsum([0, *(values.size for values, _ in sum_rows)])
    column_of, weight = (np.concatenate(each) for each in zip(*sum_rows, strict=True))
    y = scipy.sparse.csr_array((weight, column_of, row_end), shape=(len(sum_rows), size))
    return SymmetricQuotient(lists, RowSums(z, y, np.array(sum_number)), tokens, y_of_other_outputs, y_of_next_token)


def _outputs(tokens: EquivalentTokens, kind: int, rest: int) -> tuple[list[float], list[int]]:
    """Outputs of a class besides its own next token: how many are alike, and their column in `y_of_other_outputs`."""
    kinds = len(tokens.number)
    others = [float(number - (c == kind)) for c, number in enumerate(tokens.number)]
    if not tokens.like_common.size:  # nothing tells the next tokens of other classes apart, nor a single other output
        alike = sum(others) + (rest == 1) if sum(others) else 0.0
        others = [alike if c == kind else 0.0 for c in range(kinds)]
        rest = 0 if rest == 1 and alike else rest
    others.append(float(rest))
    return [n for n in others if n], [c for c, n in enumerate(others) if n]


def slot_of_z(classes: SymmetricClasses, carried: SymmetricQuotient) -> Ints:
    """State value of each logit on classes.z_coordinates, (nz,)."""
    classes.require_all()
    C, slots = classes.num_common, carried.tokens.slots
    distinct = [np.tile(of[C:], kind.classes_per_query) for of, kind in zip(slots, classes.kinds, strict=True)]
    return np.tile(np.concatenate([slots[0][:C], *distinct]), classes.num_queries)


def value_of_decoder(classes: SymmetricClasses, carried: SymmetricQuotient, layout: Layout) -> Ints:
    """State value of each value of Y, (rows, columns) of the layout of all classes."""
    C, Q, N, tokens = classes.num_common, classes.num_queries, classes.num_classes, carried.tokens
    counts = [kind.classes_per_query for kind in classes.kinds]
    kind_of_class = np.tile(np.repeat(tokens.kind_of_block, counts), Q)
    widths = np.tile(np.repeat([of.size - C for of in tokens.slots], counts), Q)
    class_of_token = np.concatenate([np.zeros(C, np.int64), np.repeat(np.arange(N), widths)])
    distinct = [np.tile(of[C:], count) for of, count in zip(tokens.slots, counts, strict=True)]
    slot_of_token = np.concatenate([tokens.slots[0][:C], np.tile(np.concatenate(distinct), Q)])
    columns = np.append(kind_of_class, len(tokens.number))[: layout.num_columns]  # the last: no next token
    slots = slot_of_token[layout.row_token]
    values = carried.y_of_other_outputs[slots][:, columns]
    own = np.flatnonzero(carried.y_of_next_token[slots] >= 0)
    values[own, class_of_token[layout.row_token[own]]] = carried.y_of_next_token[slots[own]]
    return values
