"""Reading (b) of Theorem 4: raising both rates gives a larger B and sparser attention."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.validation.claims._shared import SEVERAL
from snapdyn.validation.claims.language import (
    MEAN_FIELD,
    Claim,
    Floats,
    Instance,
    Measured,
    Property,
    Requirement,
    flow,
    noise,
)
from snapdyn.validation.claims.transition._shared import (
    WEAK_FAMILY,
    WEAKLY_CORRELATED,
    changed,
    growth_at_other_rates,
    largest_step,
    published_entropies,
    trained_entropies,
)

ATTENTION_RATES = (0.5, 1.0, 2.0, 3.0)  # of Fig. 6
# Factor of the rates in the searched statements.
FACTOR = 3.0
# Solvers of relative tolerance 1e-8 on both sides, over up to some thousand steps, and a growing solution.
SOLVER = 1e-3

MOVING = Requirement(
    "two classes overlap, so attention moves",
    "largest f_n.f_k >= 1e-6",
    lambda i: (i.gram - np.eye(i.num_classes)).max(),
    at_least=1e-6,
    defining=True,
)


def clock(instance: Instance, eta_Y: float = 1.0, eta_Z: float = 1.0, t_end: float = 1.0) -> Measured:
    """|z at the rates 3 eta and t_end - z at other rates and another time| over the largest |z|, mean field."""
    # The clock is compared at the last time; a looser time grid of the second run leaves it as it is.
    faster = changed(instance, FACTOR, FACTOR)
    run, other = (flow(each, MEAN_FIELD, 2) for each in (faster, changed(instance, eta_Y, eta_Z, t_end)))
    # Smaller logits are rounding.
    scale = max(np.abs(run.z[-1]).max(), noise(instance, MEAN_FIELD) / SOLVER)
    return Measured(np.abs(run.z[-1] - other.z[-1]).max() / scale, at_most=SOLVER)


def growth_step(instance: Instance, eta_Y: float = FACTOR, eta_Z: float = FACTOR) -> Measured:
    """Smallest change of ln chi of a dominant token when the rates get factors, over the largest ln chi; Eq. (10)."""
    growth = growth_at_other_rates(instance, eta_Y, eta_Z)
    steps = (growth[1] - growth[0]) / np.abs(growth).max(axis=0)
    return Measured(steps.min(), at_least=0, error=1e-6, where=f"class {steps.argmin()}")


AFTER = Requirement(
    "time after the transition",
    "eta_Y p_n t_end >= 2 ln V for every class",
    lambda i: i.flow_rates[0] * i.prior.min() * i.t_end / np.log(i.vocab_size),
    at_least=2,
    defining=True,
)


def entropies_at_larger_rates() -> dict[str, Floats]:
    """Entropies (nats) at increasing rates of one ratio: (rates, cells, seeds)."""
    return {
        "SGD, eta_Y/eta_Z = 2": trained_entropies(*((2 * rate, rate) for rate in ATTENTION_RATES)),
        "published, 48 pairs": published_entropies().swapaxes(0, 1).reshape(4, 16, 1),
    }


CLAIM = Claim(
    "insight-b",
    source="Section 6, reading (b) of Theorem 4; Eqs. (132)-(133)",
    title="Larger rates at fixed eta_Y/eta_Z give more growth and sparser attention",
    statement="With eta_Y/eta_Z fixed, larger rates give a larger B and sparser attention at the same step: the flows "
    "with rates c eta at step t are those with rates eta at step c t.",
    latex=r"\nu=\eta_Y/\eta_Z\ \text{fixed},\ \eta_Z\uparrow\ \Rightarrow\ B_n(t)\uparrow",
    conditions=(
        "for sparser attention: attention gets sparser with time",
        "for a larger B: Eq. (10), weak correlation, equal priors",
        "steps small enough that training follows the flow",
    ),
    conclusion=(
        "Holds; in the flows larger rates change only the clock. At the same eta t the rates make no difference. "
        "Published entropies fall with eta_Z in all 48 pairs (largest step {published, 48 pairs:+.3f})."
    ),
    properties=(
        Property(
            "rates times 3 at t against the old rates at 3 t: |difference of z| over largest |z|",
            "mean field",
            partial(clock, t_end=FACTOR),
            replace(SEVERAL, num_distinct=(0, 4), shared_next_tokens=True),
            conditions=(MOVING,),
            controls={
                "wrong theory: only eta_Z sets the clock (3 eta_Z in place of 3 t)": partial(clock, eta_Z=FACTOR),
                "wrong theory: only eta_Y sets the clock (3 eta_Y in place of 3 t)": partial(clock, eta_Y=FACTOR),
            },
            evaluations=(60, 2000),
            directed=False,
        ),
        Property(
            "smallest (ln chi(3 eta) - ln chi(eta))/ln chi of a dominant token at t_end",
            "modified decoder",
            growth_step,
            WEAK_FAMILY,
            conditions=(*WEAKLY_CORRELATED, AFTER),
            controls={
                "wrong theory: eta_Y alone makes B larger (3 eta_Y, eta_Z as it is)": partial(growth_step, eta_Z=1.0)
            },
            evaluations=(60, 2000),
        ),
        Property(
            "largest step of the entropy over distinct tokens to the next larger rates",
            "as in Fig. 6",
            largest_step,
            controls={
                "wrong theory: eta_Y alone makes attention sparser (2 to 4 at eta_Z = 1)": lambda _: largest_step(
                    trained_entropies((2.0, 1.0), (4.0, 1.0))
                )
            },
            cases=entropies_at_larger_rates,
        ),
    ),
)
