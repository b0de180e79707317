"""Instances: the cases on which a statement is tested, drawn by a search or given by a user."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.core import memory
from snapdyn.core.errors import (
    InputError,
    finite_array,
    fraction,
    instance,
    positive,
    positive_array,
    text,
    whole,
    whole_array,
)
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.integration.request import LATEST_TIME
from snapdyn.dynamics.rules import DescentRule, GradientDescent, Optimizer, optimizer_as_json, rules_of_layers

ARRAYS = {"P": float, "query": np.int64, "weights": float, "next_token": np.int64, "start": float}


# Logits grow as eta_Y eta_Z t^2 at first, and rates, times and logits are squared and multiplied: no product may come
# near the smallest or the largest float64, 2e-308 and 2e308.
SMALLEST_GROWTH, LARGEST_GROWTH = 1e-200, 1e200
ROUNDING = 4 * float(np.finfo(float).eps)  # of a probability that was computed


@dataclass(frozen=True, eq=False)
class Instance:
    """One case on which a statement is tested: classes, rates, duration, start and noise.

    Attributes
    ----------
    P : (S, M) array
        Rows proportional to P(.|n). They need not sum to 1, so they can hold round numbers.
    query : (S,) array of int
        Query of each class.
    weights : (S,) array
        Numbers proportional to the prior p_n.
    vocab_size : int
        V, larger than every next token.
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
    next_token : (S,) array of int or None
        Next token of each class; None: class n has next token n.
    start : (Q, M) array or None
        Attention logits at t = 0; None: 0.
    seq_len : int or None
        Number of contextual tokens T-1; None: infinite.
    momentum : float
        Heavy-ball momentum mu: the flows run on the clock t/(1-mu).
    solver : str
        Method of `integrate` for the flows; empty: its default method.
    optimizer : rule, pair of rules or None
        Rule of descent, or (rule of Y, rule of z), which `rules` gives as a pair; times then count its updates. None:
        gradient descent with `momentum`, and so is a `GradientDescent` of both layers.

    Raises
    ------
    InputError
        A number is not valid, or a shape is wrong.

    Examples
    --------
    >>> import snapdyn as sd
    >>> instance = sd.Instance.of(sd.syn_small(), eta_Y=1.0, eta_Z=0.1, t_end=100.0)
    >>> instance.num_classes, instance.vocab_size, round(instance.correlation, 2)
    (2, 34, 1.44)
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
    next_token: Ints | None = None
    start: Floats | None = None
    seq_len: int | None = None
    momentum: float = 0.0
    solver: str = ""
    optimizer: Optimizer | None = None
    # Runs of this instance by what was asked for, so that several statements share one.
    runs: dict[Any, Any] = field(default_factory=dict, repr=False, init=False)

    def __post_init__(self) -> None:
        def store(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        store("P", finite_array("P", self.P, ("S", "M"), at_least=0.0, advice="give a row of probabilities per class"))
        positive_array("the sum of each row of P", self.P.sum(axis=1))
        S = len(self.P)
        advice = "give one entry per row of P"
        store("query", whole_array("query", self.query, (S,), advice=advice))
        store("weights", positive_array("weights", self.weights, (S,), advice=advice))
        if self.next_token is not None:
            store("next_token", whole_array("next_token", self.next_token, (S,), advice=advice))
        for name in ("eta_Y", "eta_Z", "t_end"):
            store(name, positive(name, getattr(self, name)))
        store("vocab_size", whole("vocab_size", self.vocab_size, 2))
        for name in ("family", "solver"):
            text(name, getattr(self, name))
        for name in ("seed", "number"):
            store(name, whole(name, getattr(self, name), 0))
        if self.start is not None:
            shape = (np.unique(self.query).size, self.P.shape[1])
            store("start", finite_array("start", self.start, shape, advice="give a row per query, (Q, M)"))
        if self.seq_len is not None:
            store("seq_len", whole("seq_len", self.seq_len, 1))
        store("momentum", fraction("momentum", self.momentum))
        if self.optimizer is not None:
            of_Y, of_z = rules_of_layers(self.optimizer, self.momentum)
            is_plain = of_Y == of_z and isinstance(of_Y, GradientDescent)
            store("momentum", of_Y.momentum if is_plain else 0.0)  # type: ignore[attr-defined]
            store("optimizer", None if is_plain else (of_Y, of_z))
            if self.rules and self.seq_len is not None:
                raise InputError(
                    f"expected seq_len=None with optimizer={optimizer_as_json(self.rules)!r}, received {self.seq_len}; "
                    "leave it out: the mean map of a rule is that of infinitely long sequences"
                )

    @property
    def rules(self) -> tuple[DescentRule, DescentRule] | None:
        """Rules of Y and of z; None for gradient descent with one momentum."""
        return self.optimizer  # type: ignore[return-value]

    @staticmethod
    def of(
        classes: SequenceClasses,
        eta_Y: float,
        eta_Z: float,
        t_end: float,
        start: ArrayLike | None = None,
        seq_len: int | None = None,
        momentum: float = 0.0,
        optimizer: Optimizer | None = None,
    ) -> Instance:
        """Instance of a user's classes; arguments as the attributes."""
        instance("classes", classes, SequenceClasses, "build them with sd.SequenceClasses(P, query)")
        require_dense(classes)
        made = Instance(
            P=classes.P.toarray(),
            query=classes.query,
            weights=classes.prior,
            vocab_size=classes.vocab_size,
            eta_Y=eta_Y,
            eta_Z=eta_Z,
            t_end=t_end,
            family="your classes",
            next_token=classes.next_token,
            start=None if start is None else classes.check_z(start),
            seq_len=seq_len,
            momentum=momentum,
            optimizer=optimizer,
        )
        _require_resolvable(made)
        made.__dict__["classes"] = classes
        return made

    @cached_property
    def classes(self) -> SequenceClasses:
        """The sequence classes of the instance."""
        P = self.P / self.P.sum(axis=1, keepdims=True)
        return SequenceClasses(
            P, self.query, next_token=self.next_token, prior=self.weights, vocab_size=self.vocab_size
        )

    @cached_property
    def disturbed(self) -> Instance:
        """The instance with probabilities changed by rounding at random, so that no two classes are equal."""
        noise = np.random.default_rng(self.num_classes).standard_normal(self.P.shape)
        return replace(self, P=self.P * (1 + ROUNDING * noise))

    @cached_property
    def gram(self) -> Floats:
        """Gram matrix of f_n at the start, (S, S), by plain linear algebra, diagonal exactly 1."""
        weights = self.P
        if self.start is not None:
            weights = weights * np.exp(self.start[self.classes.query_index])
        f = weights / np.linalg.norm(weights, axis=1, keepdims=True)
        G = f @ f.T
        np.fill_diagonal(G, 1.0)
        return G

    @cached_property
    def eigenvalues(self) -> Floats:
        """Eigenvalues of the Gram matrix at the start, increasing, (S,)."""
        return np.asarray(np.linalg.eigvalsh(self.gram))

    @property
    def overlaps(self) -> Floats:
        """E = F^T F - I at the start, (S, S), diagonal exactly 0."""
        return self.gram - np.eye(self.num_classes)

    @property
    def of_one_class(self) -> NDArray[np.bool_]:
        """Whether a token occurs in one class alone, (M,)."""
        return np.count_nonzero(self.P, axis=0) == 1

    @property
    def setting(self) -> tuple[SequenceClasses, float, float]:
        """Classes, eta_Y and eta_Z: what systems, rungs and training take first."""
        return self.classes, self.eta_Y, self.eta_Z

    @property
    def num_classes(self) -> int:
        """Number of classes S, which is K where every class has its own next token."""
        return len(self.P)

    @cached_property
    def prior(self) -> Floats:
        """p_n (S,)."""
        return self.weights / self.weights.sum()

    @property
    def ratio(self) -> float:
        """Ratio of the learning rates, eta_Z/eta_Y."""
        return self.eta_Z / self.eta_Y

    @property
    def flow_rates(self) -> tuple[float, float]:
        """eta_Y and eta_Z of the flows per batch-size-1 step: momentum mu multiplies both by 1/(1-mu)."""
        return self.eta_Y / (1 - self.momentum), self.eta_Z / (1 - self.momentum)

    @property
    def horizon(self) -> float:
        """eta_Y t at the end."""
        return self.eta_Y * self.t_end

    @property
    def correlation(self) -> float:
        """|lambda_1(E)| K at the start; weak correlation is below 1."""
        return float(np.abs(self.eigenvalues - 1).max() * self.num_classes)

    @property
    def uniform(self) -> bool:
        """Whether all classes have the same weight."""
        return bool(np.ptp(self.weights) <= 1e-12 * self.weights.max())

    @property
    def own_next_tokens(self) -> bool:
        """Whether no two classes share a next token."""
        return self.next_token is None or np.unique(self.next_token).size == self.num_classes

    def only(self, kept: Ints) -> Instance:
        """Instance of the classes `kept` and the tokens that occur in them."""
        P = self.P[kept]
        occurs = P.any(axis=0)
        start, next_token = self.start, self.next_token
        if start is not None:
            start = start[np.unique(self.classes.query_index[kept])][:, occurs]
        if next_token is not None:
            next_token = np.unique(next_token[kept], return_inverse=True)[1]
        return replace(
            self,
            P=P[:, occurs],
            query=np.unique(self.query[kept], return_inverse=True)[1].astype(np.int64),
            weights=self.weights[kept],
            next_token=next_token,
            start=start,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; floats keep every bit, and entries at their default are left out."""
        entries = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name == "optimizer" and self.rules:
                entries[entry.name] = optimizer_as_json(self.rules)
            elif isinstance(value, np.ndarray):
                entries[entry.name] = value.tolist()
            elif entry.name != "runs" and value is not None and value != entry.default:
                entries[entry.name] = value
        return entries

    @staticmethod
    def from_dict(entries: dict[str, Any]) -> Instance:
        """Instance with the entries of `to_dict`."""
        arrays = {
            name: np.array(entries[name], dtype=kind) for name, kind in ARRAYS.items() if entries.get(name) is not None
        }
        return Instance(**(entries | arrays))


def _require_resolvable(instance: Instance) -> None:
    """Raise InputError for rates and a duration whose logits float64 does not hold."""
    t_end, growth = instance.t_end, instance.horizon * (instance.eta_Z * instance.t_end)
    if not (max(instance.horizon, t_end) <= LATEST_TIME and SMALLEST_GROWTH <= growth <= LARGEST_GROWTH):
        raise InputError(
            f"expected t_end and eta_Y t_end of at most {LATEST_TIME:g}, and eta_Y eta_Z t_end^2 from "
            f"{SMALLEST_GROWTH:g} to {LARGEST_GROWTH:g}, received t_end = {t_end:g}, eta_Y = {instance.eta_Y:g}, "
            f"eta_Z = {instance.eta_Z:g}; choose rates and a last time nearer to 1"
        )


def require_dense(classes: SequenceClasses) -> None:
    """Check that classes are few enough for the dense linear algebra of statements.

    Raises
    ------
    InputError
        The table P or the overlaps of the classes take more than the free memory; the message says how many classes
        fit.
    """
    S, M = classes.num_classes, classes.num_tokens
    widest = max(S, M)
    size, free = 8.0 * S * widest, memory.free_memory()
    if size > memory.ALWAYS_FREE and size > free:
        raise InputError(
            f"expected classes whose dense table and overlaps fit into the free memory of {free / 2**30:.3g} GiB, at "
            f"most about {int(S * math.sqrt(free / size))} of these classes, received {S} classes and {M} tokens; use "
            "fewer classes or tokens"
        )
