"""Orders: how fast every approximation of the ladder gets better with its small parameter."""

from __future__ import annotations

import numpy as np

from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Line, Picture
from snapdyn.validation.register import claim
from snapdyn.validation.rungs.orders import (
    LENGTH,
    SPREAD,
    STEP,
    Fit,
    flow_fits,
    length_fit,
    mean_spread_fit,
    spread_fits,
    step_fit,
)


@claim(
    "orders",
    source="own; ladder of approximations",
    title="Every approximation errs at the order that theory gives",
    answer="Holds: the fitted orders agree, and wrong theories give others.",
    statement="At fixed eta t the gap from descent to the mean field is O(eta), the bias of sequences of length T is "
    "O(1/T), seeds spread by O(sqrt(eta/batch)) and their mean by 1/sqrt(seeds), the reduced system (13) errs by "
    "O(lambda_1). The leading beta errs by O(1/(V lambda_1)): it needs an overlap that is not too small.",
    latex=r"O(\eta),\quad O(1/T),\quad O(\sqrt{\eta/B}),\quad O(1/\sqrt{\text{seeds}}),\quad O(\lambda_1),\quad "
    r"O\!\left(\tfrac{1}{V\lambda_1}\right)",
    grade="measured",
    domain="descent, SGD: 3 strongly correlated classes, V = 50, eta t = 10 or 40, eta 8e-4 to 0.2, batch 1 to 256, "
    "T-1 32 to 1024; beta and (13): 5 classes, one common token, eta_Z/eta_Y = 1e-4, eta_Y t = 50, V 1e5 to 1.6e6 at "
    "P_c = 0.05, P_c 0.025 to 0.1 at V = 1e8",
    speaks_of="sequences of runs whose small parameter falls: step size, 1/T, 1/batch, 1/V, overlap",
)
def orders(evidence: Evidence) -> None:
    fits = measured_fits(evidence.level)
    by_name = {fit.name: fit for fit in fits}
    steps, rates = (by_name[name].parameter / by_name[name].parameter[0] for name in (STEP, SPREAD))
    evidence.checks += [check for fit in fits for check in fit.checks()]
    evidence.conclusion = (
        "Fitted slopes (± standard error, part of the next term): "
        + "; ".join(f"{fit.name}: {fit.order} ({fit.control}: {fit.wrong_order:.2f})" for fit in fits)
        + ". In brackets: what a wrong theory's gaps give."
    )
    evidence.picture = Picture(
        "small parameter, over its largest",
        "gap, over its largest",
        (
            _normalised("descent to mean field, eta", by_name[STEP]),
            _normalised("bias of finite T, 1/(T-1)", by_name[LENGTH]),
            _normalised("spread of seeds, eta", by_name[SPREAD]),
            Picture.line("slope 1", steps, steps, "bound"),
            Picture.line("slope 1/2", rates, np.sqrt(rates), "bound"),
        ),
        yscale="log",
    )


def measured_fits(level: str, factor: float | None = None) -> list[Fit]:
    """Every gap whose order is fitted, measured; "full" takes four times as many seeds, or `factor` times as many."""
    many = factor or (1 if level == "quick" else 4)
    return [
        step_fit(round(50 * many)),
        length_fit(round(60 * many)),
        *spread_fits(round(200 * many)),
        mean_spread_fit(round(64 * many)),
        *flow_fits(),
    ]


def _normalised(label: str, fit: Fit) -> Line:
    return Picture.line(label, fit.parameter / fit.parameter[0], fit.gap / fit.gap[0], "simulation")
