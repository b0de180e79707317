"""What the figure of phases claims, checked on its data, with wrong theories as controls."""

from __future__ import annotations

import numpy as np
import xarray

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.figures.phase_panels import panel_of, panel_theory
from snapdyn.figures.phase_theory import ONSET, Theory
from snapdyn.validation import observables
from snapdyn.validation.checks import Check

MEAN_FIELD, MODIFIED = "mean field", "modified decoder"
SLOWNESS = "(eta_Z/eta_Y)(V h)^2"
GAPS = ("gaps", "number_gaps", "rate_gaps")


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check every diagram against its theory, and wrong theories as controls."""
    diagrams = (_on_entropy, _on_falls, _on_transition, _on_gaps, _on_phases)
    return [check for checks in diagrams for check in checks(dataset)]


def _on_entropy(dataset: xarray.Dataset) -> list[Check]:
    entropy, theory = panel_of(dataset, "entropy").entropy.values, panel_theory(dataset, "entropy")
    over = np.broadcast_to(theory.time("end") < theory.T, entropy.shape)
    low, high = entropy.min(axis=0), entropy.max(axis=0)  # over eta_Z
    done = (entropy - low) / (high - low)

    def least(onset: float) -> float:
        return float(done[over & (theory.slowness > onset)].min())

    name = f"share of the change of entropy that is done where {SLOWNESS} > {ONSET:g} and t0 is over, smallest"
    return [
        Check(name, MEAN_FIELD, least(ONSET), 0.5, ">="),
        Check(
            f"wrong theory: the same where it is above {ONSET / 100:g}",
            MEAN_FIELD,
            least(ONSET / 100),
            0.5,
            ">=",
            role="control",
        ),
    ]


def _on_transition(dataset: xarray.Dataset) -> list[Check]:
    times = panel_of(dataset, "times").transition_time
    K, V = np.broadcast_arrays(times.num_classes.values[:, None], times.vocab_size.values)
    measured = np.isfinite(times.values)
    # K - 1 of the V outputs, those of overlapping classes, are ahead of the others: of order K/V in alpha.
    order = K[measured] / V[measured]

    def off(kind: str) -> float:
        theory = np.asarray(analytic.transition_time(K[measured], V[measured], 1.0, kind=kind))
        return float((np.abs(times.values[measured] / theory - 1) / order).max())

    return [
        Check("|measured time of the transition/t* - 1| over K/V, largest", MEAN_FIELD, off("peak"), 0.02),
        Check("wrong theory: the same with t0 for t*", MEAN_FIELD, off("end"), 0.02, role="control"),
    ]


def _on_falls(dataset: xarray.Dataset) -> list[Check]:
    share, slowness = panel_of(dataset, "fallen").fallen_share.values, panel_theory(dataset, "fallen").slowness

    def below(onset: float) -> float:
        return float(share[slowness < onset].max())

    name = f"share of distinct tokens that fall where {SLOWNESS} < {ONSET:g}, largest"
    return [
        Check(name, MEAN_FIELD, below(ONSET), 0.0),
        Check(f"wrong theory: the same below {100 * ONSET:g}", MEAN_FIELD, below(100 * ONSET), 0.0, role="control"),
    ]


def _on_phases(dataset: xarray.Dataset) -> list[Check]:
    seen = {name: panel_of(dataset, name).phase.values for name in ("flow", "modified")}
    theory = {name: panel_theory(dataset, name) for name in seen}

    def smallest(name: str, quantity: Floats) -> float:
        still = seen[name] >= observables.SNAPPED
        return float(np.broadcast_to(quantity, still.shape)[still].min())

    driven = "2K(K-1) u_+^2 (eta_Z/eta_Y)/rho0^4"
    winners = {name: float((seen[name] == observables.WINNER).sum()) for name in seen}
    return [
        Check("cells in which a winner takes all", MEAN_FIELD, winners["flow"], 0.0),
        Check("cells in which a winner takes all", MODIFIED, winners["modified"], 1.0, ">="),
        Check(
            f"{driven} where attention has snapped, smallest",
            MODIFIED,
            smallest("modified", theory["modified"].driven_by_transition),
            1.0,
            ">=",
        ),
        Check(
            "wrong theory: the same in the mean field",
            MEAN_FIELD,
            smallest("flow", theory["flow"].driven_by_transition),
            1.0,
            ">=",
            role="control",
        ),
        Check(
            f"{SLOWNESS} where attention has snapped, smallest",
            MEAN_FIELD,
            smallest("flow", theory["flow"].slowness),
            ONSET,
            ">=",
        ),
    ]


def _on_gaps(dataset: xarray.Dataset) -> list[Check]:
    gap, law, printed, left_out = (
        np.concatenate(values) for values in zip(*(_gaps(dataset, panel) for panel in GAPS), strict=True)
    )
    known = left_out < 0.5

    def off(theory: Floats) -> float:
        return float((np.abs(gap / theory - 1) / left_out)[known].max())

    over_rates, law_of_rates, *_ = _gaps(dataset, "rate_gaps")
    growth, slowness = over_rates / law_of_rates, panel_theory(dataset, "rate_gaps").slowness.ravel()
    much = 10 * ONSET
    return [
        Check(
            "|largest gap/max(V rho, 1/(1 + V rho)) - 1| over what is left out, where below 1/2",
            MODIFIED,
            off(law),
            1.0,
        ),
        Check("wrong theory: rho K(K-1), from the printed condition", MODIFIED, off(printed), 1.0, role="control"),
        Check("smallest of the largest gaps: none within the tolerance 0.05", MODIFIED, gap.min(), 0.05, ">="),
        Check(
            f"largest gap over that law where {SLOWNESS} < {ONSET:g}, over the rates, largest",
            MODIFIED,
            growth[slowness < ONSET].max(),
            1.1,
        ),
        Check(f"the same beyond {much:g}, smallest", MODIFIED, growth[slowness > much].min(), 1.1, ">="),
        Check(
            f"wrong theory: below {much:g} as below {ONSET:g}",
            MODIFIED,
            growth[slowness < much].max(),
            1.1,
            role="control",
        ),
    ]


def _gaps(dataset: xarray.Dataset, panel: str) -> list[Floats]:
    """Return the largest gaps of a diagram, their law, the law of the printed condition, the order of neglected terms.

    beta is E' + 1/V under Eq. (10), 1/V in the mean field and E' in the leading order: relative gaps V rho, and
    1/(1 + V rho). Neglected: rho u in the mean field's beta, which grows with the lead u <= V h(t/K); E' against rho;
    K of V outputs; the decoder's memory of old attention (F10). A beta that is off by a share d changes the former gap,
    (1 + V rho)/(1 + d) - 1, by d (1 + 1/(V rho)) of itself, and the latter by less than d.
    """
    gap, theory = panel_of(dataset, panel).largest_gap.values, panel_theory(dataset, panel)
    rho, K, V = theory.rho, theory.K, theory.V
    law = np.maximum(V * rho, 1 / (1 + V * rho))
    left_out = (1 + np.where(V * rho >= 1 / (1 + V * rho), 1 / law, 0)) * (
        rho * (_lead(theory) + K) + K / V + theory.slowness
    )
    measured = np.isfinite(gap)
    return [np.broadcast_to(x, gap.shape)[measured] for x in (gap, law, rho * K * (K - 1), left_out)]


def _lead(theory: Theory) -> Floats:
    """Return the lead V h of a class's own output at the end of the run."""
    return np.sqrt(theory.slowness * theory.eta_Y / theory.eta_Z)
