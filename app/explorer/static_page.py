"""The static explorer: curves and verdicts of a grid of settings in one HTML page that works without a server."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from snapdyn.explorer.curves import COLOURS, MEANINGS, ORDER, compute_curves, statement, verdicts
from snapdyn.explorer.settings import Settings, overlap_steps
from snapdyn.report.mathematics import filled, formula_html

LEVELS = 65535  # a stored number is one of so many steps between the least and the largest of its curve
POINTS = 100
# Names of the stored curves, in their order.
CURVES = ("common", "dominant", "common theory", "dominant theory", "gamma", "gamma theory", "gain", "gain theory")


@dataclass(frozen=True)
class Grid:
    """Settings of the page, at eta_Y = 1: another eta_Y only changes the unit of time.

    Attributes
    ----------
    num_classes, vocab_size : sequence of int
        K and V.
    common_probability : sequence of float
        P(l_c|n).
    overlap : sequence of int
        Numbers of the steps of `overlap_steps`.
    ratio : sequence of float
        eta_Z/eta_Y.
    seq_len : sequence of int or None
        T-1.
    """

    num_classes: Sequence[int] = (2, 10, 20)
    vocab_size: Sequence[int] = (100, 1000, 100_000)
    common_probability: Sequence[float] = (0.1, 0.3, 0.6)
    overlap: Sequence[int] = (1, 6, 10)
    ratio: Sequence[float] = (0.01, 0.1, 1.0, 10.0)
    seq_len: Sequence[int | None] = (None, 100)

    def shape(self) -> tuple[int, ...]:
        """Number of values of each setting."""
        return tuple(len(values) for values in vars(self).values())

    def __iter__(self) -> Iterator[Settings]:
        for K, V, p, step, ratio, seq_len in product(*vars(self).values()):
            yield Settings(K, V, p, overlap_steps(p)[step], 1.0, ratio, seq_len)


def build_static_page(
    file: Path, grid: Grid | None = None, progress: Callable[[float, float, str], None] | None = None
) -> Path:
    """Compute all settings of a grid and write the page.

    Parameters
    ----------
    file : Path
        HTML file to create or to replace.
    grid : Grid, optional
        Default: 648 settings, which take about half a minute.
    progress : callable, optional
        Called as progress(done, total, label).

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        A setting of the grid is not possible, or the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from snapdyn.explorer.static_page import Grid, build_static_page
    >>> small = Grid((2,), (100,), (0.3,), (6,), (0.1, 1.0), (None,))
    >>> page = build_static_page(Path("explorer.html"), small)
    >>> page.stat().st_size < 100_000
    True
    """
    from snapdyn.dynamics.files.storage import write_text

    write_text(file, render(precompute(grid or Grid(), progress)))
    return file


def precompute(grid: Grid, progress: Callable[[float, float, str], None] | None = None) -> dict[str, Any]:
    """Everything the page's script reads, JSON-ready.

    Returns
    -------
    dict
        "axes": values of each slider; "marks": [t0', t*, t0] for each (K, V) at eta_Y = 1; "numbers": curves of all
        settings, base64 of little-endian 16-bit steps, in the order of the axes, then of `CURVES`, then of time;
        "limits": least and largest number of each curve, base64 of 32-bit floats; "verdicts": a digit per claim, the
        place of its answer in `ORDER`, for each setting with infinite sequences; "notes": by number of the setting.
    """
    settings = list(grid)
    steps: list[bytes] = []
    limits: list[bytes] = []
    marks: dict[str, list[float]] = {}
    notes: dict[str, str] = {}
    answers: list[str] = []
    claims: list[dict[str, str]] = []
    for number, each in enumerate(settings):
        if progress:
            progress(number, len(settings), "settings")
        curves = compute_curves(each, POINTS)
        for curve in map(curves.named.__getitem__, CURVES):
            low, high = np.float32(curve.min()), np.float32(curve.max())
            scaled = (curve - low) / (high - low) if high > low else np.zeros_like(curve)
            steps.append(np.rint(LEVELS * scaled.clip(0.0, 1.0)).astype("<u2").tobytes())
            limits.append(np.array([low, high], "<f4").tobytes())
        marks[f"{each.num_classes},{each.vocab_size}"] = list(curves.marks.values())
        if curves.note:
            notes[str(number)] = curves.note
        if each.seq_len is None:
            report = verdicts(each)
            answers.append("".join(str(ORDER.index(result.status)) for result in report.claims))
            claims = [{"id": result.id, "title": statement(result)} for result in report.claims]
    overlaps = [[overlap_steps(p)[step] for step in grid.overlap] for p in grid.common_probability]
    return {
        "axes": {name: list(values) for name, values in vars(grid).items()},
        "overlaps": overlaps,
        "points": POINTS,
        "curves": CURVES,
        "marks": marks,
        "numbers": base64.b64encode(b"".join(steps)).decode(),
        "limits": base64.b64encode(b"".join(limits)).decode(),
        "claims": claims,
        "verdicts": answers,
        "notes": notes,
    }


def render(data: dict[str, Any]) -> str:
    """The page of precomputed data: one HTML file with its style and script."""
    templates = files("snapdyn.explorer") / "templates"
    return filled(
        templates / "static.html.j2",
        {"formula": formula_html},
        data=json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        style=(templates / "static.css").read_text(encoding="utf-8"),
        script=(templates / "static.js").read_text(encoding="utf-8"),
        answers=[{"name": name, "meaning": MEANINGS[name], "colour": COLOURS.get(name, "")} for name in ORDER],
    )
