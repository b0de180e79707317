"""What maps over the ratio of the rates share: runs of the mean field at a ratio, and lines of printed conditions."""

from __future__ import annotations

from numpy.typing import ArrayLike

from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.pictures import Line, Picture
from snapdyn.validation.rungs.run import MEAN_FIELD, run_on_rung


def flow_at_ratio(classes: SequenceClasses, ratio: float, times: Floats) -> Trajectory:
    """Run the mean field with eta_Y = 1 and eta_Z = `ratio`, saved at `times` (batch-size-1 steps)."""
    # LSODA needs half of the evaluations of DOP853. BDF is faster than LSODA after fast attention has settled.
    settled = ratio > 0.1 and times[-1] > 1e6
    options = {"method": "BDF" if settled else "LSODA", "atol": 1e-13} if ratio <= 1 else {"atol": 1e-11}
    return run_on_rung(MEAN_FIELD, classes, 1.0, ratio, times, rtol=1e-8, **options)


def boundary(label: str, x: ArrayLike, y: ArrayLike, kind: str = "printed") -> Line:
    """Line of a printed condition, or of a fitted one (kind "theory")."""
    return Picture.line(label, x, y, kind)


def printed_ratio(y: Floats) -> Line:
    """The printed condition on the rates, on a map over their ratio and `y`; "much smaller" is read as a tenth."""
    return boundary("printed: eta_Z << eta_Y, read as 1/10", [0.1, 0.1], y[[0, -1]])
