"""Steps of the sliders."""

from __future__ import annotations

from collections.abc import Sequence

from snapdyn.explorer.settings import reachable_overlaps

STEPS: dict[str, tuple[float, ...]] = {
    "num_classes": (2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000),
    "vocab_size": (10, 20, 34, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5, 10**6),
    "common_probability": (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    "eta_Y": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    "eta_Z": (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    "seq_len": (20, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5, 10**6),
}
NUM_OVERLAPS = 12


def overlap_steps(common_probability: float) -> list[float]:
    """Overlaps that two classes can have, lowest to highest: equal steps of ln(r/(1-r)), three digits.

    Parameters
    ----------
    common_probability : float
        P(l_c|n), from 0.001 to 0.999.

    Returns
    -------
    list of float
        NUM_OVERLAPS numbers strictly within `reachable_overlaps`.

    Examples
    --------
    >>> from snapdyn.explorer.steps import overlap_steps
    >>> overlap_steps(0.3)[::4]
    [0.172, 0.361, 0.605]
    """
    odds = [bound / (1.0 - bound) for bound in reachable_overlaps(common_probability)]
    ratio = odds[1] / odds[0]
    places = ((step + 0.5) / NUM_OVERLAPS for step in range(NUM_OVERLAPS))
    steps = [odds[0] * ratio**place for place in places]
    return [_rounded(odd / (1.0 + odd)) for odd in steps]


def _rounded(overlap: float) -> float:
    """Three digits of the overlap, or of its distance from 1."""
    return float(f"{overlap:.3g}") if overlap < 0.5 else round(1.0 - float(f"{1.0 - overlap:.3g}"), 9)


def nearest(steps: Sequence[float], value: float) -> float:
    """The step that is nearest to a value.

    Examples
    --------
    >>> from snapdyn.explorer.steps import nearest
    >>> nearest([0.1, 0.2, 0.5], 0.3)
    0.2
    """
    return min(steps, key=lambda step: abs(step - value))
