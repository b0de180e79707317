"""Measured numbers, conditions and properties."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import snapdyn as sd
from snapdyn.validation.search.instance import Instance


def instance(**changes) -> Instance:
    """Two classes with one common token."""
    P = np.array([[0.2, 0.8, 0.0], [0.4, 0.0, 0.6]])
    facts = {"P": P, "query": np.zeros(2, int), "weights": np.ones(2), "vocab_size": 50}
    return Instance(**(facts | {"eta_Y": 1.0, "eta_Z": 0.1, "t_end": 100.0} | changes))


def test_conditions_stop_at_a_defining_one_that_is_not_met() -> None:
    def never(instance: Instance) -> float:
        raise AssertionError("a later condition was evaluated")

    small = sd.Requirement("large V", "V >= 100", lambda i: i.vocab_size, at_least=100, defining=True)
    prop = sd.Property("x", "r", never, sd.Family("f"), (small, sd.Requirement("y", "y", never, at_most=0)))
    reading = prop.at(instance())
    assert [condition.holds for condition in reading.conditions] == [False]
    assert (reading.measurable, reading.measured) == (False, None)
    assert small.on(instance(vocab_size=100)).holds


def test_without_a_number_conditions_stop_at_the_first_that_is_not_met() -> None:
    """Assert that `beyond` evaluates all conditions and the measure, and its absence none after the first unmet one."""
    asked: list[str] = []

    def condition(name: str, value: float) -> sd.Requirement:
        return sd.Requirement(name, f"{name} <= 0", lambda i: asked.append(name) or value, at_most=0)

    prop = sd.Property("x", "r", lambda i: sd.Measured(1.0, at_most=0.0), sd.Family("f"))
    prop = dataclasses.replace(prop, conditions=(condition("a", 0.0), condition("b", 1.0), condition("c", 1.0)))
    quick = prop.at(instance(), beyond=False)
    assert (asked, quick.measured, quick.measurable) == (["a", "b"], None, True)
    assert [each.name for each in quick.unmet] == ["b"]
    whole = prop.at(instance())
    assert asked == ["a", "b", "a", "b", "c"]
    assert [each.name for each in whole.unmet] == ["b", "c"]
    assert whole.measured is not None
    asked.clear()
    inside = dataclasses.replace(prop, conditions=(condition("a", 0.0),)).at(instance(), beyond=False)
    assert inside.measured is not None


def test_shared_conditions_on_known_instances() -> None:
    from snapdyn.validation.claims import language as known

    case = instance()
    E = float(case.P[0] @ case.P[1] / np.linalg.norm(case.P[0]) / np.linalg.norm(case.P[1]))
    assert case.correlation == pytest.approx(2 * E)
    assert known.WEAK_CORRELATION.on(case).value == pytest.approx(2 * E)
    assert not known.UNIFORM.on(instance(weights=np.array([1.0, 2.0]))).holds
    assert not known.OWN_NEXT_TOKENS.on(instance(next_token=np.zeros(2, int))).holds
    assert known.ONE_QUERY.on(instance(query=np.array([0, 1]))).value == 2
    assert not known.OVERLAPPING.on(instance(P=np.eye(2))).holds
    assert not known.INDEPENDENT_ATTENTION.on(instance(P=np.ones((2, 2)))).holds
    assert not known.ZERO_START.on(instance(start=np.full((1, 3), 0.1))).holds


def test_the_error_by_rounding_is_measured() -> None:
    """Assert that a number that rounding changes gets an error of the size of its changes, and another one keeps it."""
    equal = instance(P=np.array([[1.0, 2.0, 0.0], [1.0, 0.0, 2.0]]) / 3)

    def of(measure) -> tuple[sd.Measured, sd.Measured]:
        prop = sd.Property("n", "linear algebra", lambda i: sd.Measured(measure(i), at_most=0.0), cases={"a": equal})
        number = prop.number(equal, prop.measure)
        assert not number.holds
        assert number.decided
        return number, prop.with_rounding(equal, number)

    _, cancels = of(lambda i: 1e16 * np.ptp(i.P[:, 0]) + 1.0)
    assert not cancels.decided
    assert cancels.holds
    plain, same = of(lambda i: i.P.max())
    assert same.error < 1e-13
    assert same.decided
    assert same.value == plain.value


WRONG: dict[str, Callable[[], object]] = {
    "measured": lambda: sd.Evidence().holds("error", "SGD", pd.Series([1.0, 2.0]), at_most=1.0),  # type: ignore[arg-type]
    "no bound": lambda: sd.Measured(1.0),
    "domain": lambda: sd.Property("p", "SGD", lambda i: None, "two"),  # type: ignore[arg-type]
    "empty box": lambda: sd.Box(),
    "logarithm of 0": lambda: sd.Box(eta=(0.0, 0.1, "log")),
    "range": lambda: sd.Family("two", vocab_size=(100, 10)),
    "line": lambda: sd.Picture.line("l", [1.0, 2.0], [1.0]),
    "attribute of a claim": lambda: sd.claim("x", source="own", title="t", statement="s", answer="No."),
    "headline": lambda: sd.Claim("x", "own", "t", "s", headline="a"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_odd_arguments_are_refused_in_one_line(name: str) -> None:
    """Assert an InputError whose message is one line with what was expected and what was received."""
    with pytest.raises(sd.InputError, match=r"^expected .*received") as caught:
        WRONG[name]()
    assert str(caught.value).isprintable()


def test_a_measure_says_why_it_has_no_number() -> None:
    """Assert that a reading carries the reason, and that a wrong theory without a number is no number."""

    def fails(i: object) -> sd.Measured:
        raise sd.validation.NoNumber("the run failed (at t = 3)")

    prop = sd.Property(
        "n", "mean field", fails, cases={"a": instance()}, controls={"wrong theory: none": lambda i: None}
    )
    assert prop.at(instance()).reason == "the run failed (at t = 3)"
    assert prop.at(instance()).measured is None
    assert prop.number(instance(), prop.measure) is None
    assert prop.number(instance(), prop.controls["wrong theory: none"]) is None
