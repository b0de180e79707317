"""The paper's experiments with published numbers: Fig. 6, cell by cell."""

from __future__ import annotations

import numpy as np

from snapdyn.validation.checks import Check
from snapdyn.validation.pictures import Line, Picture
from snapdyn.validation.published import Cell, figure_6, full_entropy, published_cells, smallest_at_ratio_2
from snapdyn.validation.register import Evidence, claim

# Family level of the 64 comparisons; a control must be rejected at the same level.
SIGNIFICANCE = 0.05


@claim(
    "figure6",
    source="Fig. 6",
    title="Entropy of attention on Syn-Medium, all 64 published cells",
    statement="After 100 steps of SGD with momentum on Syn-Medium the mean entropy over distinct tokens is as "
    "published, for Q = 1, 3, 5, 10, four rates and four ratios; for Q >= 3 it is smallest at eta_Y/eta_Z = 2.",
    latex=r"H(\tilde c_n),\quad \arg\min_{\eta_Y/\eta_Z}H=2\ (Q\geq3)",
    assumptions=("set-up of the paper and its logs: momentum 0.9, batch 128, T = 128, start uniform in +-1/sqrt(V)",),
)
def figure6(level: str) -> Evidence:
    seeds = range(10 if level == "quick" else 100)
    cells = figure_6(seeds)
    # Wrong set-ups are tried where they show: with a zero start that is Q = 1.
    chosen = [row for row in published_cells() if row["num_queries"] == 1]
    wrong = {
        "without momentum": figure_6(seeds, cells=chosen, momentum=0.0),
        "with zero start": figure_6(seeds, cells=chosen, init="zeros"),
        "entropy over all tokens": figure_6(seeds, full_entropy, chosen),
    }
    # The minimum at ratio 2 is no matter of course: without momentum it is elsewhere.
    three = [row for row in published_cells() if row["num_queries"] == 3]
    without_minimum = smallest_at_ratio_2(figure_6(seeds, cells=three, momentum=0.0))
    smallest = min(cell.p for cell in cells)
    agreeing = sum(cell.p >= SIGNIFICANCE / len(cells) for cell in cells)
    far = max(abs(cell.z) for cell in cells)
    heavy = max((c for c in cells if c.num_queries == 1), key=lambda c: c.ours.std(ddof=1))
    return Evidence(
        checks=[
            Check("smallest p of 64 cells (Welch), Bonferroni", "SGD", smallest, SIGNIFICANCE / len(cells), ">="),
            Check(
                "settings with Q >= 3 whose entropy is not smallest at eta_Y/eta_Z = 2",
                "SGD",
                smallest_at_ratio_2(cells),
                0,
            ),
            Check("the same without momentum, Q = 3", "SGD", without_minimum, 0, role="control"),
            *(
                Check(
                    f"wrong set-up, {name}: smallest p of {len(found)} cells",
                    "SGD",
                    min(cell.p for cell in found),
                    SIGNIFICANCE / len(cells),
                    ">=",
                    role="control",
                )
                for name, found in wrong.items()
            ),
        ],
        conclusion=(
            f"{agreeing} of {len(cells)} cells agree with {len(seeds)} seeds each: largest |z| {far:.2f}, "
            f"smallest p {smallest:.3f}. "
            f"The tails are heaviest at Q = 1, eta_Z = {heavy.eta_Z:g}, ratio {heavy.ratio:g} (published deviation "
            f"{heavy.published_std:.3f}, ours {heavy.ours.std(ddof=1):.3f}), where ten published seeds say little."
        ),
        picture=Picture(
            "eta_Y/eta_Z",
            "entropy over distinct tokens (nats), eta_Z = 2",
            tuple(line for Q in (3, 10) for line in _lines(Q, cells)),
        ),
    )


def _lines(num_queries: int, cells: list[Cell]) -> tuple[Line, ...]:
    shown = [cell for cell in cells if cell.num_queries == num_queries and cell.eta_Z == 2]
    ratios = np.array([cell.ratio for cell in shown])
    return (
        Picture.line(f"published, Q = {num_queries}", ratios, [cell.published for cell in shown], "printed"),
        Picture.line(f"ours, Q = {num_queries}", ratios, [float(cell.ours.mean()) for cell in shown], "simulation"),
    )
