"""The sums that the rate of each system takes, and their coarsest colouring, found by comparing sorted lists.

The sums go over all tokens and all outputs one by one, from P, the priors and the starting logits: nothing is hashed,
no tokens are lumped, no outputs share a column, and no code of the search for symmetries is used.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from snapdyn.dynamics import FrozenDecoder, MeanField, ModifiedDecoder
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.systems.base import System

Colours = dict[str, Ints]


class Sum(NamedTuple):
    """Values of a part take a sum: the value `owner` over products of values, each a part and the number of its value.

    `owner` and the numbers broadcast together.
    """

    part: str
    owner: Ints
    terms: Sequence[tuple[str, Ints]]


class Sums(NamedTuple):
    """The parts of a rate, each with arrays (n,) that tell its values apart from the start, and the sums over them."""

    labels: dict[str, Sequence[Floats]]
    sums: Sequence[Sum]


def numbered(keys: Iterable[Hashable]) -> list[int]:
    """Equal keys get equal numbers, in order of appearance."""
    number: dict[Hashable, int] = {}
    return [number.setdefault(key, len(number)) for key in keys]


def refined(sums: Sums) -> Colours:
    """Colours of all parts: values of one colour have equal labels and take their sums over equal colours."""
    colours = {
        part: np.array(numbered(zip(*(each.tolist() for each in labels), strict=True)))
        for part, labels in sums.labels.items()
    }
    before = 0
    while (number := sum(int(each.max()) + 1 for each in colours.values())) > before:
        before = number
        for each in sums.sums:
            own = colours[each.part]
            colours[each.part] = np.array(numbered(zip(own.tolist(), _sorted_lists(each, colours), strict=True)))
    return colours


def _sorted_lists(each: Sum, colours: Colours) -> list[bytes]:
    """For every value of the part the sorted list of the colours that its sum is taken over."""
    code: Ints = np.zeros(1, np.int64)
    for part, index in each.terms:
        code = code * (colours[part].max() + 1) + colours[part][index]
    owner, code = (array.ravel() for array in np.broadcast_arrays(each.owner, code))
    ends = np.cumsum(np.bincount(owner, minlength=colours[each.part].size))
    return [values.tobytes() for values in np.split(code[np.lexsort((code, owner))], ends[:-1])]


def sums_of(system: System) -> Sums:
    """The sums of the rate of `system`."""
    if isinstance(system, FrozenDecoder):
        return _frozen_decoder(system)
    return _modified_decoder(system) if isinstance(system, ModifiedDecoder) else _mean_field(system)


class _Tokens:
    """The pairs (class, token) with P > 0, and the numbers of all values.

    With the residual connection the query token of every class is one more pair, of no weight and no logit.
    """

    def __init__(self, system: System) -> None:
        classes, z = system.classes, system.z_initial
        assert classes is not None
        assert z is not None
        P = classes.P.toarray()
        of, token = np.nonzero(P)
        self.S, self.V, self.prior = P.shape[0], classes.vocab_size, classes.prior
        self.rows = max(P.shape[1], int(classes.query.max()) + 1)
        self.logit, self.z = classes.query_index[of] * z.shape[1] + token, z.ravel()  # of the contextual tokens
        self.own = 1.0 * (np.arange(self.V) == classes.next_token[:, None]).ravel()
        self.of, self.token, self.labels = of, token, [P[of, token]]
        if not isinstance(system, ModifiedDecoder) and system.residual:  # type: ignore[attr-defined]
            self.of, self.token = np.append(of, np.arange(self.S)), np.append(token, classes.query)
            is_query = 1.0 * (token == classes.query[of])
            self.labels = [np.append(P[of, token], np.zeros(self.S)), np.append(is_query, np.full(self.S, 2.0))]
        self.entry = np.arange(self.of.size)
        self.contextual = self.entry[: of.size]


def _places(rows: Ints, width: int) -> Ints:
    """Numbers of the values of whole rows of a table of `width` columns."""
    return rows[:, None] * width + np.arange(width)


def _frozen_decoder(system: FrozenDecoder) -> Sums:
    """C' = eta_Y p_n (e_n - alpha_n), with the logits F^T F C (C in the modified flow)."""
    t = _Tokens(system)
    classes, C = np.arange(t.S)[:, None], _places(np.arange(t.S), t.V)
    outputs = [Sum("C", C, [("class", classes)]), Sum("class", classes, [("C", C)])]
    labels: dict[str, Sequence[Floats]] = {"class": [t.prior], "C": [t.own]}
    if system.modified:
        return Sums(labels, outputs)
    entry, left, right = t.entry, _places(t.of, t.V), _places(t.token, t.V)
    start = np.append(t.z[t.logit], np.zeros(entry.size - t.contextual.size))  # the logits stay as they are
    inputs = [
        Sum("class", t.of, [("entry", entry)]),
        Sum("entry", entry, [("class", t.of)]),
        Sum("Y", right, [("entry", entry[:, None]), ("C", left)]),
        Sum("C", left, [("entry", entry[:, None]), ("Y", right)]),
    ]
    return Sums({**labels, "entry": [*t.labels, start], "Y": [np.zeros(t.rows * t.V)]}, [*inputs, *outputs])


def _modified_decoder(system: ModifiedDecoder) -> Sums:
    """Eq. (10), from the columns x of the inverse of G = F^T F: Y = F x, and G x = F^T Y."""
    t = _Tokens(system)
    of, token, entry, S = t.of, t.token, t.entry, t.S
    classes, x = np.arange(S), _places(np.arange(S), S)  # x: (k, n)
    left, right = _places(of, S), _places(token, S)
    labels = {
        "z": [t.z], "h": [t.prior], "class": [t.prior], "entry": t.labels,
        "x": [np.eye(S).ravel()], "Y": [np.zeros(t.rows * S)],
    }  # fmt: skip
    sums = [
        Sum("entry", entry, [("z", t.logit)]),
        Sum("class", of, [("entry", entry)]),
        Sum("class", classes, [("h", classes)]),
        Sum("entry", entry, [("class", of)]),
        Sum("x", x, [("class", classes[:, None])]),
        Sum("x", x, [("class", classes)]),
        Sum("Y", right, [("entry", entry[:, None]), ("x", left)]),
        Sum("x", left, [("entry", entry[:, None]), ("Y", right)]),
        Sum("class", classes, [("x", x)]),
        Sum("entry", entry, [("Y", token * S + of)]),
        Sum("z", t.logit, [("entry", entry)]),
    ]
    return Sums(labels, sums)


def _mean_field(system: System) -> Sums:
    """The mean field: f, a = Y^T f and Y (e_n - alpha_n). The second order of finite sequences takes the same sums."""
    t = _Tokens(system)
    classes, entry = np.arange(t.S)[:, None], t.entry
    outputs, left, right = _places(np.arange(t.S), t.V), _places(t.of, t.V), _places(t.token, t.V)
    labels = {
        "z": [t.z], "Y": [np.zeros(t.rows * t.V)], "class": [t.prior], "entry": t.labels, "output": [t.own],
    }  # fmt: skip
    sums = [
        Sum("entry", t.contextual, [("z", t.logit)]),
        Sum("class", t.of, [("entry", entry)]),
        Sum("entry", entry, [("class", t.of)]),
        Sum("output", outputs, [("class", classes)]),
        Sum("output", left, [("entry", entry[:, None]), ("Y", right)]),
        Sum("class", classes, [("output", outputs)]),
        Sum("entry", entry[:, None], [("output", left), ("Y", right)]),
        Sum("Y", right, [("entry", entry[:, None]), ("output", left)]),
        Sum("z", t.logit, [("entry", t.contextual)]),
    ]
    return Sums(labels, sums)


def coarsest(system: System) -> list[int]:
    """Colours of the values of the state for all tokens and outputs, in the order of `every_value`."""
    assert system.classes is not None
    colours, (query, token) = refined(sums_of(system)), system.classes.z_coordinates
    if isinstance(system, FrozenDecoder):
        return numbered(colours["C"].tolist())
    assert system.z_initial is not None
    z = colours["z"][query * system.z_initial.shape[1] + token].tolist()
    if isinstance(system, ModifiedDecoder):
        rest = colours["h"].tolist()
    else:
        t = _Tokens(system)
        rest = colours["Y"][_places(np.unique(t.token), t.V)].ravel().tolist()
    return numbered([*(("z", c) for c in z), *(("rest", c) for c in rest)])


def every_value(system: System, state: Floats) -> list[float]:
    """C, or z and h, or z and Y, for all tokens and outputs from one value for each that the state lumps.

    These are C (S, V); z by `classes.z_coordinates` and h (S,); or z and Y (tokens that occur, V).
    """
    classes = system.classes
    assert classes is not None
    column = np.full(classes.vocab_size, classes.next_tokens.size)
    column[classes.next_tokens] = np.arange(classes.next_tokens.size)
    if isinstance(system, FrozenDecoder):
        return state.reshape(classes.num_classes, -1)[:, column].ravel().tolist()
    assert isinstance(system, MeanField | ModifiedDecoder)
    L = system.layout
    z, rest = state[: L.num_slots][L.slot_of_z], state[L.num_slots :]
    if isinstance(system, MeanField):
        rows = L.row_of_token[np.unique(_Tokens(system).token)]
        rest = rest.reshape(L.num_rows, -1)[rows][:, column].ravel()
    return [*z.tolist(), *rest.tolist()]
