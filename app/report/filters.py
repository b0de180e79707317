"""Filters of the report's template: how numbers, seeds, outcomes, formulas and pictures are shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from markupsafe import Markup

from snapdyn.figures import claim_svg
from snapdyn.figures.validity_maps import map_svg
from snapdyn.report.formulas import formula_html
from snapdyn.report.pictures import figure_image, page_svg
from snapdyn.report.prose import prose_html
from snapdyn.validation import Check

WORDS = ("no", "one", "two", "three", "four", "five")


def number(value: float, digits: int = 3) -> Markup | str:
    """Return a number as text of so many digits, with powers of ten such as 2·10<sup>7</sup> where they are shorter."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    if not exponent or 0 < int(exponent) < 5:
        return f"{float(text):.{max(digits, 6)}g}"
    power = f"10<sup>{int(exponent)}</sup>"
    return Markup(power if mantissa == "1" else f"{mantissa}·{power}")


def ranges(numbers: Iterable[int]) -> str:
    """Return whole numbers as text, consecutive ones as a range: 0-4, 7."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def outcome(check: Check) -> tuple[str, str]:
    """Return the CSS class and the words for the outcome of a check."""
    if check.role == "control":
        return ("bad", "passed, but must fail") if check.passed else ("good", "rejected, as required")
    if check.passed:
        return "good", "passed"
    # Outside its conditions a statement may fail: that is the boundary, not a fault.
    return ("neutral", "fails outside its conditions") if check.role == "outside" else ("bad", "fails")


FILTERS: dict[str, Callable[..., Any]] = {
    "formula": lambda latex: Markup(formula_html(latex)),
    "prose": lambda text: Markup(prose_html(text)),
    "svg": lambda picture: Markup(page_svg(claim_svg(picture))),
    "map_svg": lambda map: Markup(page_svg(map_svg(map))),
    "image": lambda figure: Markup(figure_image(figure.png, figure.title)),
    "number": number,
    "seconds": lambda seconds: f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min",
    "ranges": ranges,
    "place": lambda source: re.split(r", Eqs?\.|;", source)[0],
    "words": lambda count: WORDS[count] if count < len(WORDS) else str(count),
    "outcome": outcome,
}
