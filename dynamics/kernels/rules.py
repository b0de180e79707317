"""Rules of descent: how a gradient moves the parameters, as steps of training runs and as flows.

One `dynamics.rules.Rule` describes both. With the gradient g of J, an adaptive rule keeps the mean m of g, and the mean
v of g^2:

    step k = 1, 2, ...   m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
                         x <- x + eta (m/(1 - beta1^k)) / (sqrt(v/(1 - beta2^k)) + epsilon),  0/0 = 0
    flow, t in updates   m' = kappa1 (g - m),  v' = kappa2 (E[g_B^2] - v),  kappa_i = -ln beta_i,
                         x' = eta (m/(1 - exp(-kappa1 t))) / (sqrt(v/(1 - exp(-kappa2 t))) + epsilon).

Where a beta is 0, m = g or v = E[g_B^2]. A rule that is not adaptive has the velocity u <- mu u + g, x <- x + eta u
(heavy ball, mu = beta1), and the flow m' = kappa1 (g - m), x' = eta m/(1 - mu).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, Floats, kernel
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.elementary import exp_any
from snapdyn.dynamics.kernels.explicit_steps import explicit_steps
from snapdyn.dynamics.kernels.law import mean_gradient

# Gradients below it count as 0 in a flow with epsilon = 0: ln sqrt(v + FLOOR^2) is a state value.
FLOOR = 1e-30
LARGEST_LOGARITHM = 350.0  # the square of its exponential is finite


class Descent(NamedTuple):
    """The state [z slots, Y] that the steps change, its gradient, and the moments of adaptive rules."""

    state: Floats
    gradient: Floats
    first_moment: Floats  # (0,) where no rule is adaptive
    second_moment: Floats


class Update(NamedTuple):
    """Rules and rates of both layers."""

    rule_z: Any  # a `dynamics.rules.Rule`
    rule_Y: Any
    eta_z: float
    eta_Y: float
    schedule: Floats  # (steps,) multipliers of both rates; (0,): 1 throughout


@kernel(fastmath=REASSOCIATE, forceinline=True)
def heavy_ball(x, gradient, rate, momentum):
    """torch.optim.SGD on the loss -J (no dampening, not Nesterov); return NaN if x is not finite, else 0.

    On return, `gradient` holds momentum times the velocity. The gradient of the next batch is added to this, so that no
    array is needed for the velocity.
    """
    check = 0.0
    for i in range(x.size):
        velocity = gradient[i]
        gradient[i] = momentum * velocity
        x[i] += rate * velocity
        check += 0.0 * x[i]
    return check


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _square(g, square, at, inverse_batch):
    """E[g_B^2] = g^2 + (E[g_n^2] - g^2)/B, the mean square that v sees; the compiler removes the branch."""
    if square is None:
        return g * g
    return g * g + (square[at] - g * g) * inverse_batch


@kernel(fastmath=REASSOCIATE, forceinline=True)
def turn_into_direction(gradient, square, offset, inverse_batch, first, second, step, rule):
    """Replace a gradient by the direction of the update number `step`, from 1 on; the moments change as well.

    `square`, from `offset` on, has the mean squares of the gradients of the classes; None: v sees `gradient` itself.
    """
    if not rule.adaptive:
        for i in range(gradient.size):
            first[i] = rule.beta1 * first[i] + gradient[i]
            gradient[i] = first[i]
        return
    correction, root_correction = 1.0 / (1.0 - rule.beta1**step), 1.0 / math.sqrt(1.0 - rule.beta2**step)
    for i in range(gradient.size):
        g = gradient[i]
        first[i] = rule.beta1 * first[i] + (1.0 - rule.beta1) * g
        second[i] = rule.beta2 * second[i] + (1.0 - rule.beta2) * _square(g, square, offset + i, inverse_batch)
        # Without memory |g| itself, since the square of a small g underflows.
        root = abs(g) if square is None and rule.beta2 == 0.0 else math.sqrt(second[i]) * root_correction
        root += rule.epsilon
        gradient[i] = correction * first[i] / root if root > 0.0 else 0.0


@kernel(fastmath=EXACT, forceinline=True)
def is_updated(descent, update, num_slots, step):
    """Make update number `step` of z and Y, in place; return whether the state is finite."""
    state, gradient, check = descent.state, descent.gradient, 0.0
    multiplier = update.schedule[step - 1] if update.schedule.size > 0 else 1.0
    for part, eta, rule in (
        (slice(0, num_slots), update.eta_z, update.rule_z),
        (slice(num_slots, state.size), update.eta_Y, update.rule_Y),
    ):
        x, g = state[part], gradient[part]
        if rule.adaptive:
            turn_into_direction(g, None, 0, 0.0, descent.first_moment[part], descent.second_moment[part], step, rule)
        check += heavy_ball(x, g, multiplier * eta, 0.0 if rule.adaptive else rule.beta1)
    return check == 0.0  # else it is NaN


class Layer(NamedTuple):
    """One layer in the state of a flow: the values `start` to `stop`, and where the memory of the rule is."""

    rule: Any  # a `dynamics.rules.Rule`
    eta: float
    start: int
    stop: int
    first: int  # m/sqrt(v + f^2), f the larger of epsilon and FLOOR; m itself without v; -1: none
    second: int  # ln sqrt(v + f^2); -1: none
    corrections: int  # 1 - exp(-kappa1 t), 1 - exp(-kappa2 t); -1: none


class Flow(NamedTuple):
    """What the flow and the mean map of a rule need besides the mean field."""

    z: Layer
    Y: Layer
    inverse_batch: float  # 1/B of the noise that v sees; 0: none
    gradient: Floats  # (n,) scratch, n the size of [z slots, Y]
    square: Floats | None  # (n,) scratch; None without noise
    block: Floats  # (4, BLOCK) scratch
    moments: Floats  # (3, n) of the mean map: m, v, and the number of updates in the first entry


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _flow_of_layer(state, out, gradient, square, layer, flow):
    """Write the rate of the values of one layer, and of what its rule remembers."""
    rule, eta, start, block, inverse_batch = layer.rule, layer.eta, layer.start, flow.block, flow.inverse_batch
    first, second = layer.first, layer.second
    kappa1 = -math.log(rule.beta1) if first >= 0 else 0.0
    kappa2 = -math.log(rule.beta2) if second >= 0 else 0.0
    if not rule.adaptive:
        gain = eta / (1.0 - rule.beta1)
        for i in range(layer.stop - start):
            m = gradient[start + i]
            if first >= 0:
                out[first + i] = kappa1 * (m - state[first + i])
                m = state[first + i]
            out[start + i] = gain * m
        return
    built1, built2 = 1.0, 1.0
    if layer.corrections >= 0:
        for k, kappa in ((0, kappa1), (1, kappa2)):
            out[layer.corrections + k] = kappa * (1.0 - state[layer.corrections + k])
        built1 = state[layer.corrections] if first >= 0 else 1.0
        built2 = state[layer.corrections + 1] if second >= 0 else 1.0
    inverse1, inverse2 = 1.0 / built1 if built1 > 0.0 else 0.0, 1.0 / built2 if built2 > 0.0 else 0.0
    for at in range(start, layer.stop, block.shape[1]):
        n = min(block.shape[1], layer.stop - at)
        g, size, inverse, root, growth = gradient[at : at + n], block[0, :n], block[1, :n], block[2, :n], block[3, :n]
        if second >= 0:
            part = slice(second + at - start, second + at - start + n)
            numbers = max(rule.epsilon, FLOOR), kappa2, inverse2, inverse_batch
            _second_moment(state[part], out[part], g, square, at, numbers, block)
        for i in range(n):
            if second < 0:
                size[i], inverse[i], growth[i] = 1.0, 1.0, 0.0
            if inverse2 == 0.0 or second < 0:
                root[i] = abs(g[i]) if square is None else math.sqrt(_square(g[i], square, at + i, inverse_batch))
            root[i] += rule.epsilon
        if first >= 0:
            part = slice(first + at - start, first + at - start + n)
            a, change = state[part], out[part]
            for i in range(n):
                change[i] = kappa1 * (g[i] * inverse[i] - a[i]) - a[i] * growth[i]
            if inverse1 > 0.0:  # else g itself is the mean
                g = size
                for i in range(n):
                    g[i] = a[i] * size[i] * inverse1
        for i in range(n):
            out[at + i] = eta * g[i] / root[i] if root[i] > 0.0 else 0.0


@kernel(fastmath=REASSOCIATE, forceinline=True)
def _second_moment(u, change, g, square, at, numbers, block):
    """Write u' of u = ln sqrt(v + f^2) to `change`, and exp(u), exp(-u), the root of vhat and u' to `block`.

    The loops are short and of few arrays, so that the compiler vectorises them.
    """
    floor, kappa2, inverse2, inverse_batch = numbers
    size, inverse, root, growth = block[0], block[1], block[2], block[3]
    for i in range(u.size):
        size[i] = exp_any(min(max(u[i], -LARGEST_LOGARITHM), LARGEST_LOGARITHM))
        inverse[i] = 1.0 / size[i]
    for i in range(u.size):
        root[i] = max(size[i] * size[i] - floor * floor, 0.0)
        growth[i] = 0.5 * kappa2 * (_square(g[i], square, at + i, inverse_batch) - root[i]) * inverse[i] * inverse[i]
    for i in range(u.size):
        root[i] = math.sqrt(root[i] * inverse2)
        change[i] = growth[i]


@kernel(fastmath=REASSOCIATE, forceinline=True)
def rule_flow(state, out, lists, rates, work, flow):
    """Write d(state)/dt of the flow of a rule to `out`, t in updates; return the loss. `rates` are (1, 1)."""
    n = flow.gradient.size
    loss = mean_gradient(state[:n], flow.gradient, flow.square, lists, rates, work)
    for layer in (flow.z, flow.Y):
        _flow_of_layer(state, out, flow.gradient, flow.square, layer, flow)
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def mean_direction(state, out, lists, rates, work, flow, reals):
    """Write the direction of the next update of the mean map, times the rates, to the first n values of `out`.

    The mean map is the rule's own step with the mean gradient in place of g, and E[g_B^2] in place of g^2. It has its
    moments in flow.moments, and the rest of the state stays as it is.
    """
    n, gradient, square, moments = flow.gradient.size, flow.gradient, flow.square, flow.moments
    mean_gradient(state[:n], gradient, square, lists, rates, work)
    moments[2, 0] += 1.0
    for i in range(out.size):
        out[i] = 0.0
    for layer in (flow.z, flow.Y):
        part = slice(layer.start, layer.stop)
        memory = moments[0, part], moments[1, part], moments[2, 0]
        turn_into_direction(gradient[part], square, layer.start, flow.inverse_batch, *memory, layer.rule)
        for i in range(layer.start, layer.stop):
            out[i] = layer.eta * gradient[i]


RULE_FLOW = integrator_of(rule_flow, rule_flow)


@kernel(nogil=True)
def steps_of_rule(arguments, motion):
    """As `explicit_steps`: updates of the mean map, with the arguments of `mean_direction`."""
    return explicit_steps(mean_direction, arguments, motion)
