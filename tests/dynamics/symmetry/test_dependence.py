"""The coarsest colouring of sums given as lists, against a refinement in plain Python on all tokens and all outputs."""

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import pytest

from snapdyn.dynamics import FiniteLengthMeanField, FrozenDecoder, ModifiedDecoder, random_classes, syn_medium
from snapdyn.dynamics.symmetry import dependence as module
from snapdyn.dynamics.symmetry.colouring import mixed
from snapdyn.dynamics.symmetry.dependence import Dependence, coarsest_colouring, has_many_equal, is_balanced
from snapdyn.dynamics.symmetry.finite_length import finite_length_dependence
from snapdyn.dynamics.symmetry.frozen_decoder import frozen_decoder_dependence
from snapdyn.dynamics.symmetry.modified_decoder import modified_decoder_dependence
from snapdyn.dynamics.systems.base import System
from tests.dynamics.symmetry.helpers import random_other

Key = Hashable


def dependence_of(system: System) -> Dependence:
    if isinstance(system, FrozenDecoder):
        return frozen_decoder_dependence(system)
    if isinstance(system, ModifiedDecoder):
        return modified_decoder_dependence(system)
    assert isinstance(system, FiniteLengthMeanField)
    return finite_length_dependence(system)


def numbered(keys: list[Key]) -> list[int]:
    """Equal keys get equal numbers, in order of appearance."""
    number: dict[Key, int] = {}
    return [number.setdefault(key, len(number)) for key in keys]


class Lists:
    """Colours by name and place, refined by comparing sorted lists; all tokens and outputs one by one."""

    def __init__(self, system: System) -> None:
        classes = self.classes = system.classes
        assert classes is not None
        assert system.z_initial is not None
        P = classes.P.toarray()
        self.prior = classes.prior.tolist()
        self.own = classes.next_token.tolist()
        self.query = classes.query_index.tolist()
        self.tokens = [np.flatnonzero(row).tolist() for row in P]
        self.P = P.tolist()
        self.z = {(q, l): system.z_initial[q, l] for q, l in np.argwhere(np.ones(system.z_initial.shape)).tolist()}
        self.outputs = range(classes.vocab_size)
        self.colour: dict[str, dict[Key, int]] = {}

    def start(self, name: str, values: dict[Key, Key]) -> None:
        self.colour[name] = dict(zip(values, numbered(list(values.values())), strict=True))

    def refine(self, name: str, sums: dict[Key, list[Key]]) -> None:
        before = self.colour[name]
        self.start(name, {place: (before[place], *sorted(sums[place])) for place in before})  # type: ignore[type-var]

    def number(self) -> int:
        return sum(len(set(each.values())) for each in self.colour.values())


def frozen_by_lists(system: FrozenDecoder) -> list[int]:
    """Colours of C, (class, output)."""
    L = Lists(system)
    inputs = {}  # of a class: (token, label)
    for n, tokens in enumerate(L.tokens):
        labels = [(l, (L.P[n][l], L.z[L.query[n], l])) for l in tokens]
        if system.residual:
            query = int(L.classes.query[n])
            labels = [(l, (*label, l == query)) for l, label in labels] + [(query, ("query",))]
        norm = tuple(sorted(map(repr, (label for _, label in labels))))
        inputs[n] = [(l, repr((label, norm))) for l, label in labels]
    L.start("C", {(n, o): o == L.own[n] for n in inputs for o in L.outputs})
    while True:
        before, C = L.number(), L.colour["C"]
        Y: dict[Key, list[Key]] = {}
        for n, tokens in inputs.items():
            for l, label in tokens:
                for o in L.outputs:
                    Y.setdefault((l, o), []).append((label, C[n, o]))
        sorted_Y = {place: tuple(sorted(each)) for place, each in Y.items()}  # type: ignore[type-var]
        W = {
            (n, o): repr(C[n, o] if system.modified else sorted((label, sorted_Y[l, o]) for l, label in inputs[n]))
            for n, o in C
        }
        whole = {n: repr((L.prior[n], sorted((W[n, o], o == L.own[n]) for o in L.outputs))) for n in inputs}
        L.refine("C", {(n, o): [(whole[n], W[n, o])] for n, o in C})
        if L.number() == before:
            last = [o for o in L.outputs if o not in L.own][:1]
            return [C[n, o] for n in inputs for o in [*L.classes.next_tokens.tolist(), *last]]


def modified_by_lists(system: ModifiedDecoder) -> list[int]:
    """Colours of the logits on the slots and of h."""
    L, S = Lists(system), len(system.classes.prior)
    moving = {(L.query[n], l) for n in range(S) for l in L.tokens[n]}
    L.start("z", {place: L.z[place] for place in moving})
    L.start("h", dict(enumerate(L.prior)))
    L.start("x", {(k, n): k == n for k in range(S) for n in range(S)})
    L.start("Y", {(l, n): 0 for _, l in moving for n in range(S)})
    holders: dict[int, list[int]] = {}
    for n in range(S):
        for l in L.tokens[n]:
            holders.setdefault(l, []).append(n)
    while True:
        before, c = L.number(), L.colour
        label = {(n, l): repr((L.P[n][l], c["z"][L.query[n], l])) for n in range(S) for l in L.tokens[n]}
        whole = {
            n: repr((c["h"][n], sorted(label[n, l] for l in L.tokens[n]), sorted(c["x"][k, n] for k in range(S))))
            for n in range(S)
        }
        f = {(n, l): (each, whole[n]) for (n, l), each in label.items()}
        L.refine("Y", {(l, n): [(f[k, l], c["x"][k, n]) for k in holders[l]] for l, n in c["Y"]})
        L.refine("x", {(k, n): [(whole[n], f[k, l], L.colour["Y"][l, n]) for l in L.tokens[k]] for k, n in c["x"]})
        drive: dict[Key, list[Key]] = {place: [] for place in moving}
        for n, l in f:
            drive[L.query[n], l].append((f[n, l], L.colour["Y"][l, n]))
        L.refine("z", drive)
        if L.number() == before:
            query, token = system.classes.z_coordinates
            place = np.unique(system.layout.slot_of_z, return_index=True)[1]
            slots = [("z", L.colour["z"][int(query[i]), int(token[i])]) for i in place]
            return numbered([*slots, *(("h", L.colour["h"][n]) for n in range(S))])


def finite_length_by_lists(system: FiniteLengthMeanField) -> list[int]:
    """Colours of the logits on the slots and of Y, row by row."""
    L, S = Lists(system), len(system.classes.prior)
    pairs = [(n, l) for n in range(S) for l in L.tokens[n]]
    moving = {(L.query[n], l) for n, l in pairs}
    L.start("z", {place: L.z[place] for place in moving})
    L.start("Y", {(l, o): 0 for l in {l for _, l in pairs} for o in L.outputs})
    L.start("f", {(n, l): L.P[n][l] for n, l in pairs})
    L.start("r", {(n, o): (L.prior[n], o == L.own[n]) for n in range(S) for o in L.outputs})
    while True:
        before, c = L.number(), L.colour
        L.refine("f", {(n, l): [(c["z"][L.query[n], l],)] for n, l in pairs})
        f, Y = L.colour["f"], c["Y"]
        whole = {n: repr(sorted(f[n, l] for l in L.tokens[n])) for n in range(S)}
        L.refine("r", {(n, o): [(whole[n], f[n, l], Y[l, o]) for l in L.tokens[n]] for n, o in c["r"]})
        r = L.colour["r"]
        L.refine("f", {(n, l): [(r[n, o], Y[l, o]) for o in L.outputs] for n, l in pairs})
        f = L.colour["f"]
        drive: dict[str, dict[Key, list[Key]]] = {"z": {p: [] for p in c["z"]}, "Y": {p: [] for p in c["Y"]}}
        for n, l in pairs:
            drive["z"][L.query[n], l].append(f[n, l])
            for o in L.outputs:
                drive["Y"][l, o].append((f[n, l], r[n, o]))
        for name in ("z", "Y"):
            L.refine(name, drive[name])
        if L.number() == before:
            query, token = system.classes.z_coordinates
            place = np.unique(system.layout.slot_of_z, return_index=True)[1]
            last = [o for o in L.outputs if o not in L.own][:1]
            columns = [*system.classes.next_tokens.tolist(), *last]
            values = [("Y", L.colour["Y"][l, o]) for l in system.layout.row_token.tolist() for o in columns]
            slots = [("z", L.colour["z"][int(query[i]), int(token[i])]) for i in place]
            return numbered([*slots, *values])


def by_lists(system: System) -> list[int]:
    if isinstance(system, FrozenDecoder):
        return numbered(list(frozen_by_lists(system)))
    if isinstance(system, ModifiedDecoder):
        return modified_by_lists(system)
    assert isinstance(system, FiniteLengthMeanField)
    return finite_length_by_lists(system)


def found(system: System, most: float | None = None) -> list[int] | None:
    """Colours of the state."""
    dependence = dependence_of(system)
    colours = coarsest_colouring(dependence, most)
    return colours and numbered([(part, c) for part in dependence.state for c in colours[part].tolist()])


# Of 3 to 12 classes and at most 60 outputs.
SEEDS = [0, 20, 25, 30, 70, 80, 95, 100, 1, 16, 26, 46, 66, 106, 136, 156, 12, 22, 27, 37, 77, 87, 117, 152,
         8, 18, 23, 43, 53, 58, 63, 108, 19, 39, 139, 144, 149, 154, 194]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_colours_are_those_of_lists(seed: int) -> None:
    """Assert the partition of a refinement that knows of no lumped tokens, shared columns or hashes."""
    system, _ = random_other(seed)
    assert found(system) == by_lists(system)


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_a_colouring_that_is_too_coarse_is_refused(seed: int) -> None:
    """Assert that merging any two colours of a part is noticed, of labels or of neighbours; and a changed start."""
    dependence = dependence_of(random_other(seed)[0])
    colours = coarsest_colouring(dependence)
    assert colours is not None
    assert is_balanced(dependence, colours)
    for part in dependence.labels:
        number = int(colours[part].max())
        for merged in range(1, number + 1):
            coarser = np.where(colours[part] == merged, 0, colours[part])
            coarser -= coarser > merged  # colours stay 0, 1, ...
            assert not is_balanced(dependence, colours | {part: coarser}), part
        label = dependence.labels[part][0].astype(float)
        members = np.bincount(colours[part])[colours[part]]
        if members.max() > 1:
            label[members.argmax()] = np.nextafter(label[members.argmax()], 2.0)
            changed = {**dependence.labels, part: [label, *dependence.labels[part][1:]]}
            assert not is_balanced(replace(dependence, labels=changed), colours), part


def test_a_collision_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that hashes that collide end in no colouring and never in a wrong one."""
    monkeypatch.setattr(module, "mixed", lambda x: mixed(x) % np.uint64(5))
    results = [(coarsest_colouring(each), each) for each in (dependence_of(random_other(s)[0]) for s in SEEDS)]
    assert None in [colours for colours, _ in results]
    assert all(colours is None or is_balanced(each, colours) for colours, each in results)


def test_the_search_gives_up() -> None:
    """Assert that the search ends at the number of colours asked for, and the look at the classes before it."""
    classes = syn_medium(3)
    systems = [
        FrozenDecoder(classes, 1.0),
        FrozenDecoder(classes, 1.0, modified=True),
        ModifiedDecoder(classes, 1.0, 1.0),
        FiniteLengthMeanField(classes, 1.0, 1.0, 1000),
    ]
    for system, size in zip(systems, (3, 2, 12, 43), strict=True):
        assert found(system, size - 1) is None
        assert len(set(found(system, size) or [])) == size
        assert has_many_equal(dependence_of(system), "class")
    assert not has_many_equal(dependence_of(FrozenDecoder(random_classes(6, 1, 3, seed=1), 1.0)), "class")
