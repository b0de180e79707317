"""Remark 1: the original flow with equal overlaps, where it has a closed form."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics.classes.synthetic import token_table
from snapdyn.validation.claims.decoder._shared import flow_against
from snapdyn.validation.claims.language import (
    OWN_NEXT_TOKENS,
    UNIFORM,
    Claim,
    Family,
    Floats,
    Instance,
    Measured,
    Property,
    Requirement,
)
from snapdyn.validation.claims.sample_classes import equal_overlap


class EqualOverlaps(Family):
    """Classes of which every pair overlaps by rho, at random profiles; V = K in half of the instances."""

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number`: one common token, whose attention is sqrt(rho) in every class."""
        drawn = super().draw(seed, number)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 4)))
        K, each = drawn.num_classes, int(rng.integers(1, 4))
        rho = float(np.exp(rng.uniform(np.log(1e-3), np.log(0.9))))
        own = rng.dirichlet(np.ones(each), size=K)
        P = token_table(np.sqrt(rho / (1 - rho)) * np.linalg.norm(own, axis=1, keepdims=True), own)
        V = K if rng.random() < 0.5 else drawn.vocab_size
        return replace(drawn, P=P, vocab_size=max(V, 2))


DOMAIN = EqualOverlaps(
    "equal overlaps of 0.001 to 0.9, V the number of classes in half of them",
    "any",
    num_classes=(2, 8),
    num_common=(1, 1),
    num_distinct=(1, 3),
    vocab_size=(2, 10**12),
    ratio=(1.0, 1.0),
    horizon=(1e-2, 1e6),
    eta_Y=(1e-6, 1e6),
)


def overlaps(instance: Instance) -> Floats:
    """f_n.f_k of all pairs, (K (K-1)/2,); 0 with one class."""
    found = instance.gram[np.triu_indices(instance.num_classes, 1)]
    return found if found.size else np.zeros(1)


def width(instance: Instance) -> float:
    """Largest less smallest overlap of two classes."""
    return np.ptp(overlaps(instance))


def error_of(instance: Instance, rate: int = 1, prefactor: int = 0, rounds: bool = False) -> Measured:
    """Distance of the original flow's logits from (1-rho)^prefactor (V-1) h zeta_n, h at (1-rho)^rate eta_Y.

    With `rounds`, h is taken at s = t, as if each class were drawn in every step.
    """
    left, clock = 1 - float(overlaps(instance).mean()), instance.num_classes if rounds else 1
    return flow_against(instance, instance.gram, clock * left**rate, left**prefactor)


def up_to_200(num_classes: int, vocab_size: int) -> Instance:
    """Classes with the overlap 0.02, up to eta_Y t = 200."""
    return Instance.of(equal_overlap(num_classes, vocab_size, 0.02), 1.0, 1.0, 200.0)


CLAIM = Claim(
    "remark1",
    source="Remark 1, Eqs. (41)-(43)",
    title="If all classes overlap equally, the original flow is the modified one, slowed down",
    statement="Under the original flow, with all off-diagonals of E equal to rho and uniform classes, "
    "w_n = (1-rho) (V-1) h(t/K) zeta_n. Corrected: w_n = (V-1) h(t/K) zeta_n with h at rate (1-rho) eta_Y, for K = V.",
    latex=r"w_n=(1-\rho)(V-1)\,h(t/K)\,\zeta_n\ \to\ w_n=(V-1)\,h_{(1-\rho)\eta_Y}(t/K)\,\zeta_n\quad(K=V)",
    conditions=("attention frozen", "uniform classes, equal overlaps", "K = V: sum over classes of zeta_n is 0"),
    conclusion=(
        "For rho > 0 this holds only for K = V, with the factor 1-rho in the rate of h and not in front of h. At "
        "rho = 0.02 and eta_Y t = 200 the printed form errs by {K = V = 5:.1e} of the largest logit. For K < V "
        "neither the printed nor the corrected form holds: the corrected one errs by {K = 5, V = 50:.1e} at K = 5, V "
        "= 50 and by {K = 20, V = 400:.1e} at K = 20, V = 400."
    ),
    expected="corrected",
    properties=(
        Property(
            "logits of the original flow by scipy against (V-1) h zeta_n at rate (1-rho) eta_Y, relative to the "
            "largest",
            "frozen decoder",
            error_of,
            DOMAIN,
            conditions=(
                OWN_NEXT_TOKENS,
                UNIFORM,
                Requirement("equal overlaps", "largest less smallest off-diagonal of E <= 1e-10", width, at_most=1e-10),
                Requirement(
                    "every output is a class's next token",
                    "V - K = 0",
                    lambda instance: instance.vocab_size - instance.num_classes,
                    at_most=0,
                ),
            ),
            controls={
                "wrong theory: s = t, without the factor 1/K of the clock": partial(error_of, rounds=True),
                "wrong theory (F17): -F E' e_n lowers the rate: h at rate eta_Y/(1-rho)": partial(error_of, rate=-1),
            },
            evaluations=(60, 2000),
            corrected=True,
            directed=False,
            beyond={f"K = {K}, V = {V}": up_to_200(K, V) for K, V in ((5, 50), (20, 400))},
        ),
        Property(
            "logits of the original flow by scipy against the printed (1-rho) (V-1) h zeta_n, rho = 0.02",
            "frozen decoder",
            partial(error_of, rate=0, prefactor=1),
            cases={"K = V = 5": up_to_200(5, 5)},
        ),
    ),
    proved=("original-flow", "original-flow-speed"),
    findings=("F2", "F17"),
)
