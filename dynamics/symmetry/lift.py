"""From the values of symmetric classes to those of all classes, one by one."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.classes import Ints
from snapdyn.dynamics.symmetry.symmetric_quotient import SymmetricQuotient
from snapdyn.dynamics.systems.layout import Layout


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
    values = carried.on_others[slots][:, columns]
    own = np.flatnonzero(carried.on_own[slots] >= 0)
    values[own, class_of_token[layout.row_token[own]]] = carried.on_own[slots[own]]
    return values
