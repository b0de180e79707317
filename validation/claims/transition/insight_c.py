"""Reading (c) of Theorem 4: eta_Z fixed, smaller eta_Y, a larger late B, sparser attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import log_times, syn_medium
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.transition._shared import (
    DISTINCT_TOKENS,
    entropies,
    largest_step,
    log_growth,
    published_entropies,
    trained_entropies,
)
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import Claim
from snapdyn.validation.requirements import (
    INDEPENDENT_ATTENTION,
    LARGE_VOCABULARY,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    UNIFORM,
    WEAK_CORRELATION,
    ZERO_START,
)
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.search import Family, Instance, flow
from snapdyn.validation.search.box import Box

RATIOS = (1.0, 2.0, 5.0, 10.0)  # eta_Y/eta_Z of Fig. 6
# Factor of eta_Y in the searched statement.
FACTOR = 2.0

WEAK = Family(
    "weak correlation",
    num_common=(1, 3),
    vocab_size=(4, 10**12),
    ratio=(1e-6, 1e3),
    horizon=(1e1, 1e8),
    eta_Y=(1e-6, 1e6),
)


def slope_of_u(visits: Floats, V: float) -> float:
    """Largest d ln u/d ln t, u = V h, by the derivative of Eq. (45), eta_Y = 1."""
    u = V * np.asarray(analytic.h(visits, 1.0, V))
    return float(((np.expm1(u) + (V - 1) * u) / (u * (np.exp(u) + V - 1))).max())


def elasticity(instance: Instance) -> float:
    """Largest d ln u/d ln t of the classes at t_end, u = V h(p_n t)."""
    return slope_of_u(instance.eta_Y * instance.prior * instance.t_end, instance.vocab_size)


# With equal priors Eq. (10) moves attention as a function of Gamma alone, and Gamma is proportional to u^2/eta_Y:
# Gamma at 2 eta_Y is smaller if u grows slower than sqrt(t) from t_end to 2 t_end. The elasticity of u falls in time.
AFTER = Requirement(
    "time after the transition", "d ln u/d ln t <= 1/2 at t_end, u = V h(p_n t)", elasticity, at_most=0.5
)


def growth_ratio(eta_Y: float, eta_Z: float) -> Callable[[Instance], Measured | None]:
    """Largest ratio of ln chi of a dominant token at t_end with factors of the rates to that without, Eq. (10)."""

    def measure(instance: Instance) -> Measured | None:
        changed = replace(instance, eta_Y=instance.eta_Y * eta_Y, eta_Z=instance.eta_Z * eta_Z)
        run, other = flow(instance, EXACT), flow(changed, EXACT)
        if run is None or other is None:
            return None
        ratio = np.array([log_growth(other, n)[-1] / log_growth(run, n)[-1] for n in range(instance.num_classes)])
        if not np.isfinite(ratio).all():
            return None
        return Measured(float(ratio.max()), at_most=1, error=1e-6, where=f"class {int(ratio.argmax())}")

    return measure


def slope_at_transition(given: Mapping[str, float]) -> Measured:
    """d ln u/d ln t at t0: Gamma is proportional to u^2/eta_Y and falls with eta_Y below 1/2."""
    V = given["V"]
    return Measured(slope_of_u(2 * analytic.u_plus(V), V), at_most=0.5)


def limit(nu_power: float) -> Callable[[Mapping[str, float]], Measured]:
    """|B - (132)| over its derived bound, with nu to a power in (132).

    With L = ln(V eta_Y s), B - (132) = (1/4) ln(c + (u/L)^2), c = C0 nu/(2 K (1-1/V)^2 L^2). Upwards that is at most
    c/4, since u <= L. Downwards ln(L/u)/2 <= (L-u)/(2u) with L - u <= -ln(1 - u/s) <= 2 ln(2) u/s for s >= 2 u: at
    most ln(2)/(eta_Y s). What takes the place of u/s is below 1/2 from t0 on (`theorem4-pieces`).
    """

    def measure(given: Mapping[str, float]) -> Measured:
        K, V, nu, rho0 = 10, given["V"], given["nu"], given["rho0"]
        t = given["later"] * float(analytic.transition_time(K, V, 1.0, kind="end"))
        B = float(analytic.growth_exponent(t, 1.0, 1 / nu, V, K, rho0, form="printed"))
        L, scale = np.log(V * t / K), 2 * K * (V - 1) ** 2 / V**2
        expected = np.log(L) / 2 + np.log(scale / nu**nu_power) / 4
        c = rho0**4 / K * nu / (scale * L**2)
        return Measured(abs(B - expected) / (c / 4 + np.log(2) * K / t), at_most=1)

    return measure


@dataclass(frozen=True)
class Order:
    """Entropies (ratios, cells, seeds) at increasing eta_Y/eta_Z, from `ratio` on."""

    entropy: Floats
    ratio: float
    least: float  # eta_Y/eta_Z from which the order is that of (c)


def of_mean_field(ratios: Floats, t: Floats) -> Floats:
    """Entropies (nats) of Syn-Medium Q = 3 at eta_Z = 1, (ratios, times)."""
    runs = [run_on_rung(MEAN_FIELD, syn_medium(3), ratio, 1.0, t) for ratio in ratios]
    return np.array([run.entropy(distinct_only=True).mean(axis=1) for run in runs])


@cache
def entropies_of_rungs() -> dict[str, Floats]:
    """Entropies (ratios, cells, seeds) at `RATIOS`, eta_Z = 1."""
    published = published_entropies()[1:].reshape(12, 4, 1).swapaxes(0, 1)
    return trained_entropies([(ratio, 1.0) for ratio in RATIOS]) | {"published, Q >= 3": published}


def orders(inside: bool) -> dict[str, Order]:
    """Steps to the next larger eta_Y/eta_Z from the ratio at which (c) begins on, or the one before."""
    steps, late = (slice(1, 3), slice(1, 3)) if inside else (slice(0, 2), slice(0, 2))
    found = {name: Order(entropy[steps], RATIOS[steps][0], 2.0) for name, entropy in entropies_of_rungs().items()}
    ratios = np.array([10.0, 20.0, 50.0])[late]
    entropy = of_mean_field(ratios, np.array([1e9]))[:, :, None]
    return found | {"mean field, t = 1e9": Order(entropy, ratios[0], 20.0)}


def map_of_order(level: str) -> Map:
    """Change of the entropy per unit of ln eta_Y in the mean field: negative where (c) is reversed."""
    full = level == "full"
    edges = np.geomspace(0.05, 100, 26 if full else 10)
    t = log_times(10, 1e9, 33 if full else 9)
    slope = np.diff(of_mean_field(edges, t), axis=0) / np.diff(np.log(edges))[:, None]
    ratios = np.sqrt(edges[1:] * edges[:-1])
    classes = syn_medium(3)
    printed = 2 * float(analytic.u_plus(classes.vocab_size)) * classes.num_classes / ratios
    shown = (printed >= t[0]) & (printed <= t[-1])
    return Map(
        "Where a larger eta_Y makes attention denser (c): Syn-Medium Q = 3, eta_Z = 1, mean field",
        "eta_Y/eta_Z",
        "t (batch-size-1 steps)",
        "-d(entropy)/d ln eta_Y, nats: (c) fails where positive",
        ratios,
        t,
        -slope.T,
        0.0,
        (Picture.line("t0", ratios[shown], printed[shown], "printed"),),
        scale="linear",
    )


def picture() -> Picture:
    """Entropies over eta_Y/eta_Z on every rung."""
    shown = {name: entropy[:, 0].mean(axis=1) for name, entropy in entropies_of_rungs().items()}
    times = np.array([1e3, 1e5, 1e9])
    ...


CLAIM = Claim(
    "insight-c",
    source="Section 6, reading (c) of Theorem 4; Eqs. (132)-(133), Fig. 6",
    title="A smaller eta_Y at fixed eta_Z gives a larger late B and sparser attention",
    answer="Holds in the closed forms and the modified decoder after t0 (V <= 5: later); "
    "in the mean field the order reverses below a ratio that grows with t.",
    statement="With eta_Z fixed, a smaller eta_Y gives a larger B late and sparser attention: a larger "
    "nu = eta_Y/eta_Z leaves attention denser. B -> (1/2) ln ln(V eta_Y t/K) + (1/4) ln(2K (V-1)^2/(V^2 nu)) for "
    "t >> (K/(V eta_Y)) exp(sqrt(nu C0/(2K))).",
    latex=r"B\to\tfrac12\ln\ln\frac{V\eta_Yt}{K}+\tfrac14\ln\frac{2K(V-1)^2}{V^2\nu},\quad "
    r"t\gg\frac{K}{V\eta_Y}e^{\sqrt{\nu C_0/(2K)}},\ \nu=\frac{\eta_Y}{\eta_Z}",
    expected="conditional",
    assumptions=(
        "t beyond the time at which V h grows as sqrt(t) for the smaller eta_Y (before t0 for V >= 6, after it for V = "
        "4 and 5), weak correlation, equal priors",
        "modified decoder; in the mean field and under SGD only down to some eta_Y/eta_Z, which grows with t",
    ),
    findings=("F10", "F14"),
    properties=Property(
        "largest ratio of ln chi of a dominant token at 2 eta_Y to that at eta_Y, t_end",
        "modified decoder",
        growth_ratio(FACTOR, 1.0),
        WEAK,
        conditions=(
            SEVERAL_CLASSES,
            OWN_NEXT_TOKENS,
            DISTINCT_TOKENS,
            OVERLAPPING,
            INDEPENDENT_ATTENTION,
            LARGE_VOCABULARY,
            replace(ZERO_START, defining=True),
            AFTER,
            WEAK_CORRELATION,
            UNIFORM,
        ),
        controls={
            "wrong theory: larger rates are denser (both rates doubled)": growth_ratio(FACTOR, FACTOR),
            "wrong theory: a larger eta_Z is denser (2 eta_Z in place of 2 eta_Y)": growth_ratio(1.0, FACTOR),
        },
        evaluations=(50, 2000),
    ),
)
