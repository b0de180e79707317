"""Derivation for the time of the flow under a schedule of the learning rates."""

from typing import Any

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, declare, eta_Y, eta_Z, t

g_Y, g_z, m = sp.Function("g_Y"), sp.Function("g_z"), sp.Function("m")
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
        sp.Integral(m(past), (past, 0, t)),
        lambda claim: {
            "dY/dt": sp.diff(Y(claim), t) - m(t) * eta_Y * g_Y(Y(claim), z(claim)),
            "dz/dt": sp.diff(z(claim), t) - m(t) * eta_Z * g_z(Y(claim), z(claim)),
            "the start": claim.subs(t, 0).doit(),
        },
    )
