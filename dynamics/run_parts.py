"""Parts of a trajectory: located events, logits that are made when they are read, decoder logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from snapdyn.dynamics.classes import Floats, Ints


@dataclass(frozen=True)
class EventRecord:
    """A located event.

    Attributes
    ----------
    name : str
    t : float
        In batch-size-1 steps.
    z_support : (nz,) array
        Attention logits at that time; empty for a system without attention logits.
    state : (size,) array or None
        State at that time, for a system without attention logits.
    z_values : (num_slots,) array or None
        For a run of symmetric classes: one logit for all that stay equal; see `Trajectory.of_class`. More classes than
        are listed one by one (`SymmetricClasses.is_large`) have an empty `z_support`.
    """

    name: str
    t: float
    z_support: Floats
    state: Floats | None = None
    z_values: Floats | None = None


@dataclass(frozen=True)
class Lifted:
    """Logits of a run on one value for all that stay equal; those of all classes are made when they are read.

    Attributes
    ----------
    values : (N, size) array
    index : (nz,) array of int
        The value of each logit.
    """

    values: Floats
    index: Ints

    def made(self) -> Floats:
        """All logits, (N, nz)."""
        return self.values.take(self.index, axis=-1)


class Decoder(NamedTuple):
    """Decoder logits of a run.

    Attributes
    ----------
    Y : (N, rows, columns) array
    rows : (tokens,) array of int
        Row of Y for each token id, -1 for a token that has none.
    outputs : (columns,) array of int
        Output id of each column; -1 stands for every output that is no class's next token.
    """

    Y: Floats
    rows: Ints
    outputs: Ints
