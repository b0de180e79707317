"""The search for counterexamples: what it draws, finds, shrinks and keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import MeanField, integrate
from snapdyn.validation import CLAIMS
from snapdyn.validation.claims.attention._shared import common_tokens, falls, speed
from snapdyn.validation.claims.attention.theorem3_bounds import leaves_bounds
from snapdyn.validation.claims.attention.theorem3_gain import gain_error
from snapdyn.validation.dense_algebra import modified_decoder_gradient
from snapdyn.validation.engine import OUTSIDE, examine, push
from snapdyn.validation.observables import FALL, drop_below_maximum
from snapdyn.validation.properties import Measure, Property
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, OVERLAPPING
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, turned_back
from snapdyn.validation.search.counterexamples import load, shrink, simpler_instances
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance

Violation = Callable[[Instance], float]
WEAK = Family("weak correlation, uniform")


def regular(instance: Instance) -> bool:
    """Whether attention vectors are independent and every class overlaps another."""
    return all(requirement.on(instance).holds for requirement in (INDEPENDENT_ATTENTION, OVERLAPPING))


def violation_of(measure: Measure) -> Violation:
    """Violation of a measured statement: minus its margin."""

    def violation(instance: Instance) -> float:
        measured = measure(instance) if regular(instance) else None
        return OUTSIDE if measured is None else -measured.margin

    return violation


speed_shortfall = violation_of(speed)
distinct_fall = violation_of(partial(falls, rung=MEAN_FIELD))
common_rise_in_eq_10 = partial(falls, rung=EXACT, tokens=common_tokens)
distinct_fall_in_eq_10 = partial(falls, rung=EXACT)
gain_in_eq_10 = partial(gain_error, rung=EXACT)
STORED: dict[str, Violation] = {
    "theorem2a-priors": speed_shortfall,
    "theorem2a-strong": speed_shortfall,
    "theorem2a-strong-slow": distinct_fall,
    "theorem2a-memory": distinct_fall,
    "theorem2a-late": distinct_fall,
    "theorem2b-two-common": violation_of(common_rise_in_eq_10),
    "theorem2b-fast": violation_of(partial(falls, rung=MEAN_FIELD, tokens=common_tokens)),
    "theorem3-gain-memory": violation_of(gain_error),
    "theorem3-bounds-rising": violation_of(partial(leaves_bounds, rung=EXACT)),
    "theorem3-bounds-mean-field": violation_of(partial(leaves_bounds, rung=MEAN_FIELD)),
}
FAMILIES = [
    WEAK,
    Family("strong correlation", "strong", uniform=False),
    Family("any correlation", "any", num_classes=(3, 4), num_common=(2, 2), num_queries=(2, 2), ratio=(0.1, 10.0)),
    Family("one common token", "weak", num_common=(1, 1), shared_by_all=True, vocab_size=(100, 200)),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_draws_lie_in_their_family(family: Family) -> None:
    """Assert that every draw has the family's sizes, rates, priors and correlation, and that every class overlaps."""
    for number in range(30):
        instance = family.draw(7, number)
        classes = instance.classes
        K = classes.num_classes
        assert family.num_classes[0] <= K <= family.num_classes[1]
        assert classes.queries.size <= family.num_queries[1]
        assert family.vocab_size[0] <= classes.vocab_size <= family.vocab_size[1]
        assert family.ratio[0] <= instance.ratio <= family.ratio[1] * (1 + 1e-12)
        assert family.horizon[0] * (1 - 1e-12) <= instance.horizon <= family.horizon[1] * (1 + 1e-12)
        assert instance.uniform == family.uniform
        # The correlation by the project's own eigenvalues.
        weak = abs(classes.eigenvalues()[0]) * K < 1
        assert family.correlation == "any" or weak == (family.correlation == "weak")
        assert (classes.E().max(axis=1) > 0).all()
        assert all(classes.distinct_tokens(n).size >= family.num_distinct[0] for n in range(K))


def test_a_draw_depends_on_its_seed_and_number_only() -> None:
    """Assert that draw 5 is the same whether or not others are drawn before, and differs from seed to seed."""
    first = WEAK.draw(1, 5)
    WEAK.draw(1, 4)
    again, other = WEAK.draw(1, 5), WEAK.draw(2, 5)
    assert first.to_dict() == again.to_dict()
    assert first.to_dict() != other.to_dict()


@pytest.mark.parametrize(
    ("measure", "family", "draws"),
    [
        # No common token ever rises under strong correlation.
        (common_rise_in_eq_10, Family("strong", "strong", num_common=(2, 3)), 40),
        # Every distinct token rises at any ratio up to the decoder's speed.
        (partial(falls, rung=MEAN_FIELD), Family("weak", ratio=(0.1, 1.0)), 60),
        # xi_n > 0 whatever the priors.
        (speed, Family("any priors", uniform=False, num_classes=(3, 4)), 1000),
    ],
    ids=["common tokens never rise", "distinct tokens rise at any ratio", "positive speed at any priors"],
)
def test_a_false_statement_is_found_out(measure: Measure, family: Family, draws: int) -> None:
    """Assert that the engine finds a counterexample to a false statement inside its family."""
    conditions = (INDEPENDENT_ATTENTION, OVERLAPPING)
    found = examine(Property("x", "r", measure, family, conditions), draws, seed=0)
    assert found.worst is not None
    assert not found.worst.measured.holds
    assert family.admits(found.worst.instance)
    assert measure(found.worst.instance).value == found.worst.measured.value


def test_pushing_gets_further_than_drawing() -> None:
    """Assert that the directed search raises the violation, inside the family: here lambda_1 K, up to its limit 1."""
    start = WEAK.draw(0, 0)
    evaluated = []

    def violation(instance: Instance) -> float:
        evaluated.append(instance.correlation)
        return instance.correlation

    push(violation, WEAK, start, 150, np.random.SeedSequence(1))
    assert start.correlation < 0.91 < max(evaluated) < 1
    assert 10 < len(evaluated) <= 150


def test_shrinking_leaves_what_is_needed() -> None:
    """Assert that an instance shrinks to the smallest one that still violates, with round numbers."""
    start = replace(WEAK.draw(0, 1), eta_Y=0.3)
    shrunk = shrink(
        start,
        lambda instance: instance.classes.common_tokens().size >= 1 and instance.t_end > 40,
        simpler_instances,
    )
    assert shrunk.P.shape[0] == 2
    assert shrunk.classes.common_tokens().size == 1
    assert shrunk.vocab_size == 2
    assert shrunk.eta_Y == 1.0
    assert shrunk.t_end in (100.0, 50.0, 1000.0, 10_000.0)
    assert set(np.unique(shrunk.P)) <= {0.0, 1.0}


def test_instances_keep_every_bit_in_json() -> None:
    """Assert that an instance comes back from its text bit by bit."""
    instance = Family("any", "any", uniform=False).draw(11, 3)
    back = Instance.from_dict(json.loads(json.dumps(instance.to_dict())))
    assert back.to_dict() == instance.to_dict()
    np.testing.assert_array_equal(back.P, instance.P)


@pytest.mark.parametrize("name", list(STORED))
def test_stored_counterexamples_are_counterexamples(name: str) -> None:
    """Assert that each stored one violates its statement, by what is stored with it, on at most four classes."""
    stored = load(name)
    assert stored.tried > 0
    assert stored.mechanism.endswith(".")
    measured = STORED[name](stored.instance)
    assert measured > 0
    # Solver tolerance 1e-8, and the violation is a difference of logits over the largest.
    assert measured == pytest.approx(stored.violation, rel=1e-3)
    assert stored.instance.classes.num_classes <= 4
    assert stored.instance.vocab_size >= 10 * stored.instance.classes.num_classes**2
    if "weak correlation" in stored.instance.family:
        assert stored.instance.correlation < 1


@pytest.mark.parametrize(
    ("name", "claim", "number"),
    [
        ("insight-a-overlap", "insight-a", 0),
        ("insight-c-small-vocabulary", "insight-c", 0),
        ("lemma11-large-vocabulary", "lemma11", 3),
        ("snapping-small-vocabulary", "snapping", 0),
        ("snapping-priors", "snapping", 0),
        ("snapping-strong-overlap", "snapping", 1),
        ("scanning-lead", "scanning", 0),
    ],
)
def test_stored_counterexamples_lie_outside_the_conditions_of_their_claim(name: str, claim: str, number: int) -> None:
    """Assert that each one is in the property's domain, violates it as stored, and that a condition excludes it."""
    stored, statement = load(name), CLAIMS[claim].properties[number]
    assert statement.rung == stored.rung
    assert statement.domain.contains(stored.instance)
    measured = statement.measure(stored.instance)
    assert measured is not None
    assert not measured.holds
    assert -measured.slack == pytest.approx(stored.violation, rel=1e-3)
    assert [each.name for each in statement.at(stored.instance).unmet]


@pytest.mark.parametrize(
    "name", [counterexample for counterexample in STORED if "memory" in load(counterexample).mechanism]
)
def test_what_memory_breaks_holds_without_it(name: str) -> None:
    """Assert that Eq. (10), whose decoder keeps nothing, has no such violation on the same instance."""
    instance = load(name).instance
    without = {"theorem2a": distinct_fall_in_eq_10, "theorem2b": common_rise_in_eq_10, "theorem3-gain": gain_in_eq_10}
    (measure,) = (measure for claim, measure in without.items() if name.startswith(claim))
    assert measure(instance).holds


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


@pytest.mark.parametrize("correlation", ["weak", "strong"])
@pytest.mark.parametrize("uniform", [True, False])
def test_speed_has_the_sign_of_the_gradient(correlation: str, uniform: bool) -> None:
    """Assert that the regression form of xi_n is the rate of distinct tokens by dense linear algebra, any priors."""
    family = Family("x", correlation, uniform=uniform, vocab_size=(20, 100))  # type: ignore[arg-type]
    checked = 0
    for number in range(40):
        instance = family.draw(2, number)
        if not regular(instance):
            continue
        classes = instance.classes
        z = np.zeros((classes.queries.size, classes.num_tokens))
        h = np.asarray(analytic.h(classes.prior * instance.t_end, 1.0, classes.vocab_size))
        g = modified_decoder_gradient(classes, z, h)
        f = classes.decoder_inputs().toarray()
        xi = [(g[n] - f[n] * (f[n] @ g[n]))[l] / f[n, l] for n in range(len(h)) for l in classes.distinct_tokens(n)[:1]]
        assert (min(xi) < 0) == (speed_shortfall(instance) > 0)
        checked += 1
    assert checked >= 20


@pytest.mark.parametrize(
    ("path", "violation"),
    [([1.0, 2.0, 3.0], -1 / 3), ([1.0, 3.0, 2.0], 0.5), ([-1.0, 1.0, 4.0], 0.5), ([2.0, 3.0, 3.5], -0.5 / 3.5)],
)
def test_turning_back_is_measured_from_the_running_maximum(path: list[float], violation: float) -> None:
    """Assert the drop over the scale for paths that fall, and minus the smallest late gain for those that do not."""
    assert turned_back(np.array(path)[:, None], 2.0) == pytest.approx(violation)


def test_an_instance_is_plain_data() -> None:
    """Assert what an instance says of itself, on one worked by hand."""
    P = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    instance = Instance(P, np.zeros(2, dtype=np.int64), np.ones(2), 40, 2.0, 0.5, 10.0)
    assert instance.ratio == 0.25
    assert instance.uniform
    assert instance.gram == pytest.approx(np.array([[1.0, 0.5], [0.5, 1.0]]))
    assert instance.correlation == pytest.approx(1.0)
    assert instance.classes.P.toarray() == pytest.approx(P / 2)


def test_a_stored_counterexample_is_the_smallest() -> None:
    """Assert that shrinking leaves the two classes and three tokens of the stored F10 counterexample as they are."""
    instance = load("theorem2a-memory").instance

    def violates(candidate: Instance) -> bool:
        classes = candidate.classes
        K = classes.num_classes
        whole = all(classes.distinct_tokens(n).size for n in range(K)) and candidate.vocab_size >= 10 * K**2
        return whole and candidate.correlation <= 0.95 and distinct_fall(candidate) > 1e-3

    assert shrink(instance, violates, simpler_instances).to_dict() == instance.to_dict()
    assert instance.P.shape == (2, 3)
