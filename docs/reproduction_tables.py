"""Tables of docs/theory/reproduction.md: `python docs/reproduction_tables.py` prints them, with seeds 0 to 99."""

import numpy as np

from snapdyn.validation.claims.published import (
    FIGURE_4_ITERATIONS,
    PUBLISHED_SEEDS,
    figure_4_runs,
    figure_6,
)


def tables(num_seeds: int = 100) -> str:
    """Both reproductions as Markdown: Fig. 6 cell by cell, Fig. 4's loss and attention at its iterations."""
    cells = figure_6(range(num_seeds))
    level = 0.05 / len(cells)
    lines = [
        f"## Fig. 6: Syn-Medium, {num_seeds} recomputed seeds and {PUBLISHED_SEEDS} published seeds",
        "",
        "The quantity is the mean over classes of the entropy over distinct tokens, in nats. z is the difference",
        "divided by the combined standard error of both means; p is the p-value of Welch's test. A cell agrees when",
        f"p >= 0.05/{len(cells)} = {level:.1e}.",
        "",
        "| Q | eta_Z | eta_Y/eta_Z | published | recomputed | z | p | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for c in cells:
        lines.append(
            f"| {c.num_queries} | {c.eta_Z:g} | {c.ratio:g} | {c.published:.3f} ± {c.published_std:.3f} "
            f"| {c.ours.mean():.3f} ± {c.ours.std(ddof=1):.3f} | {c.z:+.2f} | {c.p:.3f} "
            f"| {'agrees' if c.p >= level else 'differs'} |"
        )
    for eta_Y, eta_Z in ((1.0, 1.0), (10.0, 1.0)):
        runs = figure_4_runs(eta_Y, eta_Z, range(num_seeds))
        lines += [
            "",
            f"## Fig. 4: Syn-Small, eta_Y = {eta_Y:g}, eta_Z = {eta_Z:g}, median of {num_seeds} seeds (10-90 %)",
            "",
            "| iteration | loss (nats) | dominant token, class 0 | common token, class 0 | entropy, class 0 (nats) |",
            "|---|---|---|---|---|",
        ]
        for i, iteration in enumerate(FIGURE_4_ITERATIONS):
            values = np.array(
                [(r.loss[i], r.token_attention(0, 19)[i], r.token_attention(0, 0)[i], r.entropy()[i, 0]) for r in runs]
            )
            low, median, high = np.quantile(values, [0.1, 0.5, 0.9], axis=0)
            shown = (f"{m:.4f} ({a:.4f}-{b:.4f})" for a, m, b in zip(low, median, high, strict=True))
            lines.append(f"| {iteration} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(tables())
