"""What claims are written with.

Instances, runs, linear algebra, numbers and properties are handed on from their modules. Defined here is what the
chapters share: domains, which claims narrow by `dataclasses.replace`; conditions; attention vectors.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.validation.dense_algebra import (
    EPS,
    IDENTITY_ERROR,
    LINEAR_ALGEBRA,
    attention_drift,
    dense_attention,
    e_prime,
    growth_over_gamma,
    largest_relative,
    modified_decoder_gradient,
    output_errors,
    overlap,
    spectral_norm,
    zeta_products,
)
from snapdyn.validation.grid import Grid
from snapdyn.validation.measured import Measured, NoNumber
from snapdyn.validation.pictures import Line, Map, Picture
from snapdyn.validation.properties import Measure, Property, Requirement
from snapdyn.validation.register import Claim, Headline
from snapdyn.validation.rungs.run import (
    CLOSED,
    DESCENT,
    EXACT,
    FINITE_LENGTH,
    FINITE_T,
    LEADING,
    MEAN_FIELD,
    MODIFIED,
    ORBIT,
    ORIGINAL,
    REDUCED,
    SGD,
    run_on_rung,
    runs_on_rung,
)
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.counterexamples import load
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.search.instance_runs import (
    by_scipy,
    flow,
    kept_on_instance,
    most_evaluations,
    noise,
    resolution,
    succeeded,
)
from snapdyn.validation.statistics import DECISIVE, standard_error

__all__ = [
    "CLOSED",
    "DECISIVE",
    "DESCENT",
    "EPS",
    "EXACT",
    "FINITE_LENGTH",
    "FINITE_T",
    "IDENTITY_ERROR",
    "LEADING",
    "LINEAR_ALGEBRA",
    "MEAN_FIELD",
    "MODIFIED",
    "NOT_FASTER",
    "ORBIT",
    "ORIGINAL",
    "REDUCED",
    "SGD",
    "Box",
    "Claim",
    "Family",
    "Floats",
    "Grid",
    "Headline",
    "Instance",
    "Ints",
    "Line",
    "Map",
    "Measure",
    "Measured",
    "NoNumber",
    "Picture",
    "Property",
    "Requirement",
    "attention_drift",
    "by_scipy",
    "dense_attention",
    "e_prime",
    "flow",
    "growth_over_gamma",
    "kept_on_instance",
    "largest_relative",
    "load",
    "modified_decoder_gradient",
    "most_evaluations",
    "noise",
    "output_errors",
    "overlap",
    "resolution",
    "run_on_rung",
    "runs_on_rung",
    "spectral_norm",
    "standard_error",
    "succeeded",
    "zeta_products",
]

# Rates, V and times as wide as float64 allows.
WIDEST = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(1, 300),
    num_common=(0, 10),
    num_distinct=(0, 20),
    num_queries=(1, 6),
    vocab_size=(2, 10**12),
    ratio=(1e-6, 1e6),
    horizon=(1e-2, 1e12),
    eta_Y=(1e-6, 1e6),
)
# Statements about one state: neither rates nor times.
ONE_STATE = replace(WIDEST, num_classes=(1, 100), ratio=(1.0, 1.0), horizon=(1.0, 1.0), eta_Y=(1.0, 1.0))
# Classes that share tokens, as far as runs of all of them end.
SEVERAL = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(2, 30),
    num_common=(1, 6),
    num_distinct=(1, 8),
    num_queries=(1, 6),
    vocab_size=(2, 10**6),
    ratio=(1e-6, 10.0),
    horizon=(1e-1, 1e4),
    eta_Y=(1e-6, 1e6),
)

# A Gram matrix with a smaller eigenvalue loses more than half of the digits when it is inverted.
INDEPENDENT = 1e-6
# "V >> K^2" is read as a factor of at least 10.
MUCH_LARGER = 10.0

OWN_NEXT_TOKENS = Requirement(
    "one class per next token",
    "no two classes share a next token",
    lambda i: 0 if i.next_token is None else i.num_classes - np.unique(i.next_token).size,
    at_most=0,
    defining=True,
)
UNIFORM = Requirement(
    "equal priors", "max p_n/min p_n - 1 <= 1e-12", lambda i: i.prior.max() / i.prior.min() - 1, at_most=1e-12
)
INDEPENDENT_ATTENTION = Requirement(
    "independent attention vectors",
    f"smallest eigenvalue of G >= {INDEPENDENT:g}",
    lambda i: i.eigenvalues[0],
    at_least=INDEPENDENT,
    defining=True,
)
WEAK_CORRELATION = Requirement(
    "weak correlation", "|lambda_1(E)| K < 1", lambda i: i.correlation, at_most=float(np.nextafter(1, 0))
)
OVERLAPPING = Requirement(
    "every class overlaps another",
    f"largest overlap of every class >= {INDEPENDENT:g}",
    lambda i: i.overlaps.max(axis=1).min(),
    at_least=INDEPENDENT,
    defining=True,
)
SEVERAL_CLASSES = Requirement("two or more classes", "K >= 2", lambda i: i.num_classes, at_least=2, defining=True)
ONE_QUERY = Requirement("one query", "Q = 1", lambda i: np.unique(i.query).size, at_most=1)
ONE_COMMON_TOKEN = Requirement(
    "one common token",
    "number of tokens of two or more classes = 1",
    lambda i: (np.count_nonzero(i.P, axis=0) > 1).sum(),
    at_most=1,
)
LARGE_VOCABULARY = Requirement(
    "two roots of exp(u) = (V-1) u", "V >= 4", lambda i: i.vocab_size, at_least=4, defining=True
)
ZERO_START = Requirement(
    "zero start",
    "largest |z(0)| = 0",
    lambda i: 0 if i.start is None else np.abs(i.start).max(),
    at_most=0,
)
FROM_ZERO = replace(ZERO_START, defining=True)
NOT_FASTER = Requirement("attention not faster than the decoder", "eta_Z/eta_Y <= 1", lambda i: i.ratio, at_most=1)
INFINITE_LENGTH = Requirement(
    "infinitely long sequences",
    "1/(T-1) = 0",
    lambda i: 0 if i.seq_len is None else 1 / i.seq_len,
    at_most=0,
)
TWO_DISTINCT = Requirement(
    "two distinct tokens of a class",
    "distinct tokens of some class >= 2",
    lambda i: max(i.classes.distinct_tokens(n).size for n in range(i.num_classes)),
    at_least=2,
    defining=True,
)
NO_MOMENTUM = Requirement("no momentum", "mu = 0", lambda instance: instance.momentum, at_most=0, defining=True)
LATE = Requirement(
    "time after the transition",
    "t_end >= t0 = 2 u_+/(p_n eta_Y) of the most frequent class",
    lambda i: i.flow_rates[0] * i.prior.max() * i.t_end / (2 * analytic.u_plus(i.vocab_size)),
    at_least=1,
)


def start_of(instance: Instance) -> Floats:
    """Attention logits at t = 0, (Q, M)."""
    shape = np.unique(instance.query).size, instance.P.shape[1]
    return np.zeros(shape) if instance.start is None else instance.start


def starts(instance: Instance) -> Floats:
    """z(0) of each class, (S, M)."""
    return np.zeros_like(instance.P) if instance.start is None else instance.start[instance.classes.query_index]


def attention_vectors(instance: Instance) -> Floats:
    """Attention vectors f_n at the start, (S, M)."""
    weights = instance.P * np.exp(starts(instance))
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


def by_query(instance: Instance, of_classes: Floats) -> Floats:
    """For each query, sum numbers of the classes (S, M) over its classes: (Q, M)."""
    classes = instance.classes
    return (classes.query_index == np.arange(classes.queries.size)[:, None]) @ of_classes


def properties_on(rung: str, domain: Family, *common: Requirement, **defaults: Any) -> Callable[..., Property]:
    """Maker of the properties of a chapter that share rung, domain and conditions.

    ``make(name, measure, *conditions, **facts)`` adds conditions; `facts` are further attributes, or others than these.
    """

    def make(name: str, measure: Measure, *conditions: Requirement, **facts: Any) -> Property:
        attributes: dict[str, Any] = {"rung": rung, "domain": domain} | defaults | facts
        return Property(name, measure=measure, conditions=(*common, *conditions), **attributes)

    return make
