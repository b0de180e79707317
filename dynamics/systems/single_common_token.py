"""The reduced system of the phase transition: Eq. (13)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snapdyn.core.errors import choice, positive, real, whole
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.decoder import scaled_h_rate, speed
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.systems.base import CompiledSystem

# Their fourth powers, times K, are numbers.
SMALLEST_RHO0, LARGEST_RHO0 = 1e-70, 1e70


@kernel(fastmath=EXACT)
def single_common_token(
    state: Floats, out: Floats, num_classes: float, V: float, eta_Y: float, eta_Z: float, coupling: float, share: float
) -> float:
    """Write d(state)/dt to `out`; state = [z_c, B, V h], t counts batch-size-1 steps.

    z_c' = -eta_Z gamma coupling exp(4 z_c), B' = -share z_c', and (V h)' from Eq. (44) at rate eta_Y/K.
    As Eq. (13) is printed: coupling = K/rho0^4, share = 1. Consistent with Eqs. (98)-(100): coupling = (K-1)/rho0^4,
    share = 1/K.
    """
    fall = eta_Z * speed(state[2], V) * coupling * math.exp(4.0 * state[0])
    out[0] = -fall
    out[1] = share * fall
    out[2] = scaled_h_rate(state[2], eta_Y / num_classes, V)
    return 0.0


class SingleCommonToken(CompiledSystem):
    """Eq. (13): the logit of the single common token; its decrease drives the growth exponent B.

    z_c' = -eta_Z gamma c exp(4 z_c). Form "printed": c = K/rho0^4 = 1/C0 and B' = -z_c', as Eqs. (13) and (124) are
    printed. Form "consistent": c = (K-1)/rho0^4 and B' = -z_c'/K, which follow from Eqs. (98)-(100) on the per-step
    clock (claim `theorem4`).

    Parameters
    ----------
    num_classes : int
        K.
    vocab_size : int
        V.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    rho0 : float
        |c~_n|/P(l_c|n), taken as constant (it is at least 1 for all classes; smaller values are accepted).
    form : str
        "printed" or "consistent".

    Raises
    ------
    InputError
        Numbers out of range, or another `form`.

    Examples
    --------
    >>> import snapdyn as sd
    >>> run = sd.integrate(sd.SingleCommonToken(5, 100, 1.0, 0.5, rho0=3.0), [1.0, 100.0])
    >>> run.z[:, 0, 0].round(4)
    array([-0.0024, -0.6492])
    >>> run.extra["B"][:, 0].round(4)
    array([0.0005, 0.1298])
    """

    value_names = ("z of the common token", "growth exponent B", "V h")

    compiled = integrator_of(single_common_token)

    def __init__(
        self, num_classes: int, vocab_size: int, eta_Y: float, eta_Z: float, rho0: float, form: str = "consistent"
    ) -> None:
        K, V = whole("num_classes", num_classes, 1), whole("vocab_size", vocab_size, 2)
        self.eta_Y, self.eta_Z = positive("eta_Y", eta_Y), positive("eta_Z", eta_Z)
        choice("form", form, ("printed", "consistent"))
        # The equations need its fourth power.
        rho0 = real("rho0", rho0, at_least=SMALLEST_RHO0, at_most=LARGEST_RHO0, advice="give ||c~_n||/P(l_c|n)")
        self.parameters = {
            "num_classes": K,
            "vocab_size": V,
            "eta_Y": self.eta_Y,
            "eta_Z": self.eta_Z,
            "rho0": rho0,
            "form": form,
        }
        self.z_initial = np.zeros((1, 1))
        self.size = 3
        self._vocab_size = V
        coupling = K / rho0**4 if form == "printed" else (K - 1) / rho0**4
        self._constants = (float(K), float(V), self.eta_Y, self.eta_Z, coupling, 1.0 if form == "printed" else 1 / K)

    def initial_state(self) -> Floats:
        return np.zeros(3)

    def kernel_arguments(self) -> tuple[Any, ...]:
        return self._constants

    def loss(self, state: Floats) -> float:
        self.check_values(state)
        return math.log1p((self._vocab_size - 1) * math.exp(-state[2]))

    @property
    def num_logit_values(self) -> int:
        return 1

    def z_support(self, state: Floats) -> Floats:
        return state[..., :1]

    def extra(self, state: Floats) -> dict[str, Floats]:
        return {"B": state[..., 1:2], "h": state[..., 2:] / self._vocab_size}
