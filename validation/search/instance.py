"""Instances: cases on which a search tests a statement."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Instance:
    """One case on which a statement is tested: classes, rates and duration.

    Attributes
    ----------
    P : (S, M) array
        Rows proportional to P(.|n): rows that need not sum to 1 can hold round numbers. The next token of class n is n.
    query : (S,) array of int
        Query of each class.
    weights : (S,) array
        Numbers proportional to the prior p_n.
    vocab_size : int
        V, at least S.
    eta_Y : float
        Learning rate of the decoder, per batch-size-1 step.
    eta_Z : float
        Learning rate of attention, per batch-size-1 step.
    t_end : float
        Last time, batch-size-1 steps.
    family : str
        Family from which the instance was drawn.
    seed : int
        Root seed of the draw.
    number : int
        Number of the draw.
    """

    P: Floats
    query: Ints
    weights: Floats
    vocab_size: int
    eta_Y: float
    eta_Z: float
    t_end: float
    family: str = ""
    seed: int = 0
    number: int = 0

    @cached_property
    def classes(self) -> SequenceClasses:
        """The sequence classes of the instance."""
        P = self.P / self.P.sum(axis=1, keepdims=True)
        return SequenceClasses(P, self.query, weights=self.weights, vocab_size=self.vocab_size)

    @cached_property
    def gram(self) -> Floats:
        """Gram matrix of f_n at z = 0, (S, S), by plain linear algebra, diagonal exactly 1."""
        f = self.P / np.linalg.norm(self.P, axis=1, keepdims=True)
        G = f @ f.T
        np.fill_diagonal(G, 1.0)
        return G

    @property
    def ratio(self) -> float:
        """Ratio of the learning rates, eta_Z/eta_Y."""
        return self.eta_Z / self.eta_Y

    @property
    def correlation(self) -> float:
        """|lambda_1(E)| K at z = 0; weak correlation is below 1."""
        S = self.gram.shape[0]
        return float(np.abs(np.linalg.eigvalsh(self.gram - np.eye(S))).max() * S)

    @property
    def uniform(self) -> bool:
        """Whether all classes have the same weight."""
        return bool(np.ptp(self.weights) == 0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; floats keep every bit."""
        entries = asdict(self)
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in entries.items()}

    @staticmethod
    def from_dict(entries: dict[str, Any]) -> Instance:
        """Instance with the entries of `to_dict`."""
        arrays = {
            "P": np.array(entries["P"], dtype=float),
            "query": np.array(entries["query"], dtype=np.int64),
            "weights": np.array(entries["weights"], dtype=float),
        }
        return Instance(**(entries | arrays))
