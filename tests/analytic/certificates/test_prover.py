"""The prover and its balls, and every certificate: statements are proved, wrong theories refuted."""

from collections.abc import Callable
from typing import Any

import flint
import mpmath as mp
import pytest

from snapdyn import InputError
from snapdyn.analytic.certificates import CERTIFICATES, Inequality, Statement, prove, prover
from snapdyn.report.mathematics import formula_html


def test_a_true_inequality_is_proved_with_a_bound_below_the_minimum() -> None:
    """Assert that exp(u) > 2.7 u on [0.01, 100] is proved, and that its bound is positive and below exp(1) - 2.7."""
    found = prove(Inequality("exp(u) > 2.7 u", lambda u: u.exp() - 2.7 * u, {"u": (0.01, 100.0)}))
    assert found.proved
    assert not found.false_there
    assert found.failing is None
    assert 0 < found.lower_bound <= mp.e - 2.7
    assert str(found).startswith("proved on u in [0.01, 100]: exp(u) > 2.7 u (")


def test_a_false_inequality_is_refuted_where_it_is_false() -> None:
    """Assert that the sub-box of exp(u) > 2.8 u lies between the two roots, and is called false."""
    found = prove(Inequality("exp(u) > 2.8 u", lambda u: u.exp() - 2.8 * u, {"u": (0.01, 100.0)}))
    assert not found.proved
    assert found.false_there
    low, high = found.failing["u"]
    assert mp.exp(low) < 2.8 * low
    assert mp.exp(high) < 2.8 * high
    assert "false on the sub-box u in [" in str(found)


def test_an_equality_stays_undecided() -> None:
    """Assert that (u - 1)^2 > 0 is undecided, not false, on a sub-box narrower than 1e-12 at u = 1."""
    found = prove(Inequality("(u - 1)^2 > 0", lambda u: (u - 1) ** 2, {"u": (0.1, 3.0)}))
    assert not found.proved
    assert not found.false_there
    low, high = found.failing["u"]
    assert 0 < high - low < 1e-12
    assert low == pytest.approx(1, abs=2e-12)
    assert "undecided on the sub-box" in str(found)


def test_the_budget_counts_sub_boxes() -> None:
    """Assert that the prover stops at the budget, undecided, and proves the same with a larger one."""
    close = Inequality("u^2 - 2u + 1.0001 > 0", lambda u: u * u - 2 * u + 1.0001, {"u": (0.5, 2.0)})
    stopped = prove(close, max_boxes=20)
    # Both halves of the last sub-box are evaluated.
    assert not stopped.proved
    assert 20 <= stopped.boxes <= 21
    assert stopped.lower_bound < 0
    assert prove(close).proved


def test_a_condition_leaves_sub_boxes_out_but_never_hides_a_failure() -> None:
    """Assert x + y < 1 inside the disc of radius 0.7, and a failure inside the disc of radius 0.72."""
    box = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    inside = Inequality("x + y < 1", lambda x, y: 1 - x - y, box, where=lambda x, y: 0.49 - x * x - y * y)
    assert prove(inside).proved
    wider = Inequality("x + y < 1", lambda x, y: 1 - x - y, box, where=lambda x, y: 0.72**2 - x * x - y * y)
    found = prove(wider)
    assert found.false_there
    (_, x), (_, y) = found.failing.values()
    assert x**2 + y**2 <= 0.72**2
    # Without the condition's help the corner would be the first failure.
    assert (x, y) != (1.0, 1.0)


def test_rounding_is_part_of_the_proof() -> None:
    """Assert that exp(u) - 1 - u > 0 at u = 1e-15, where doubles give 0 or worse, is proved, its negative refuted."""
    point = {"u": (1e-15, 1e-15)}
    assert prove(Inequality("exp(u) > 1 + u", lambda u: u.exp() - 1 - u, point)).proved
    assert prove(Inequality("exp(u) < 1 + u", lambda u: 1 + u - u.exp(), point)).false_there


@pytest.mark.parametrize("ends", [(2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_a_range_must_be_finite_and_ordered(ends: tuple[float, float]) -> None:
    """Assert the message for an empty, infinite or undefined range."""
    with pytest.raises(InputError, match="expected a finite range for u, received"):
        prove(Inequality("u > 0", lambda u: u, {"u": ends}))


def test_a_condition_that_excludes_the_box_is_no_proof() -> None:
    """Assert that an inequality about nothing is refused."""
    with pytest.raises(InputError, match=r"expected a condition that holds somewhere on u in \[1, 2\], received"):
        prove(Inequality("u > 3", lambda u: u - 3, {"u": (1.0, 2.0)}, where=lambda u: -u))


def moment(weight: Callable[[mp.mpf], mp.mpf], u: float) -> mp.mpf:
    """Integral of weight(t) exp(u t) over [0, 1], by quadrature."""
    return mp.quad(lambda t: weight(t) * mp.exp(u * t), mp.linspace(0, 1, 9))


FUNCTIONS = {
    "expm1_ratio": lambda t: mp.mpf(1),
    "expm1_excess": lambda t: 1 - t,
    "exp_moment": lambda t: t,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("low", "high"), [(-40.0, -3.0), (-1e-3, 2.0), (0.0, 5.0), (1e-15, 1e-8), (3.0, 40.0)])
def test_a_ball_spans_the_values_at_the_ends(name: str, low: float, high: float) -> None:
    """Assert that the ball holds the integral at both ends and in the middle, and hardly more."""
    function: Callable[[Any], Any] = getattr(prover, name)
    with mp.workdps(40), flint.ctx.workprec(192):
        ball = function(flint.arb(low).union(flint.arb(high)))
        ends = [moment(FUNCTIONS[name], u) for u in (low, high)]
        for value in (*ends, moment(FUNCTIONS[name], (low + high) / 2)):
            assert ball.contains(flint.arb(mp.nstr(value, 30), abs(float(value)) * 1e-25))
        # Radii of balls have 30 bits.
        assert float(ball.rad()) <= (ends[1] - ends[0]) / 2 * (1 + 1e-7) + 1e-7 * ends[0]


@pytest.mark.parametrize("id_", CERTIFICATES)
def test_the_statement_is_certified(id_: str) -> None:
    """Assert that every inequality is proved with a positive bound, on a number of sub-boxes that seconds allow."""
    certificate = CERTIFICATES[id_].run(max_boxes=10_000)
    assert certificate.proved, certificate.failing
    assert certificate.failing is None
    assert certificate.statement is CERTIFICATES[id_]
    assert all(proof.lower_bound > 0 for proof in certificate.proofs)
    assert str(certificate) == (
        f"{id_}: certified on {certificate.boxes} sub-boxes of {len(certificate.proofs)} inequalities"
    )
    assert "<code>" not in formula_html(certificate.statement.latex)


@pytest.mark.parametrize("id_", CERTIFICATES)
def test_the_wrong_theories_are_refuted(id_: str) -> None:
    """Assert that the prover finds a sub-box inside the box on which each wrong inequality is false everywhere."""
    assert CERTIFICATES[id_].wrong
    for wrong in CERTIFICATES[id_].wrong:
        found = prove(wrong, max_boxes=50_000)
        assert not found.proved
        assert found.false_there
        for name, (low, high) in found.failing.items():
            assert wrong.box[name][0] <= low <= high <= wrong.box[name][1]


def test_a_certificate_that_fails_names_its_sub_box() -> None:
    """Assert that a statement made of a wrong inequality is not proved, and that its sentence gives the sub-box."""
    base = CERTIFICATES["gamma-single-maximum"]
    failed = Statement(
        "toy", base.title, base.source, base.words, base.latex, base.box, "", base.wrong, base.wrong
    ).run()
    assert not failed.proved
    assert failed.failing is failed.proofs[0]
    assert "toy: not proved: gamma increases up to t0'" in str(failed)
    assert "false on the sub-box V in [" in str(failed)
