"""Map of the error of the clock t = i/(1-mu)."""

from __future__ import annotations

import numpy as np

from snapdyn.validation.maps.rates_and_correlation import boundary
from snapdyn.validation.pictures import Map
from snapdyn.validation.rungs.run import DESCENT, MEAN_FIELD, run_on_rung
from snapdyn.validation.sample_classes import strongly_correlated_classes


def momentum_map(level: str, points: int | None = None) -> Map:
    """Error of the clock t = i/(1-mu) in the decrease of the loss, over the step i and the momentum mu.

    Descent on the expected loss with eta = 1e-6 is compared with the mean field, on three strongly correlated classes.
    """
    full, eta, threshold = level == "full", 1e-6, 0.05
    classes = strongly_correlated_classes()
    i = np.unique(np.geomspace(1, 1000, 2 * points + 1 if points else 31 if full else 13).round().astype(int))
    momenta = 1 - np.geomspace(0.5, 0.03, points or (13 if full else 6))
    start = np.log(classes.vocab_size)
    violation = np.empty((momenta.size, i.size))
    for row, mu in enumerate(momenta):
        flow = run_on_rung(MEAN_FIELD, classes, eta, eta, i / (1 - mu), rtol=1e-11, atol=1e-20)
        descent = run_on_rung(DESCENT, classes, eta, eta, i, momentum=float(mu))
        violation[row] = np.abs((start - flow.loss) / (start - descent.loss) - 1)
    lag = momenta / (1 - momenta)
    return Map(
        title="Error of the clock i/(1-mu)",
        xlabel="step i of descent",
        ylabel="1/(1-mu)",
        quantity="relative error of the loss's fall",
        x=i.astype(float),
        y=1 / (1 - momenta),
        violation=violation,
        threshold=threshold,
        boundaries=(
            boundary("printed: i = 1/(1-mu)", 1 / (1 - momenta), 1 / (1 - momenta)),
            # The clock is ahead by D = mu/(1-mu) steps, so its error is D/(i-D).
            boundary(f"D/(i-D) = {threshold:g}, D = mu/(1-mu)", lag * (1 + 1 / threshold), 1 / (1 - momenta), "theory"),
        ),
    )
