"""What the claims of this chapter share: families with start logits or with query tokens of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.search import Family, Instance

# Error of a logit over the largest one: some hundred steps at rtol 1e-8.
RUN_ERROR = 1e-6
# Largest difference of two paths relative to the movement that counts as none.
SAME_PATH = 1e-4


def run_error(instance: Instance, largest: float) -> float:
    """Error of a logit of a run, absolute; `largest` is the run's largest |z|.

    An error of the decoder Y of rtol across f drives z at the rate eta_Z until eta_Y has removed it: a factor
    eta_Z/eta_Y where that is above 1.
    """
    return RUN_ERROR * max(1.0, instance.ratio) * largest


@dataclass(frozen=True)
class StartedFamily(Family):
    """A family whose instances start from normal logits z(0).

    Attributes
    ----------
    start : (float, float)
        Range of the standard deviation of z(0), uniform in the logarithm.
    """

    start: tuple[float, float] = (0.01, 3.0)

    def __str__(self) -> str:
        return f"{super().__str__()}, z(0) normal with standard deviation {self.start[0]:g} to {self.start[1]:g}"

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
        instance = super().draw(seed, number)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1)))
        size = np.exp(rng.uniform(*np.log(self.start)))
        shape = np.unique(instance.query).size, instance.P.shape[1]
        return replace(instance, start=size * rng.normal(size=shape))


def reweighted(classes: SequenceClasses, z0: Floats) -> SequenceClasses:
    """The classes with P(l|n) exp(z0[psi(n), l]), normalised, in place of P(l|n)."""
    P = classes.P.toarray() * np.exp(z0[classes.query_index])
    return SequenceClasses(
        P / P.sum(axis=1, keepdims=True), classes.query, classes.next_token, classes.prior, classes.vocab_size
    )


# Residual connection: attention vectors f (S, M), query of each class (S,), decoder inputs (f_n + e_psi(n))/sqrt(2).

# Tokens 0 and 1 are shared by the two classes of query 0 and of query 1; 2 by classes 0 and 2, 3 by classes 1 and 3:
# common in the whole, distinct among the classes of their query.
LOCAL, ACROSS = (0, 1), (2, 3)


def two_queries(local: float, across: float, vocab_size: int, num_distinct: int = 3) -> SequenceClasses:
    """Two queries with two classes each; probability `local` of a token shared within the query, `across` between."""
    M = 4 + 4 * num_distinct
    P = np.zeros((4, M))
    weights = np.linspace(0.5, 1, num_distinct)
    for n in range(4):
        P[n, LOCAL[n // 2]], P[n, ACROSS[n % 2]] = local, across
        P[n, 4 + n * num_distinct : 4 + (n + 1) * num_distinct] = (1 - local - across) * weights / weights.sum()
    return SequenceClasses(P, [M, M, M + 1, M + 1], M + 2 + np.arange(4), vocab_size=vocab_size)


def attention_vectors(instance: Instance) -> Floats:
    """Unit vectors f_n at the start (S, M), by plain linear algebra."""
    weights = instance.P
    if instance.start is not None:
        weights = weights * np.exp(instance.start[np.unique(instance.query, return_inverse=True)[1]])
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def same_query(query: Ints) -> Floats:
    """1 for classes of one query, else 0, (S, S)."""
    return np.asarray((query[:, None] == query[None, :]).astype(float))


def residual_beta(f: Floats, query: Ints) -> Floats:
    """E' of the decoder inputs, (S, S): beta to leading order where query tokens are not attended."""
    return np.asarray(np.eye(f.shape[0]) - np.linalg.inv((f @ f.T + same_query(query)) / 2))


def plain_beta(f: Floats, query: Ints) -> Floats:
    """E' of the decoder inputs without the term of the query, f_n.f_k/2 for n != k."""
    return np.asarray(np.eye(len(f)) - np.linalg.inv((f @ f.T + np.eye(len(f))) / 2))


def exact_beta(E_prime: Floats, vocab_size: int) -> Floats:
    """beta_nk = q1 E'_kn - q0 (1 - sum_{j != n} E'_kj) (S, S) with 0 on the diagonal; equal h."""
    V = float(vocab_size)
    q1, q0 = V / (V - 1), -V / (V - 1) ** 2
    beta = q1 * E_prime.T - q0 * (1 - (E_prime.sum(axis=1)[None, :] - E_prime.T))
    return np.asarray(beta * (1 - np.eye(len(E_prime))))


def drift_by_beta(f: Floats, beta: Floats) -> Floats:
    """z' of each class over eta_Z p_n gamma/2, -f_n o sum_{k != n} beta_nk (f_k - f_n (f_n.f_k)), (S, M)."""
    beta = beta * (1 - np.eye(len(f)))
    return np.asarray(f * (f * (beta * (f @ f.T)).sum(axis=1, keepdims=True) - beta @ f))


def full_residual_drift(f: Floats, query: Ints, vocab_size: int) -> Floats:
    """The same by full algebra of the modified flow: Y = F_u (I-E') W, f o (I - f f^T)(I - u u^T) g/|f + e|.

    u is over token and query rows. Since (I - f f^T) f = 0, u_n's own terms drop out of the result, and what is left is
    Eq. (10) with beta of the Gram matrix of u and a factor 1/2.
    """
    S, M = f.shape
    V = float(vocab_size)
    index = np.unique(query, return_inverse=True)[1]
    u = np.zeros((S, M + index.max() + 1))
    u[:, :M], u[np.arange(S), M + index] = f / np.sqrt(2), 1 / np.sqrt(2)
    # zeta_n . zeta_k; the factor gamma = (V-1)^2 h/(V-1+exp(V h)) of all terms is left out.
    products = np.where(np.eye(S) == 1, V / (V - 1), -V / (V - 1) ** 2)
    g = products @ np.linalg.solve(u @ u.T, u)
    g = (g - u * (u * g).sum(axis=1, keepdims=True))[:, :M] * np.sqrt(2)
    return np.asarray(f * (g - f * (f * g).sum(axis=1, keepdims=True)))


def across_drift(classes: SequenceClasses, residual: bool) -> float:
    """Mean drift of tokens shared between queries of `two_queries` over the largest |drift| at z = 0, leading beta."""
    P = classes.P.toarray()
    f = P / np.linalg.norm(P, axis=1, keepdims=True)
    drift = drift_by_beta(f, residual_beta(f, classes.query) if residual else np.eye(4) - np.linalg.inv(f @ f.T))
    return float(np.mean([drift[n, ACROSS[n % 2]] for n in range(4)]) / np.abs(drift).max())


def balanced_share(local: float) -> float:
    """Share between queries at which their token's drift at z = 0 changes sign; NaN if it does nowhere."""
    from scipy.optimize import brentq

    def drift(log_across: float) -> float:
        return across_drift(two_queries(local, float(np.exp(log_across)), 1000), residual=True)

    low, high = np.log(1e-5), np.log(0.6 - local)
    return float(np.exp(brentq(drift, low, high))) if drift(low) * drift(high) < 0 else float("nan")
