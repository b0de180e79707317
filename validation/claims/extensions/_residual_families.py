"""Families for the claim on the residual connection: query tokens outside the context, tokens that it turns round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.extensions._shared import (
    attention_vectors,
    drift_by_beta,
    exact_beta,
    residual_beta,
    same_query,
)
from snapdyn.validation.properties import Requirement
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.search import Family, Instance

# A token's drift at the start, over the largest, from which its final logit follows the drift's sign.
CLEAR_PULL = 0.3


@dataclass(frozen=True)
class SeparateQueriesFamily(Family):
    """A family whose query tokens are not among the contextual tokens."""

    def __str__(self) -> str:
        return f"{super().__str__()}, query tokens outside the context"

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
        instance = super().draw(seed, number)
        return replace(instance, query=instance.query + instance.P.shape[1])


def strength(f: Floats) -> float:
    """|lambda_1(E)|."""
    return float(np.abs(np.linalg.eigvalsh(f @ f.T - np.eye(len(f)))).max())


def local_pull(instance: Instance) -> Floats:
    """Drift at the start over the largest |drift|, (S, M), of tokens that the residual connection turns round.

    By the modified flow with the residual connection. -inf for all tokens but those that are shared only with classes
    of other queries and whose drift without the residual connection is negative.
    """
    f, query = attention_vectors(instance), instance.query
    drift = drift_by_beta(f, exact_beta(residual_beta(f, query), instance.vocab_size))
    without = drift_by_beta(f, exact_beta(np.eye(len(f)) - np.linalg.inv(f @ f.T), instance.vocab_size))
    occurs = (instance.P > 0).astype(float)
    shared = (occurs > 0) & (occurs.sum(axis=0) > 1) & (same_query(query) @ occurs == 1)
    return np.where(shared & (without < 0), drift / max(float(np.abs(drift).max()), 1e-300), -np.inf)


def largest_pull(instance: Instance) -> float:
    return max(float(local_pull(instance).max()), -1.0)


CLEAR = Requirement(
    "a clear pull of the own query",
    f"drift of such a token at the start, by the modified flow with the residual, over the largest >= {CLEAR_PULL:g}",
    largest_pull,
    at_least=CLEAR_PULL,
)
MODERATE_OVERLAP = Requirement(
    "moderate overlap", "|lambda_1(E)| <= 0.5", lambda i: strength(attention_vectors(i)), at_most=0.5
)


class TurnedFamily(SeparateQueriesFamily):
    """Instances with a token that the residual connection turns round, as far as DRAWS draws give one.

    Two of three have a moderate overlap, which is rare otherwise.
    """

    DRAWS = 500

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
        wanted = (INDEPENDENT_ATTENTION, CLEAR, *((MODERATE_OVERLAP,) if number % 3 else ()))
        for k in range(self.DRAWS):
            instance = super().draw(seed, self.DRAWS * number + k)
            if all(condition.on(instance).satisfied for condition in wanted):
                break
        return replace(instance, number=number)
