"""How slow attention has to be so that no distinct token falls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import Trajectory, log_times, random_classes
from snapdyn.dynamics.classes import Ints
from snapdyn.validation.claims.approximations._slow_attention_settings import falls_of_many_classes
from snapdyn.validation.claims.attention._shared import (
    A_DISTINCT_TOKEN,
    distinct_tokens,
    falls,
    without_normalisation,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.linear_response import FROZEN_SPEED, LITTLE_MEMORY, response
from snapdyn.validation.maps.fallen_tokens import slow_attention_map
from snapdyn.validation.observables import FALL, largest_fall
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import OWN_NEXT_TOKENS, ZERO_START
from snapdyn.validation.rungs import ladder
from snapdyn.validation.rungs.run import DESCENT, EXACT, LEADING, MEAN_FIELD, MODIFIED, SGD, run_on_rung
from snapdyn.validation.sample_classes import counterexample
from snapdyn.validation.search import Family, load
from snapdyn.validation.statistics import standard_error

# What decides is (eta_Z/eta_Y) (V h)^2, which grows with ln t.
DOMAIN = Family(
    "slow attention",
    "any",
    uniform=False,
    num_classes=(1, 6),
    num_common=(0, 3),
    num_distinct=(0, 4),
    vocab_size=(2, 10**6),
    ratio=(1e-6, 1e-1),
    horizon=(1e-2, 1e6),
    eta_Y=(1e-6, 1e6),
)
STORED = "theorem2a-strong-slow"
CORRELATIONS = ("weak", "strong")


@claim(
    "slow-attention",
    source="Assumption 1(c), Theorem 2(a)",
    title="eta_Y much larger than eta_Z lets all distinct tokens gain attention",
    answer="How much larger depends on the classes and the duration: no ratio eta_Z/eta_Y is slow enough for all.",
    statement="With eta_Y much larger than eta_Z no distinct token's logit falls, at weak and at strong correlation. "
    "How much larger depends on the classes and on t_end: by linear response memory must take less than xi_n. No "
    "eta_Z/eta_Y alone is slow enough for all classes and times: for K -> infinity classes of unequal profiles, K << V "
    "and u = eta_Y t/K << 1, those that fall turn at a fixed K (eta_Z/eta_Y) u^2. "
    "Tokens fall in the mean field and above: Y remembers old attention; under Eq. (10), which forgets it, those "
    "measured here rise.",
    latex=r"\eta_Z\ll\eta_Y\ \Rightarrow\ \dot z_{ml}>0\ \text{for distinct } l",
    expected="conditional",
    assumptions=(
        "xi_n > 0 with frozen attention, original flow",
        "share of xi_n that memory takes, by linear response, + 10 max |change of ln f| < 1 up to t_end",
    ),
    findings=("F10",),
    properties=(
        Property(
            "largest fall of a distinct logit over the largest |z|",
            MEAN_FIELD,
            falls(MEAN_FIELD, distinct_tokens),
            DOMAIN,
            conditions=(
                A_DISTINCT_TOKEN,
                replace(OWN_NEXT_TOKENS, defining=False),
                ZERO_START,
                FROZEN_SPEED,
                LITTLE_MEMORY,
            ),
            controls={"wrong theory: no division by |q|, z' = c o (g - c.g)": without_normalisation(distinct_tokens)},
            evaluations=(30, 1500),
        ),
    ),
)
def slow_attention(evidence: Evidence) -> None:
    count = 64 if evidence.full else 4
    ratios = np.array([1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0] if evidence.full else [1e-3, 0.1, 1.0, 10.0])
    times = log_times(1e-1, 1e4, 80)
    seeds = range(700, 700 + count)
    share, counts = {}, []
    for name in CORRELATIONS:
        members = [
            random_classes((3, 5)[k % 2], 1, 4, vocab_size=100, correlation=name, seed=s) for k, s in enumerate(seeds)
        ]
        total = sum(classes.distinct_tokens().size for classes in members)
        fallen = {rung: np.zeros(ratios.size) for rung in (MEAN_FIELD, EXACT)}
        for position, ratio in enumerate(ratios):
            for classes in members:
                flows = {
                    MEAN_FIELD: run_on_rung(MEAN_FIELD, classes, 1.0, float(ratio), times),
                    EXACT: run_on_rung(EXACT, classes, 1.0, float(ratio), times),
                }
                for rung, run in flows.items():
                    fallen[rung][position] += _fallen(run, classes.distinct_tokens())
        settings = f"{total} tokens, {name} correlation, V = 100, t <= 1e4/eta_Y"
        for position, ratio in ((0, ratios[0]), (-1, ratios[-1])):
            add = evidence.outside if position else evidence.holds
            what = f"distinct tokens that fall at eta_Z/eta_Y = {ratio:g}: {settings}"
            add(what, MEAN_FIELD, float(fallen[MEAN_FIELD][position]), at_most=0.0)
        evidence.holds(
            f"distinct tokens that fall under Eq. (10), all eta_Z/eta_Y together: {settings}",
            MODIFIED,
            float(fallen[EXACT].sum()),
            at_most=0.0,
        )
        share[name] = fallen[MEAN_FIELD] / total
        counts.append(
            f"{name} correlation "
            + ", ".join(f"{int(c)} of {total} at {r:g}" for r, c in zip(ratios, fallen[MEAN_FIELD], strict=True))
        )

    # The store: a token falls at eta_Z/eta_Y <= 1e-3 and t <= 1e4/eta_Y.
    stored = load(STORED).instance
    fall = falls(MEAN_FIELD, distinct_tokens)(stored)
    assert fall is not None
    what = f"stored {STORED}, eta_Z/eta_Y = {stored.ratio:g}, t = {stored.horizon:.0f}/eta_Y: fall over the largest |z|"
    evidence.outside(what, MEAN_FIELD, fall.value, at_most=FALL)
    # Its memory by linear response is above 1; a theory of the rates alone would call it slow attention.
    memory = LITTLE_MEMORY.measure(stored)
    evidence.holds(f"stored {STORED}: memory by linear response, which excludes it", MEAN_FIELD, memory, at_least=1.0)
    lead = stored.vocab_size * float(analytic.h(stored.t_end / stored.num_classes, stored.eta_Y, stored.vocab_size))
    evidence.control(
        f"wrong theory: (eta_Z/eta_Y)(V h)^2 < 4.5 is slow attention; that number on {STORED}, over 4.5",
        MEAN_FIELD,
        stored.ratio * lead**2 / 4.5,
        at_least=1.0,
    )
    rungs, many = _on_every_rung(evidence), falls_of_many_classes(evidence)
    onset = response(load("theorem2a-memory").instance).onset
    evidence.conclusion = (
        f"Distinct tokens that fall, by eta_Z/eta_Y (V = 100, t <= 1e4/eta_Y): {'; '.join(counts)}; none under "
        f"Eq. (10). No such number is safe: the stored instance {STORED} falls at {stored.ratio:g} by "
        f"t = {stored.horizon:.0f}/eta_Y, where memory by linear response is {memory:.1f} (at most 1 is required); "
        f"theorem2a-memory falls at t = {onset:.3g}. {many} {rungs}"
    )
    evidence.maps = [slow_attention_map(evidence.level)]
    evidence.seeds = list(seeds)
    evidence.picture = Picture(
        "eta_Z/eta_Y",
        "share of distinct tokens that fall",
        (
            Picture.line("weak correlation", ratios, share["weak"], "simulation"),
            Picture.line("strong correlation", ratios, share["strong"], "control"),
        ),
    )


def _on_every_rung(evidence: Evidence) -> str:
    """The F10 instance on every rung: rates small enough for steps to follow the flow, at its peak and late."""
    rungs = ladder(counterexample(), 0.1, 0.03, [170.0, 1200.0], seeds=400 if evidence.full else 100, batch_size=64)
    change = {rung.name: np.diff([run.z_support[:, 9] for run in rung.runs])[:, 0] for rung in rungs.rungs}
    for rung, add in (
        (DESCENT, evidence.outside),
        (MEAN_FIELD, evidence.outside),
        (EXACT, evidence.holds),
        (LEADING, evidence.holds),
    ):
        what = "F10: fall of the instance's token between t = 17/eta_Y and 120/eta_Y, eta_Z/eta_Y = 0.3"
        add(what, rung, float(-change[rung][0]), at_most=0.0)
    score = float(-change[SGD].mean() / standard_error(change[SGD]))
    evidence.outside("F10: the same, mean of SGD in standard errors", SGD, score, at_most=3.0)
    return (
        f"On the ladder the F10 instance's token falls in SGD ({score:.1f} standard errors), descent "
        f"({change[DESCENT][0]:+.1e}) and the mean field ({change[MEAN_FIELD][0]:+.1e}), and rises from the modified "
        f"decoder on ({change[EXACT][0]:+.1e})."
    )


def _fallen(run: Trajectory, tokens: Ints) -> int:
    """Tokens of the only query whose logit drops below its running maximum by more than the solver's error."""
    return sum(largest_fall(run, np.array([token])) > FALL for token in tokens)
