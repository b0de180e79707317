"""The engine finds counterexamples, keeps to its budget, and refuses controls that say nothing."""

from dataclasses import replace

import numpy as np
import pytest

import snapdyn as sd
from snapdyn import analytic
from snapdyn.core.memory import Unaffordable
from snapdyn.validation.attack import attacked
from snapdyn.validation.engine import DIRECTED_SHARE, FIRST_LOOK, examine, push
from snapdyn.validation.measured import SEED
from snapdyn.validation.search.counterexamples import stored_counterexamples
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.verdicts import check_claim, gathered
from tests.validation.helpers import claim_of


def searched(prop: sd.Property) -> sd.Evidence:
    """Evidence of a claim that has this property alone."""
    return gathered(claim_of(properties=prop), "quick")


WIDE = sd.Family("wide", "any", uniform=False, num_classes=(1, 6), vocab_size=(2, 10**12), eta_Y=(1e-6, 1e6))


def largest_overlap(instance: Instance) -> sd.Measured:
    """Largest overlap over |lambda_1|, at most 1 (Lemma 13)."""
    E = instance.gram - np.eye(len(instance.gram))
    norm = np.abs(np.linalg.eigvalsh(E)).max()
    return sd.Measured(E.max() / norm if norm > 0 else 0.0, at_most=1 + 1e-12)


def half_of_it(instance: Instance) -> sd.Measured:
    """Wrong theory: |lambda_1|/(K-1) bounds every overlap."""
    right = largest_overlap(instance)
    return replace(right, value=right.value * (instance.num_classes - 1))


LEMMA_13 = sd.Property(
    "overlap", "linear algebra", largest_overlap, WIDE, controls={"K - 1": half_of_it}, evaluations=(120, 400)
)


def test_a_true_statement_survives_and_its_wrong_theory_does_not() -> None:
    found = examine(LEMMA_13, 120, SEED)
    assert found.worst.measured.holds
    pushed = round(DIRECTED_SHARE * 120)
    assert 120 <= found.tried <= 120 + pushed + len(stored_counterexamples()) + 8
    control = found.controls["K - 1"]
    assert 10 < control.rejected <= control.tried < found.tried
    assert not control.worst.holds


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    first, again, other = (examine(LEMMA_13, 120, seed) for seed in (1, 1, 2))
    assert first.tried == again.tried
    assert first.worst.measured == again.worst.measured
    assert first.worst.instance.to_dict() == again.worst.instance.to_dict()
    drawn, drawn_again, elsewhere = (found.controls["K - 1"].pairs for found in (first, again, other))
    assert drawn == drawn_again != elsewhere


def early_gamma(instance: Instance) -> sd.Measured:
    """exp(V h) <= (V-1) V h at the first visit, which fails for a slow decoder."""
    V = instance.vocab_size
    u = V * float(analytic.h(1.0, instance.eta_Y, V))
    return sd.Measured(u - np.log(V - 1) - np.log(u), at_most=0.0)


def test_a_statement_that_fails_in_a_corner_is_found_and_simplified() -> None:
    # u = eta_Y at the first visit of a slow decoder: exp(u) exceeds (V-1) u once eta_Y < 1/V.
    large = sd.Requirement("large V", "V >= 4", lambda i: i.vocab_size, at_least=4, defining=True)
    evidence = searched(sd.Property("u", "closed form", early_gamma, WIDE, (large,), evaluations=(40, 40)))
    assert not evidence.checks[0].holds
    simplified = Instance.from_dict(evidence.counterexample)
    assert not early_gamma(simplified).holds
    assert simplified.num_classes <= 2


def test_a_condition_makes_the_boundary_visible() -> None:
    quick = sd.Requirement("fast", "eta_Y V >= 10", lambda i: i.eta_Y * i.vocab_size, at_least=10)
    large = sd.Requirement("large V", "V >= 4", lambda i: i.vocab_size, at_least=4, defining=True)
    slow = sd.Requirement("at most 1", "eta_Y <= 1", lambda i: i.eta_Y, at_most=1)
    prop = sd.Property("u", "closed form", early_gamma, WIDE, (large, quick, slow), evaluations=(120, 120))
    evidence = searched(prop)
    assert evidence.checks[0].holds
    assert [check.role for check in evidence.checks] == ["statement", "outside"]
    assert not evidence.checks[1].holds


@pytest.mark.parametrize("mirror", [lambda x: -x, lambda x: 3 * x + 1, lambda x: 1 / x if x else 0.0])
def test_a_control_that_follows_from_the_statement_is_refused(mirror) -> None:
    calls = 0

    def mirrored(instance: Instance) -> sd.Measured:
        nonlocal calls
        calls += 1
        return sd.Measured(mirror(largest_overlap(instance).value), at_least=1e9)

    prop = sd.Property(
        "overlap", "linear algebra", largest_overlap, sd.Family("weak"), controls={"m": mirrored}, evaluations=(99, 99)
    )
    with pytest.raises(sd.InputError, match="computed from a wrong theory"):
        searched(prop)
    assert calls == FIRST_LOOK


def test_a_large_numerical_error_hides_no_failure() -> None:
    """Assert that the worst case is the one that fails most beyond its own error."""

    def measure(instance: Instance) -> sd.Measured:
        coarse = instance.num_classes % 2 == 0
        return sd.Measured(5.0 if coarse else 2.0, at_most=1.0, error=10.0 if coarse else 0.1)

    evidence = searched(sd.Property("x", "r", measure, sd.Family("f"), evaluations=(20, 20), directed=False))
    assert (evidence.checks[0].value, evidence.checks[0].holds) == (2.0, False)


def test_a_control_within_its_error_is_not_rejected() -> None:
    wrong = {"w": lambda i: sd.Measured(1.05, at_most=1.0, error=0.1)}
    right = sd.Property("x", "r", lambda i: sd.Measured(i.ratio, at_most=1e9), sd.Family("f"), (), wrong, (10, 10))
    control = searched(right).checks[-1]
    assert (control.role, control.holds) == ("control", True)


@pytest.mark.parametrize(("num_classes", "words"), [(4, "on most instances"), (0, "received none")])
def test_mostly_failed_runs_are_no_evidence(num_classes: int, words: str) -> None:
    """Assert one sentence where runs fail on all instances but those of four classes, or on all."""

    def measure(instance: Instance) -> sd.Measured | None:
        return sd.Measured(0.0, at_most=1.0) if instance.num_classes == num_classes else None

    with pytest.raises(sd.InputError, match=words):
        searched(sd.Property("x", "r", measure, sd.Family("f"), evaluations=(40, 40), directed=False))


EARLY = sd.Box(eta=(1e-3, 10.0, "log"), r=(0.1, 0.9), arms=(2, 10))


def product(parameters) -> sd.Measured:
    """Product of eta, r and arms, at most 20: it fails at the large end of all three, 90."""
    return sd.Measured(parameters["eta"] * parameters["r"] * parameters["arms"], at_most=20.0)


def test_a_box_is_searched_as_a_family_is() -> None:
    """Assert that corners, draws and the directed search stay in the box, and that the corner that fails is found."""
    seen = []

    def measure(parameters):
        seen.append(dict(parameters))
        return product(parameters)

    evidence = searched(sd.Property("p", "r", measure, EARLY, evaluations=(40, 40)))
    assert all(EARLY.contains(each) and isinstance(each["arms"], int) for each in seen)
    assert {each["arms"] for each in seen} >= {2, 10}
    assert len({each["eta"] for each in seen}) > 20
    assert not evidence.checks[0].holds
    assert not product(evidence.counterexample).holds
    assert EARLY.contains(evidence.counterexample)
    # No whole number can be one smaller: the counterexample is a simple one.
    assert product({**evidence.counterexample, "arms": evidence.counterexample["arms"] - 1}).holds


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (lambda p: sd.Measured(p["arm"], at_most=1), "KeyError.*its Box has eta, r, arms"),
        (lambda p: 1 / 0, "ZeroDivisionError in line"),
        (lambda p: 3.0, "received float"),
        (lambda p: sd.Measured(np.nan, at_most=1), "of 'number' at eta = .*received NaN"),
    ],
)
def test_a_measure_that_gives_no_number_is_named(measure, words: str) -> None:
    """Assert one sentence with the property and the instance, also in the verdict of the claim."""
    entry = claim_of("mine", properties=sd.Property("number", "r", measure, EARLY, evaluations=(10, 10)))
    with pytest.raises(sd.InputError, match=words):
        gathered(entry, "quick")
    fault = check_claim(entry, "quick").fault
    assert "claim 'mine'" in fault
    assert "'number' at eta = " in fault


def test_one_nan_is_counted_and_told_and_the_search_goes_on() -> None:
    """Assert that NaN on few instances costs the search nothing: the corner that fails is still found."""

    def measure(parameters):
        return sd.Measured(np.nan if parameters["arms"] == 7 else product(parameters).value, at_most=20.0)

    prop = sd.Property("p", "r", measure, EARLY, evaluations=(40, 40))
    found = examine(prop, 40, SEED)
    assert found.tried >= 40
    assert found.undecided == len(found.not_numbers) > 0
    assert not found.worst.measured.holds
    assert "NaN" not in searched(replace(prop, measure=product)).worst
    words = f"NaN on {len(found.not_numbers)} instance"
    assert words in searched(prop).worst
    attacked_ = attacked(claim_of(properties=prop), 0, 1.0, SEED)
    assert attacked_.nan_message.startswith(words)
    assert attacked_.counterexample is not None


LARGE = sd.Requirement("few arms", "arms <= 5", lambda p: p["arms"], at_most=5)
FEW = {"few": {"eta": 1.0, "r": 0.5, "arms": 2}}


def with_cases(**settings) -> sd.Property:
    """The product on few arms, with named settings."""
    wrong = {"wrong theory: a sum": lambda p: sd.Measured(p["eta"] + p["r"] + p["arms"], at_most=2.0)}
    return sd.Property("p", "r", product, conditions=(LARGE,), controls=wrong, **settings)


def test_cases_and_settings_beyond_the_conditions() -> None:
    """Assert a row per setting with its role, controls at the cases, the verdict, and numbers in the conclusion."""
    prop = with_cases(cases=FEW, beyond=lambda: {"many": {"eta": 10.0, "r": 0.9, "arms": 9}})
    entry = claim_of(properties=prop, conclusion="It is {few} and {p: many:.1f}.", expected="conditional")
    result = check_claim(entry, "quick")
    assert [(check.role, check.name, check.value) for check in result.checks] == [
        ("statement", "p: few", 1.0),
        ("outside", "p: many", 81.0),
        ("control", "wrong theory: a sum: fails on 1 of 1 settings, worst", 3.5),
    ]
    assert (result.outcome, result.sentence) == ("conditional", "It is 1 and 81.0.")
    assert (entry.grade, entry.domain) == ("measured", "few")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cases": {"a": {"eta": 1.0, "r": 1.0, "arms": 9}}}, "'a' of 'p' inside its conditions.*few arms"),
        ({"beyond": {"b": {"eta": 1.0, "r": 1.0, "arms": 2}}}, "'b' of 'p' beyond its conditions"),
        ({}, "a domain or settings of 'p', received neither"),
    ],
)
def test_settings_on_the_wrong_side_are_refused(settings, words: str) -> None:
    with pytest.raises(sd.InputError, match=words):
        searched(with_cases(**settings))


def test_an_unknown_number_in_a_conclusion_is_named() -> None:
    entry = claim_of(properties=with_cases(cases=FEW), conclusion="It is {fewer}.")
    with pytest.raises(sd.InputError, match="received 'fewer'; the claim has few"):
        gathered(entry, "quick")


def test_numbers_that_say_nothing_are_no_evidence() -> None:
    """Assert a fault for the NaN bound of a control, and no number where the numerical error is infinite."""
    controls = {"w": lambda p: sd.Measured(9.0, at_most=np.nan)}
    with pytest.raises(sd.InputError, match="received NaN"):
        searched(sd.Property("p", "r", product, controls=controls, cases=FEW))
    unknown = sd.Property("p", "r", lambda p: sd.Measured(9.0, at_most=1.0, error=np.inf), EARLY, evaluations=(10, 10))
    assert examine(unknown, 10, 1).tried == 0


def test_a_condition_without_a_number_is_no_boundary() -> None:
    """Assert that an instance whose condition is NaN counts neither inside nor outside, and that an error is named."""
    nan = sd.Requirement("y", "y <= 1", lambda p: np.nan if p["r"] > 0.5 else 0.0, at_most=1)
    found = examine(sd.Property("p", "r", product, EARLY, (nan,), evaluations=(20, 20), directed=False), 20, 1)
    assert found.tried == 20
    assert found.outside == 0
    raising = sd.Requirement("y", "y <= 1", lambda p: p["y"], at_most=1)
    with pytest.raises(sd.InputError, match=r"of 'y' at eta = .*KeyError.*its Box has eta"):
        searched(sd.Property("p", "r", product, EARLY, (raising,), evaluations=(10, 10)))


def test_a_setting_of_other_names_is_refused() -> None:
    """Assert that a misspelt setting is no boundary, and that what a function returns is checked."""
    with pytest.raises(sd.InputError, match="one that its domain speaks of"):
        searched(sd.Property("p", "r", product, EARLY, beyond={"b": {"eta": 1.0, "arm": 2}}, evaluations=(10, 10)))
    with pytest.raises(sd.InputError, match="the cases of 'p', received ZeroDivisionError"):
        searched(sd.Property("p", "r", product, cases=lambda: 1 / 0))


def test_pushing_gets_further_than_drawing() -> None:
    """Assert that the directed search raises the violation, inside the family: here lambda_1 K, up to its limit 1."""
    weak = sd.Family("weak")
    start, evaluated = weak.draw(0, 0), []

    def violation(instance: Instance) -> float:
        evaluated.append(instance.correlation)
        return instance.correlation

    push(violation, weak, start, 150, np.random.SeedSequence(1))
    assert start.correlation < 0.91 < max(evaluated) < 1
    assert 10 < len(evaluated) <= 150


@pytest.mark.parametrize(("bound", "words"), [(1.0, ""), (3.0, "; the bound is 3 times the worst found")])
def test_a_loose_bound_says_so(bound: float, words: str) -> None:
    """Assert that a bound far from the worst number is named with the factor, and a tight one is not."""
    box = sd.Box(x=(0.0, 1.0))
    prop = sd.Property("x", "arithmetic", lambda p: sd.Measured(p["x"], at_most=bound), box, evaluations=(20, 20))
    (check,) = [each for each in searched(prop).checks if each.role == "statement"]
    assert check.name.endswith(f"instances{words}")


def test_a_search_whose_instances_all_take_too_long_says_why() -> None:
    """Assert the estimate as the reason, not a domain without instances."""

    def endless(instance: Instance) -> sd.Measured:
        raise Unaffordable("expected at most 1e9 evaluations, received an estimate of 1e12; use fewer classes")

    prop = sd.Property("p", "r", endless, sd.Family("weak"), evaluations=(5, 5), directed=False)
    with pytest.raises(sd.InputError, match="an estimate of 1e12"):
        examine(prop, 5, 1)
