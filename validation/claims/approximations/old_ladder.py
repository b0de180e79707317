"""The ladder from SGD to a closed form: which approximation breaks first, and how slow attention must be."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import Trajectory, log_times, random_classes
from snapdyn.validation.checks import Check, Role
from snapdyn.validation.instances import counterexample
from snapdyn.validation.maps.fallen_tokens import slow_attention_map
from snapdyn.validation.observables import FALL, largest_fall
from snapdyn.validation.pictures import Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.rungs import ladder
from snapdyn.validation.rungs.gaps import Ints
from snapdyn.validation.rungs.names import (
    DESCENT,
    EXACT,
    LEADING,
    MEAN_FIELD,
    SGD,
)
from snapdyn.validation.statistics import standard_error

# Rungs on which the counterexample is looked at, and whether the statement speaks of them.
COUNTEREXAMPLE: tuple[tuple[str, Role], ...] = (
    (DESCENT, "outside"),
    (MEAN_FIELD, "outside"),
    (EXACT, "statement"),
    (LEADING, "statement"),
)


@claim(
    "slow-attention",
    source="Assumption 1(c), Theorem 2(a)",
    title="How slow attention has to be",
    statement="With eta_Y much larger than eta_Z no distinct token's logit falls, at weak and at strong correlation. "
    "The tokens that fall otherwise do so in the mean field and above, none under Eq. (10): Y remembers old attention.",
    latex=r"\eta_Z\ll\eta_Y\ \Rightarrow\ \dot z_{ml}>0\ \text{for distinct } l",
    expected="conditional",
    assumptions=("eta_Z/eta_Y <= 1e-3 in the mean field; any ratio under Eq. (10)", "t <= 1e4/eta_Y"),
    findings=("F10",),
)
def slow_attention(level: str) -> Evidence:
    count = 4 if level == "quick" else 64
    ratios = np.array([1e-3, 0.1, 1.0, 10.0] if level == "quick" else [1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0])
    times = log_times(1e-1, 1e4, 80)
    seeds = range(700, 700 + count)
    ensembles = {
        correlation: [
            random_classes((3, 5)[k % 2], 1, 4, vocab_size=100, correlation=correlation, seed=seed)
            for k, seed in enumerate(seeds)
        ]
        for correlation in ("weak", "strong")
    }
    fallen = {(name, rung): np.zeros(ratios.size) for name in ensembles for rung in (MEAN_FIELD, EXACT)}
    common = 0
    for name, members in ensembles.items():
        for position, ratio in enumerate(ratios):
            for classes in members:
                flows = ladder(classes, 1.0, float(ratio), times, seeds=0, max_steps=1)
                for rung in (MEAN_FIELD, EXACT):
                    fallen[name, rung][position] += _fallen(flows[rung].runs[0], classes.distinct_tokens())
                common += int(position == 0 and _fallen(flows[MEAN_FIELD].runs[0], classes.common_tokens()) > 0)
    totals = {name: sum(classes.distinct_tokens().size for classes in members) for name, members in ensembles.items()}
    # The counterexample on every rung: rates small enough for steps to follow the flow, record at its peak and late.
    rungs = ladder(
        counterexample(),
        0.1,
        0.03,
        [170.0, 1200.0],
        seeds=100 if level == "quick" else 400,
        batch_size=64,
    )
    change = {rung.name: np.diff([run.z_support[:, 9] for run in rung.runs])[:, 0] for rung in rungs.rungs}
    score = -change[SGD].mean() / standard_error(change[SGD])
    share = {name: fallen[name, MEAN_FIELD] / totals[name] for name in ensembles}
    return Evidence(
        maps=(slow_attention_map(level),),
        checks=[
            *(
                Check(
                    f"distinct tokens that fall at eta_Z/eta_Y = 1e-3, of {totals[name]}, {name} correlation",
                    "mean field",
                    float(fallen[name, MEAN_FIELD][0]),
                    0.0,
                )
                for name in ensembles
            ),
            *(
                Check(
                    f"the same with the modified decoder, {name} correlation, all eta_Z/eta_Y together",
                    "modified decoder",
                    float(fallen[name, EXACT].sum()),
                    0.0,
                )
                for name in ensembles
            ),
            *(
                Check(
                    f"the same at eta_Z/eta_Y = 10, {name} correlation",
                    "mean field",
                    float(fallen[name, MEAN_FIELD][-1]),
                    0.0,
                    role="outside",
                )
                for name in ensembles
            ),
            *(
                Check(
                    "F10: fall of the counterexample's token between t = 17/eta_Y and 120/eta_Y, ratio 0.3",
                    rung,
                    float(-change[rung][0]),
                    0.0,
                    role=role,
                )
                for rung, role in COUNTEREXAMPLE
            ),
            Check("the same, mean of SGD in standard errors", "SGD", float(score), 3.0, role="outside"),
            Check(
                "wrong theory: common tokens do not fall either (instances where they do)",
                "mean field",
                float(common),
                0.0,
                role="control",
            ),
        ],
        conclusion="Distinct tokens that fall, by eta_Z/eta_Y: "
        + "; ".join(
            f"{name} correlation "
            + ", ".join(
                f"{int(c)} of {totals[name]} at {r:g}" for r, c in zip(ratios, fallen[name, MEAN_FIELD], strict=True)
            )
            for name in ensembles
        )
        + f"; {int(sum(fallen[name, EXACT].sum() for name in ensembles))} under Eq. (10) at any ratio. On the ladder "
        f"the counterexample's token falls in SGD ({score:.1f} standard errors), descent ({change[DESCENT][0]:+.1e}) "
        f"and the mean field ({change[MEAN_FIELD][0]:+.1e}), and rises from the modified decoder on "
        f"({change[EXACT][0]:+.1e}).",
        picture=Picture(
            "eta_Z/eta_Y",
            "share of distinct tokens that fall",
            (
                Picture.line("weak correlation", ratios, share["weak"], "simulation"),
                Picture.line("strong correlation", ratios, share["strong"], "control"),
            ),
        ),
        seeds=seeds,
        tried=len(ratios) * sum(map(len, ensembles.values())),
    )


def _fallen(run: Trajectory, tokens: Ints) -> int:
    """Tokens of the only query whose logit drops below its running maximum by more than the solver's error."""
    return sum(largest_fall(run, np.array([token])) > FALL for token in tokens)
