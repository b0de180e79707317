"""The mean field of finite sequences on representatives.

The rate takes the sums of the mean field and those of its second order (`kernels/finite_length`): over the outputs, of
functions of a token's attention, its values of Y and the errors of the class; and over the tokens, of the same
functions. A balanced colouring of the mean field serves it: there entries of one colour meet the same pairs of colours
of an output and of its value of Y, and outputs of one colour those of an entry and of its value of Y. The lists of
`quotient` are the same, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.finite_length_quotient import finite_length_quotient
from snapdyn.dynamics.symmetry.reduced_mean_field import ReducedMeanField
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.layout import scratch


class ReducedFiniteLength(ReducedMeanField):
    """The mean field of finite sequences, of one value per colour.

    Parameters
    ----------
    full : FiniteLengthMeanField
    colouring : Colouring
        A balanced colouring of its state, for the sums of the mean field.
    """

    full: FiniteLengthMeanField

    def kernel_arguments(self) -> tuple[Any, ...]:
        lengths = self.quotient.ranges[:, 1::2] - self.quotient.ranges[:, ::2]
        width, most_terms = int(lengths[:, :2].max()), int(lengths[:, 2].max())
        *lists, rates = self._constants
        rates = np.append(rates, self.full.inverse_length)
        return *lists, rates, scratch(16, width), scratch(2, most_terms)

    def write_rate(self, state: Floats, out: Floats) -> float:
        return float(finite_length_quotient(state, out, *self._arguments))

    def extra(self, state: Floats) -> dict[str, Floats]:
        noise = self.full.count_noise(self.z_support(state))
        self.full.warn_outside(noise, [self.loss(each) for each in state.reshape(-1, self.size)])
        return {"count_noise": noise}
