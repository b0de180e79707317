"""Maps over the ratio of the rates: runs of the mean field at a ratio, printed conditions, a property's map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.design import over_grid
from snapdyn.validation.pictures import Line, Map, Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.rungs.run import MEAN_FIELD, run_on_rung
from snapdyn.validation.search.counterexamples import load


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


def rates_map(level: str, prop: Property, name: str, threshold: float) -> Map:
    """Map of a property over eta_Z/eta_Y and V up to t = 1e4, on the classes of the stored counterexample `name`."""
    stored, points = load(name).instance, 13 if level == "full" else 5
    ratios, sizes = np.geomspace(1e-2, 100, points), np.geomspace(5, 500, points).round()

    def number(V: float, ratio: float) -> float | None:
        found = prop.measure(replace(stored, vocab_size=int(V), eta_Y=1.0, eta_Z=ratio, t_end=1e4))
        return None if found is None else found.value

    return Map(
        title=f"{prop.name}, classes of {name}",
        xlabel="eta_Z/eta_Y",
        ylabel="V",
        quantity=prop.name,
        x=ratios,
        y=sizes,
        violation=over_grid(number, {"V": sizes, "ratio": ratios}),
        threshold=threshold,
        boundaries=(printed_ratio(sizes),),
        scale="linear",
    )
