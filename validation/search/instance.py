"""One case on which a statement can fail."""

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
    """One case on which a statement can fail: classes, rates, and how long it runs.

    Attributes
    ----------
    P : (S, M) array
        Rows proportional to P(.|n), so that round numbers stay round; every class has its own next token 0..S-1.
    query : (S,) ints
    weights : (S,) array
        Proportional to the prior p_n.
    vocab_size : int
        V, at least S.
    eta_Y, eta_Z, t_end : float
        Learning rates per batch-size-1 step; last time in such steps.
    family, seed, number : str, int, int
        Where it was drawn: family, root seed, number of the draw.
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
        """eta_Z/eta_Y."""
        return self.eta_Z / self.eta_Y

    @property
    def correlation(self) -> float:
        """|lambda_1(E)| K at z = 0; weak correlation is below 1."""
        S = self.gram.shape[0]
        return float(np.abs(np.linalg.eigvalsh(self.gram - np.eye(S))).max() * S)

    @property
    def uniform(self) -> bool:
        """Whether all classes have one weight."""
        return bool(np.ptp(self.weights) == 0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; floats keep every bit."""
        entries = asdict(self)
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in entries.items()}

    @staticmethod
    def from_dict(entries: dict[str, Any]) -> Instance:
        """Instance from `to_dict`."""
        arrays = {
            "P": np.array(entries["P"], dtype=float),
            "query": np.array(entries["query"], dtype=np.int64),
            "weights": np.array(entries["weights"], dtype=float),
        }
        return Instance(**(entries | arrays))
