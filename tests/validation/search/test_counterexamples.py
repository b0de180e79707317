"""Stored counterexamples, and how counterexamples are simplified."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, integrate
from snapdyn.validation import CLAIMS, Property
from snapdyn.validation.phases import FALL, drop_below_maximum
from snapdyn.validation.search.counterexamples import load, shrink, simpler_instances
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance

# The property of the claim that the name begins with, by its number.
STORED = {
    "data-size-share": 2,
    "insight-a-overlap": 0,
    "insight-c-small-vocabulary": 0,
    "lemma11-large-vocabulary": 3,
    "residual-other-queries": 2,
    "scanning-lead": 0,
    "snapping-small-vocabulary": 0,
    "snapping-priors": 0,
    "snapping-strong-overlap": 1,
    "spurious-prior-fast": 1,
    "spurious-prior-lowered": 0,
    "spurious-prior-shared": 0,
    "theorem2a-finite-priors": 6,
    "theorem2a-late": 0,
    "theorem2a-memory": 0,
    "theorem2a-priors": 1,
    "theorem2a-strong": 1,
    "theorem2a-strong-slow": 0,
    "theorem2b-fast": 0,
    "theorem2b-two-common": 2,
    "theorem3-bounds-mean-field": 0,
    "theorem3-bounds-rising": 1,
    "theorem3-gain-memory": 0,
}


def statement(name: str, number: int) -> Property:
    """Property of the claim that the name of a counterexample begins with."""
    return next(entry for id_, entry in CLAIMS.items() if name.startswith(f"{id_}-")).properties[number]


@pytest.mark.parametrize(("name", "number"), STORED.items())
def test_stored_counterexamples_lie_outside_the_conditions_of_their_claim(name: str, number: int) -> None:
    """Assert that each one violates its statement as stored, on at most four classes, outside a condition."""
    stored, violated = load(name), statement(name, number)
    assert violated.rung == stored.rung
    measured = violated.measure(stored.instance)
    assert not measured.holds
    # Stored with or without the numerical error, and without what the claim's statement in the mean field allows.
    allowed = 0.2 if name == "theorem3-bounds-mean-field" else 0.0
    measures = (allowed - measured.margin, allowed - measured.slack)
    # Solver tolerance 1e-8, and the violation is a difference of logits over the largest.
    assert stored.violation in [pytest.approx(each, rel=1e-3) for each in measures]
    assert violated.at(stored.instance).unmet
    assert stored.tried > 0
    assert stored.mechanism.endswith(".")
    assert stored.instance.num_classes <= 4


@pytest.mark.parametrize("name", [name for name in STORED if "theorem" in name and "memory" in load(name).mechanism])
def test_what_memory_breaks_holds_without_it(name: str) -> None:
    """Assert that Eq. (10), whose decoder keeps nothing, has no such violation on the same instance."""
    without = statement(name, 2)
    assert without.rung == "modified decoder"
    assert without.measure(load(name).instance).holds


@pytest.mark.parametrize("name", ["theorem2a-memory", "theorem2a-late", "theorem2a-strong-slow"])
def test_stored_falls_do_not_hang_on_the_solver(name: str) -> None:
    """Assert that BDF, at ten times smaller tolerances, shows the same fall of a distinct token."""
    instance = load(name).instance
    times = np.geomspace(1, instance.t_end, 200)
    falls = []
    for method, rtol in (("LSODA", 1e-8), ("BDF", 1e-9)):
        system = MeanField(instance.classes, 1.0, instance.eta_Z)
        z = integrate(system, times, method=method, rtol=rtol, atol=1e-14).z[:, 0]
        token = instance.classes.distinct_tokens()
        falls.append(float(drop_below_maximum(z[:, [token]]).max() / np.abs(z).max()))
    assert falls[1] > FALL
    # The fall is a difference of logits that err by about 100 steps times rtol each.
    assert falls[0] == pytest.approx(falls[1], abs=1e-5)


def test_shrinking_leaves_what_is_needed() -> None:
    """Assert that an instance shrinks to the smallest one that still violates, with round numbers."""
    start = replace(Family("weak").draw(0, 1), eta_Y=0.3)

    def violates(instance: Instance) -> bool:
        return instance.classes.common_tokens().size >= 1 and instance.t_end > 40

    shrunk = shrink(start, violates, simpler_instances)
    assert shrunk.P.shape[0] == 2
    assert shrunk.classes.common_tokens().size == 1
    assert shrunk.vocab_size == 2
    assert shrunk.eta_Y == 1.0
    assert shrunk.t_end in (100.0, 50.0, 1000.0, 10_000.0)
    assert set(np.unique(shrunk.P)) <= {0.0, 1.0}
