"""Certificates of a user's theory: what is proved is true, what is false names where, and the rest is one sentence."""

import math

import mpmath
import pytest
import sympy as sp

import snapdyn as sd
from snapdyn.analytic.certificates import CERTIFICATES, certify, prove

u, v = sp.symbols("u v")


def test_a_true_inequality_is_proved_and_a_false_one_names_where() -> None:
    """Assert the proof of an inequality with a gap of 4e-5, and a false one's sub-box, at 50 digits."""
    gap = sp.log(1 + u * sp.exp(-u))
    statement = certify("gap", gap < sp.Rational(3133, 10000), {u: (0, 50)}, [gap < 0.313])
    assert statement.run().proved
    (wrong,) = statement.wrong
    failed = prove(wrong)
    assert failed.false_there
    with mpmath.workdps(50):
        assert all(mpmath.log1p(end * mpmath.exp(-end)) > 0.313 for end in failed.failing["u"])


@pytest.mark.parametrize(("expression", "point"), [
    (sp.sqrt(u) + u**3 - u**-2, 1.7), (u ** sp.Rational(1, 3) + sp.pi, 0.3), (sp.LambertW(u) * sp.erf(u), 2.5),
    (sp.Abs(-u) ** u + sp.E**u, 1.3), (0.1 * u + sp.gamma(u) - sp.loggamma(u) + sp.atan(u), 3.1),
])  # fmt: skip
def test_balls_enclose_the_value_of_sympy(expression: sp.Expr, point: float) -> None:
    """Assert both sides of a threshold at a relative distance of 1e-12 of the value at 30 digits."""
    value = expression.subs(u, sp.Rational(point)).evalf(30)
    for sign in (1, -1):
        bound = value + sign * sp.Rational(1, 10**12)
        proved = certify("value", expression < bound, {u: (point, point)}, [u < 0]).run().proved
        assert proved is (sign > 0)


@pytest.mark.parametrize(("inequality", "box", "message"), [
    (u <= 1, {u: (0, 1)}, "left < right or left > right"),
    (u < v, {u: (0, 1)}, "received none for v; add it to the box"),
    (sp.zeta(u) < 3, {u: (2, 3)}, r"received 'zeta\(u\)'"),
    (u < 3, {"u": (0, 1)}, "to be a Symbol"),
    (u < 3, {u: (0, math.inf)}, "the range of u"),
    (u < 3, {u: (1, 0)}, "a range of u that does not fall"),
    (u < 3, {u: (0, 1), sp.Symbol("u", positive=True): (2, 3)}, "two of u"),
])  # fmt: skip
def test_one_sentence(inequality: sp.Rel, box: dict[sp.Symbol, tuple[float, float]], message: str) -> None:
    """Assert one sentence for what the prover does not take."""
    with pytest.raises(sd.InputError, match=message):
        certify("bad", inequality, box, [u < 0])
    with pytest.raises(sd.InputError, match="one of snapdyn's"):
        certify(next(iter(CERTIFICATES)), u < 3, {u: (0, 1)}, [u < 0])


@pytest.mark.parametrize(("bound", "verdict"), [(1, "holds"), (sp.Rational(1, 2), "refuted")])
def test_a_claim_is_certified(bound: sp.Expr, verdict: str) -> None:
    """Assert the verdict of a claim by its certificate alone, for a true bound and a false one."""
    certify("sine", sp.sin(u) < bound, {u: (0, 1)}, [sp.sin(u) < sp.Rational(1, 3)])
    sd.register(sd.Claim("sine", "own", "Sine", "sin u is small.", certified=("sine",), grade="certified"))
    (result,) = sd.validate("sine").claims
    assert result.verdict == verdict
    assert any("false on the sub-box u in" in each.name for each in result.checks if each.role == "control")
