"""Derivations for schedules and rules of descent: the time of the flow, what an adaptive rule keeps, equal tokens."""

from typing import Any

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, declare, eta_Y, eta_Z, t

g_Y, g_z, multiplier = sp.Function("g_Y"), sp.Function("g_z"), sp.Function("m")
"""Gradients of any decoder and attention, as functions of the state (Y, z), and the multiplier of both rates."""


class Y(sp.Function):
    """Decoder on the flow without a schedule, at its time: dY/dtau = eta_Y g_Y(Y, z)."""

    def fdiff(self, argindex: int = 1) -> Any:
        return eta_Y * g_Y(Y(self.args[0]), z(self.args[0]))


class z(sp.Function):
    """Attention on the flow without a schedule, at its time: dz/dtau = eta_Z g_z(Y, z)."""

    def fdiff(self, argindex: int = 1) -> Any:
        return eta_Z * g_z(Y(self.args[0]), z(self.args[0]))


@declare
def schedule_clock() -> Derivation:
    """Return the time tau(t) at which the flow without a schedule is where the flow with rates m(t) eta is at t."""
    past = sp.Symbol("r", positive=True)
    # Y(tau(t)) and z(tau(t)) must solve the flow whose rates are both multiplied by m(t).
    return Derivation(
        "With rates m(t) eta_Y and m(t) eta_Z the state at t is that of the flow with eta_Y, eta_Z at int_0^t m",
        "own; change of time",
        r"\tau(t)",
        sp.Integral(multiplier(past), (past, 0, t)),
        lambda claim: {
            "dY/dt": sp.diff(Y(claim), t) - multiplier(t) * eta_Y * g_Y(Y(claim), z(claim)),
            "dz/dt": sp.diff(z(claim), t) - multiplier(t) * eta_Z * g_z(Y(claim), z(claim)),
            "the start": claim.subs(t, 0).doit(),
        },
    )


r, f, w, y, u = sp.symbols("r f w y u", positive=True)
"""Ratio of two tokens; of the second token: attention f in a class, c before the update, value and velocity of Y."""
d, s, e = sp.symbols("d s e", real=True)
"""Y(e_n - alpha_n) of the second token, f_n . Y(e_n - alpha_n), and one entry of e_n - alpha_n."""
m, v, b1, b2, mu = sp.symbols("m v beta_1 beta_2 mu", positive=True)
p = sp.Symbol("p", positive=True)
"""Weight of a class in the gradient: its share of the batch, or its prior."""


def _direction(first: Any, second: Any, gradient: Any) -> Any:
    """Direction of an adaptive rule with epsilon = 0, without the corrections of bias, which all coordinates share."""
    return (b1 * first + (1 - b1) * gradient) / sp.sqrt(b2 * second + (1 - b2) * gradient**2)


@declare
def adaptive_gain() -> Derivation:
    """Return the ratio of attention of two tokens after an update, where it was r in every class before.

    The induction over updates: attention in the ratio r in every class, rows of Y in the ratio r and moments of z in
    the ratios r^2 and r^4 are so again. A class enters the gradient by one term of a sum, and an output by one column,
    so one class and one output stand for any number of them.
    """

    def after(ratio: Any) -> dict[str, Any]:
        def gradient(of: Any) -> Any:
            return p * of * f * (of * d - of * f * s)

        first, second = gradient(ratio), gradient(1)
        m_1, v_1 = (b * q + (1 - b) * g for b, q, g in ((b1, ratio**2 * m, first), (b2, ratio**4 * v, first**2)))
        m_2, v_2 = (b * q + (1 - b) * g for b, q, g in ((b1, m, second), (b2, v, second**2)))
        steps = _direction(ratio**2 * m, ratio**4 * v, first), _direction(m, v, second)
        rows = [of * y + eta_Y * (mu * of * u + p * of * f * e) for of in (ratio, 1)]
        return {
            "attention": sp.simplify(r * w * sp.exp(eta_Z * steps[0]) / (w * sp.exp(eta_Z * steps[1]))) - ratio,
            "decoder": sp.simplify(rows[0] / rows[1]) - r,
            "m": sp.simplify(m_1 / m_2) - r**2,
            "v": sp.simplify(v_1 / v_2) - r**4,
        }

    return Derivation(
        "Attention by an adaptive rule, decoder by gradient descent: c_nl/c_nl' does not change, for any batches",
        "own; rules of descent",
        r"c_{nl}/c_{nl'}",
        r,
        after,
    )


@declare
def sign_equal_time() -> Derivation:
    """Return the time at which sign descent has made two distinct tokens of a class equal, without common tokens.

    Rows of Y of distinct tokens are eta_Y k (2 e_n - 1), so d is the same for both tokens and z' has the sign of
    f_l (1 - f_l S), S the sum of f. For any number of tokens f_max S >= sum of f^2 = 1: the largest falls, and the
    smallest rises.
    """
    L, angle = sp.Symbol("L", positive=True), sp.Symbol("theta", positive=True)
    large, small = sp.cos(angle), sp.sin(angle)

    def residuals(time: Any) -> dict[str, Any]:
        total = large + small
        shares = sp.symbols("f1:6", positive=True)
        return {
            "gradient": sp.simplify(large * (1 - large * total) + large * small * (large - small)),
            "gradient of the other": sp.simplify(small * (1 - small * total) - large * small * (large - small)),
            "any number": sp.expand(
                shares[0] * sum(shares) - sum(q**2 for q in shares) - sum(q * (shares[0] - q) for q in shares)
            ),
            "ln c1/c2 at this time": (L - 2 * eta_Z * t).subs(t, time),
        }

    return Derivation(
        "Sign descent of both layers, no common tokens: two tokens with ln(c_1/c_2) = L are equal after L/(2 eta_Z)",
        "own; rules of descent",
        r"k_{\text{equal}}",
        L / (2 * eta_Z),
        residuals,
    )
