"""The mean field under a rule of descent: its flow, with or without what the rule remembers, and its mean map."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError, flag, whole
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.kernels.dormand_prince import BLOCK
from snapdyn.dynamics.kernels.law import WORK_ROWS
from snapdyn.dynamics.kernels.rules import FLOOR, RULE_FLOW, Flow, Layer, steps_of_rule
from snapdyn.dynamics.rules import DescentRule, optimizer_as_json
from snapdyn.dynamics.systems.base import ConservedSum
from snapdyn.dynamics.systems.mean_field import MeanField

LARGEST_BATCH = 1_000_000  # as SGD's


class RuleFlow(MeanField):
    """The mean field under a rule of descent, `MeanField(classes, eta_Y, eta_Z, optimizer=rule)`; t counts updates.

    With gbar the gradient of the mean field (T infinite) and E[g_B^2] = gbar^2 + Var(g)/B, the variance over classes,
    the flow of Adam is m' = kappa1 (gbar - m), v' = kappa2 (E[g_B^2] - v), x' = eta mhat/(sqrt(vhat) + epsilon),
    kappa_i = -ln beta_i, mhat = m/(1 - exp(-kappa1 t)), vhat alike. Without memory x' = eta gbar/(sqrt(E[g_B^2]) +
    epsilon). `descend` makes the rule's own updates with the same gbar and E[g_B^2]: the mean map.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y : float
        Learning rate of the decoder per update.
    eta_Z : float
        Learning rate of the attention logits per update.
    z_initial : (Q, M) array, optional
        Initial logits. Default 0.
    residual : bool
        Residual connection, as in `MeanField`; only without noise (batch_size=None).
    optimizer : rule or pair of rules
        One rule, or (rule of Y, rule of z).
    batch_size : int or None
        B of the noise that v sees; None: no noise, descent on the expectation.
    memory : bool
        Whether the moments m and v are part of the state.

    Notes
    -----
    With epsilon = 0, gradients below 1e-30 count as 0: ln sqrt(v + 1e-60) is a state value.

    Raises
    ------
    InputError
        As `MeanField`; a batch_size with the residual connection, or with an adaptive rule whose beta2 is 0: without
        memory of squares, the mean step is not a function of gbar and E[g_B^2].
    """

    compiled = RULE_FLOW
    reducible = False

    def _take_rules(self, rules: tuple[DescentRule, DescentRule], batch_size: int | None, memory: bool) -> None:
        self.rules = rules
        self.batch_size = None if batch_size is None else whole("batch_size", batch_size, 1, LARGEST_BATCH)
        self.memory = flag("memory", memory)
        numbers = [rule.numbers for rule in self.rules]
        self.sees_noise = self.batch_size is not None and any(each.adaptive for each in numbers)
        if self.sees_noise and self.residual:
            raise InputError(
                f"expected batch_size=None with the residual connection, received batch_size={batch_size}; drop one"
            )
        if self.sees_noise and any(each.adaptive and each.beta2 == 0.0 for each in numbers):
            raise InputError(
                f"expected batch_size=None with an adaptive rule without memory of squares (beta2 = 0), received "
                f"batch_size={batch_size}; leave it out, or use sgd with this rule"
            )
        values = {"optimizer": optimizer_as_json(rules), "batch_size": self.batch_size, "memory": self.memory}
        self.parameters = {**self.parameters, **values}
        self._lay_out()

    def _lay_out(self) -> None:
        """Places of what the rules remember, after [z slots, Y]."""
        values, slots = self.layout.size, self.layout.num_slots
        end, layers = values, []
        for rule, eta, start, stop in (
            (self.rules[1].numbers, self.eta_Z, 0, slots),
            (self.rules[0].numbers, self.eta_Y, slots, values),
        ):
            first = second = corrections = -1
            if self.memory and rule.beta1 > 0.0:
                first, end = end, end + stop - start
            if self.memory and rule.adaptive and rule.beta2 > 0.0:
                second, end = end, end + stop - start
            if rule.adaptive and max(first, second) >= 0:
                corrections, end = end, end + 2
            layers.append(Layer(rule, eta, start, stop, first, second, corrections))
        self.of_z, self.of_Y = layers
        self.values, self.size = values, end

    @property
    def with_steps(self) -> RuleFlow:
        """The system whose state `descend` changes: its moments are no part of the state."""
        other = copy.copy(self)
        other.memory = False
        for name in ("_arguments", "multiplications"):
            vars(other).pop(name, None)
        other._lay_out()
        return other

    @property
    def stepper(self) -> Any:
        return None if self.memory else steps_of_rule

    def initial_state(self) -> Floats:
        state = np.zeros(self.size)
        state[: self.layout.num_slots] = self.initial_logits
        for layer in (self.of_z, self.of_Y):
            if layer.second >= 0:
                floor = max(layer.rule.epsilon, FLOOR)
                state[layer.second : layer.second + layer.stop - layer.start] = math.log(floor)
        return state

    def kernel_arguments(self) -> tuple[Any, ...]:
        n = self.values
        inverse = 1.0 / self.batch_size if self.sees_noise and self.batch_size else 0.0
        square = scratch(n) if self.sees_noise else None
        moments = np.zeros((0 if self.memory else 3, n))
        flow = Flow(self.of_z, self.of_Y, inverse, scratch(n), square, scratch(4, BLOCK), moments)
        return self.layout.lists, np.ones(2), scratch(WORK_ROWS, self.layout.width), flow

    def decoder(self, state: Floats) -> Floats:
        return super().decoder(state[..., : self.values])

    def full_state(self, state: Floats) -> Floats:
        return state[..., : self.values]

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        return {} if self.is_adaptive else super().conserved_sums(state[..., : self.values])

    @property
    def is_adaptive(self) -> bool:
        """Whether a rule of one of the layers is adaptive; row sums are then not conserved."""
        return self.of_z.rule.adaptive or self.of_Y.rule.adaptive

    def value_name(self, index: int) -> str:
        if index < self.values:
            return super().value_name(index)
        for layer in (self.of_z, self.of_Y):
            for name, first in (("the mean gradient", layer.first), ("ln of the root mean square", layer.second)):
                if 0 <= index - first < layer.stop - layer.start and first >= 0:
                    return f"{name} of {super().value_name(layer.start + index - first)}"
        return "the bias correction"
