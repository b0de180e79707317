"""Remark 1: the original flow with equal overlaps, where it has a closed form."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import log_times
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.accurate_runs import original_flow
from snapdyn.validation.checks import Check, Role
from snapdyn.validation.instances import equal_overlap
from snapdyn.validation.pictures import Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.rungs import ladder
from snapdyn.validation.rungs.closed_forms import decoder_of_logits, modified_logits
from snapdyn.validation.rungs.gaps import Ladder
from snapdyn.validation.rungs.names import CLOSED, DESCENT, MEAN_FIELD, ORIGINAL, SGD

ROLES: tuple[tuple[str, Role], ...] = (("printed", "statement"), ("recomputed", "corrected"))


def _gap(rungs: Ladder, finer: str, W: Floats, which: str = "gap") -> Floats:
    """Gap (N,) of the logits W, put in the closed form's place, to another rung."""
    classes = rungs[CLOSED].runs[0].classes
    assert classes is not None
    form = decoder_of_logits(classes, rungs.t, W)
    return np.asarray(rungs.with_rung(CLOSED, form).compare(finer, CLOSED)[which].sel(observable="logits").values)


@claim(
    "remark1",
    source="Remark 1, Eqs. (41)-(43)",
    title="The original flow with equal overlaps",
    statement="Under the original flow, with all off-diagonals of E equal to rho and uniform classes, "
    "w_n = (1-rho) (V-1) h(t/K) zeta_n. Corrected: w_n = (V-1) h(t/K) zeta_n with h at rate (1-rho) eta_Y, for K = V.",
    latex=r"w_n=(1-\rho)(V-1)\,h(t/K)\,\zeta_n\ \to\ w_n=(V-1)\,h_{(1-\rho)\eta_Y}(t/K)\,\zeta_n\quad(K=V)",
    expected="corrected",
    assumptions=("attention frozen", "uniform classes, equal overlaps", "K = V: sum over classes of zeta_n is 0"),
    findings=("F2", "F17"),
)
def remark1(level: str) -> Evidence:
    rho, eta, batch = 0.02, 0.05, 64
    times = log_times(2.0, 200 / eta, 60 if level == "quick" else 300)
    errors: dict[tuple[int, int, str], Floats] = {}
    ratio: dict[tuple[int, int], float] = {}
    ladders: dict[tuple[int, int], Ladder] = {}
    for K, V in ((5, 5), (5, 50), (20, 400)):
        classes = equal_overlap(K, V, rho)
        seeds = 0 if V > K else 20 if level == "quick" else 80
        rungs = ladder(classes, eta, 1e-6 * eta, times, seeds=seeds, batch_size=batch, branch="decoder")
        forms = {
            "printed": modified_logits(classes, rungs.t, eta, 1 - rho),
            "recomputed": modified_logits(classes, rungs.t, (1 - rho) * eta),
            "per round": modified_logits(classes, rungs.t * K, (1 - rho) * eta),
        }
        for name, W in forms.items():
            errors[K, V, name] = _gap(rungs, ORIGINAL, W)
        if K == V:
            upper = {
                (rung, name): float(_gap(rungs, rung, forms[name], "resolved").max())
                for rung in (SGD, DESCENT, MEAN_FIELD)
                for name in ("printed", "recomputed")
            }
        a = original_flow(classes, eta, rungs.t[-1:])[1]
        ratio[K, V] = float(-a[-1, 0, 1] / a[-1, 0, 0] * (V - 1))
        ladders[K, V] = rungs
    worst = {key: float(values.max()) for key, values in errors.items()}
    five, t = equal_overlap(5, 5, rho), ladders[5, 5].t
    modified = five.E_prime()[0, 1] * 4
    # The term -F E' e_n of (26) turns the original flow into the modified one.
    faster = float((modified_logits(five, t, eta) / modified_logits(five, t, (1 - rho) * eta))[:, 0, 0].min())
    # rtol 1e-9 per step, some hundred steps.
    solver = 1e-7
    # What the rungs above the original flow give up themselves: freezing, stepping, and the bias of the seeds' mean.
    gaps = ladders[5, 5].gaps.gap.sel(observable="logits").max("t")
    frozen = float(gaps.sel(rung=ORIGINAL)) + solver
    stepped = float(gaps.sel(rung=MEAN_FIELD)) + frozen
    explained = {MEAN_FIELD: frozen, DESCENT: stepped, SGD: stepped + eta / batch}
    return Evidence(
        checks=[
            Check(
                "printed form at K = V = 5, largest error over the largest logit",
                ORIGINAL,
                worst[5, 5, "printed"],
                solver,
            ),
            Check(
                "recomputed form at K = V = 5, largest error over the largest logit",
                ORIGINAL,
                worst[5, 5, "recomputed"],
                solver,
                role="corrected",
            ),
            *(
                Check(
                    f"{name} form at K = V = 5 against {rung}: bound what the rungs between give up",
                    rung,
                    upper[rung, name],
                    explained[rung],
                    role=role,
                )
                for name, role in ROLES
                for rung in explained
            ),
            Check(
                "beta (V-1)/iota of the original flow at K = V = 5: |ratio - 1|",
                ORIGINAL,
                abs(ratio[5, 5] - 1),
                solver,
                role="corrected",
            ),
            *(
                Check(
                    f"recomputed form at K = {K} < V = {V}",
                    ORIGINAL,
                    worst[K, V, "recomputed"],
                    solver,
                    role="outside",
                )
                for K, V in ((5, 50), (20, 400))
            ),
            Check(
                "wrong theory: the recomputed form at s = t, without the factor 1/K of the clock",
                ORIGINAL,
                worst[5, 5, "per round"],
                solver,
                role="control",
            ),
            Check(
                "wrong theory (F17): -F E' e_n lowers the rate: own logit with it over that without, K = V = 5",
                ORIGINAL,
                faster,
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: beta (V-1)/iota = (V-1) E', the modified flow's: |ratio - 1|",
                ORIGINAL,
                abs(modified - ratio[5, 5]),
                solver,
                role="control",
            ),
        ],
        conclusion=(
            f"At K = V = 5 and eta_Y t = 200 the printed form errs by {errors[5, 5, 'printed'][-1]:.1e} of the largest "
            f"logit, the recomputed one by at most {worst[5, 5, 'recomputed']:.0e} up to there, on the "
            "ladder's original flow; "
            f"against descent by {upper[DESCENT, 'printed']:.1e} and {upper[DESCENT, 'recomputed']:.0e}, against the "
            f"mean of SGD by {upper[SGD, 'printed']:.1e} and {upper[SGD, 'recomputed']:.0e} beyond its noise. There "
            "beta/iota = 1/(V-1) exactly. "
            f"For K < V neither holds: {errors[5, 50, 'recomputed'][-1]:.1e} (K = 5, V = 50), "
            f"{errors[20, 400, 'recomputed'][-1]:.1e} (K = 20, V = 400), and beta/iota is {ratio[5, 50]:.2f} and "
            f"{ratio[20, 400]:.2f} times 1/(V-1)."
        ),
        picture=Picture(
            "t (batch-size-1 steps)",
            "largest error of the logits over the largest logit of the run",
            (
                Picture.line("recomputed, K = V = 5", ladders[5, 5].t, np.maximum(errors[5, 5, "recomputed"], 1e-17)),
                Picture.line("printed, K = V = 5", ladders[5, 5].t, errors[5, 5, "printed"], "printed"),
                Picture.line(
                    "recomputed, K = 20, V = 400", ladders[20, 400].t, errors[20, 400, "recomputed"], "control"
                ),
            ),
            yscale="log",
        ),
        seeds=range(len(ladders[5, 5][SGD].runs)),
    )
