"""A system of one value per colour of another system, which looks like that system."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.kernels.balance import first_members
from snapdyn.dynamics.systems.base import ConservedSum, System

NUMBERS_AT_ONCE = 1_000_000  # of full states, while observables are lifted (8 MB)


class ReducedSystem(System):
    """One value for all values of the full system that stay equal; observables are those of the full state.

    A subclass adds the right-hand side, on states ordered by colour.

    Parameters
    ----------
    full : System
    colour : (full.size,) array
        Colours 0, 1, ... of its state.
    """

    def __init__(self, full: System, colour: Ints) -> None:
        self.full, self.colour = full, colour
        self.classes, self.z_initial, self.parameters = full.classes, full.z_initial, full.parameters
        self.eta_Y = full.eta_Y
        number = np.bincount(colour)
        self.size = number.size
        self.first = np.empty(self.size, np.int64)  # the first value of each colour
        first_members(colour, self.first)
        # Share of each state value in mean squares over the full state, which decide on a step.
        self.norm_weights = number / number.sum()

    @property
    def name(self) -> str:
        return self.full.name

    @property
    def rate_ratio(self) -> float:
        return self.full.rate_ratio

    def initial_state(self) -> Floats:
        return self.full.initial_state()[self.first]

    def full_state(self, state: Floats) -> Floats:
        return state.take(self.colour, axis=-1)

    def value_name(self, index: int) -> str:
        return self.full.value_name(int(self.first[index]))

    def decoder(self, state: Floats) -> Floats:
        return self.full.decoder(self.full_state(state))

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.full.decoder_ids()

    def invariants(self, state: Floats) -> dict[str, Floats]:
        return _joined([self.full.invariants(each) for each in self._blocks(state)])

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        blocks = [self.full.conserved_sums(each) for each in self._blocks(state)]
        scales = _joined([{name: each.scale for name, each in block.items()} for block in blocks])
        return {name: each._replace(scale=scales[name]) for name, each in blocks[0].items()}

    def extra(self, state: Floats) -> dict[str, Floats]:
        return _joined([self.full.extra(each) for each in self._blocks(state)])

    def _blocks(self, state: Floats) -> Iterator[Floats]:
        """Full states of some of the states at a time, as many as fit into a small array."""
        if state.ndim == 1:
            yield self.full_state(state)
            return
        at_once = max(1, NUMBERS_AT_ONCE // self.colour.size)
        for i in range(0, max(1, len(state)), at_once):
            yield self.full_state(state[i : i + at_once])


def _joined(blocks: list[dict[str, Floats]]) -> dict[str, Floats]:
    if len(blocks) == 1:
        return blocks[0]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
