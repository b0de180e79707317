"""Reduced systems, with one value in place of all that stay equal: for declared kinds, or kinds found in the table."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from snapdyn.core.memory import affords
from snapdyn.dynamics.classes.kinds import Kinds, recognised
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.systems.base import ConservedSum, System
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder
from snapdyn.dynamics.systems.quotient import bytes_of_quotient, places_of_outputs

# "auto" looks for kinds in systems of at least this many state values: below, a run takes about as long as the search.
# It keeps a reduction to at most half of the values and of the classes.
LEAST_SIZE, LARGEST_SHARE = 1000, 0.5


def is_reducible(system: System) -> bool:
    """Whether the class of a system declares itself `reducible`; a subclass may change the right-hand side."""
    return bool(vars(type(system)).get("reducible"))


def is_large(system: System) -> bool:
    """Whether a run takes longer than a search for kinds."""
    # An evaluation of Eq. (10) works on the inverse of G.
    inverse = system.classes.num_classes**2 if isinstance(system, ModifiedDecoder) else 0
    return max(system.size, inverse) >= LEAST_SIZE


def kinds_of(system: Any, most: float, asked: bool) -> Kinds | None:
    """Kinds of the classes for the start of a system, kept with the classes; None if there are more than `most`."""
    classes = system.classes
    if getattr(system, "residual", False) and np.isin(classes.queries, classes.P.indices).any():
        return None
    if isinstance(classes, SymmetricClasses) and not system.start_key:
        return classes.exchangeable if classes.exchangeable.number.size <= most else None
    found: Kinds | None = classes.kept.get_or_make(
        ("kinds", most), system.start_key, lambda: recognised(classes, system.z_initial, most, asked)
    )
    return found


def reduced(system: System, at_most: float | None = None) -> System | None:
    """The system with one value in place of all values that stay equal.

    Parameters
    ----------
    system : System
    at_most : float, optional
        Largest allowed ratio of the number of state values to that of the full system, and of the number of kinds to
        that of classes (for a ModifiedDecoder, of the work for the inverse of G). None: there must be fewer state
        values, and fewer kinds than classes.

    Returns
    -------
    System or None
        A system of the same observables, whose `on_kinds` made it.
        None for a system whose class is not `reducible`, and for one with no symmetries or too few. The result is
        kept with the system for each `at_most`, so that a second run does not search again.

    Raises
    ------
    InputError
        Without `at_most`: the arrays of the kinds do not fit into memory.
    """
    if not is_reducible(system) or (isinstance(system, FrozenDecoder) and system.modified):
        return None
    if at_most not in system.reductions:
        found = _found(system, at_most)
        most = system.size - 1.0 if at_most is None else at_most * system.size
        system.reductions[at_most] = found if found is not None and found.size <= most else None
    kept: System | None = system.reductions[at_most]
    return kept


def _found(system: Any, at_most: float | None) -> System | None:
    asked, S = at_most is None, system.classes.num_classes
    most = S - 1.0 if at_most is None else S * at_most
    if isinstance(system, ModifiedDecoder) and at_most is not None:
        most = S * at_most ** (1 / 3)
    kinds = kinds_of(system, most, asked)
    if kinds is None:
        return None
    what = f"the values of {kinds.number.size} kinds of classes"
    if not affords(what, bytes_of_quotient(kinds, getattr(system, "residual", False)), "reduce=False", asked):
        return None
    if isinstance(system, FrozenDecoder):
        return FrozenDecoderOnKinds(system, kinds) if all(own.like.size for own in kinds.own) else None
    small: System = system.on_kinds(kinds)
    return small


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
