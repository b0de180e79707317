"""A made-up claim result."""

from snapdyn.validation import Box, ClaimResult, Map, Measured, Picture, Property
from snapdyn.validation.register import Verdict
from tests.validation.helpers import check, result_of

SQUARES = Property("x^2", "arithmetic", lambda p: Measured(p["x"] ** 2, at_most=1.0), Box(x=(0.0, 1.0)))


def invented(id: str, verdict: Verdict, expected: Verdict | None = None) -> ClaimResult:
    """A claim result with each role of check, and text that must be escaped."""
    checks = (
        check("a < b & c", "closed form", 0.5, 1.0),
        check("printed", "closed form", 2.0, 1.0),
        check("boundary", "mean field", 2.0, 1.0, role="outside"),
        check("at least", "mean field", 2.0, 1.0, relation=">=", role="corrected"),
        check("wrong theory", "mean field", 2.0, 1.0, role="control"),
        check("not a number", "mean field", float("nan"), 1.0),
    )
    evidence = {
        "conclusion": "It is so.", "tried": 12345, "level": "full", "counterexample": {"x": 0.5},
        "map": Map("Where it holds", "x", "y", "violation", [1, 2], [1, 3], [[0.1, 0.2], [0.3, 0.4]], 0.25),
        "picture": Picture("t", "y", (Picture.line("theory", [1, 2, 3], [1, 2, 3]),)),
    }  # fmt: skip
    return result_of(
        verdict, checks, evidence, id=id, source="[own]", title=f"Title <{id}>", statement="x < y",
        latex=r"\frac{1}{2}", corrected_latex=r"\frac{1}{3}", chapter="attention", grade="proved",
        properties=(SQUARES,), conditions=("T is infinite",), expected=expected or verdict, findings=("F1",),
        seconds=83.0,
    )  # fmt: skip
