"""The runs behind Figures 6, 11 and 12: SGD on Syn-Medium over both rates and the number of queries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import xarray

from snapdyn.dynamics import SequenceClasses, syn_medium
from snapdyn.validation.published import FIGURE_6, distinct_entropy, figure_6_runs

NUM_QUERIES = (1, 3, 5, 10)
ATTENTION_RATES = (0.5, 1.0, 2.0, 3.0)
RATIOS = (1.0, 2.0, 5.0, 10.0)  # eta_Y/eta_Z
SEEDS = {"quick": 10, "full": 100}
# Where the printed axes of Figures 11 and 12 begin and end, by number of queries.
THRESHOLDS = {1: (0.028, 0.038), 3: (0.012, 0.016), 5: (0.0075, 0.0105), 10: (0.0040, 0.0050)}
NUM_THRESHOLDS = 41
SETUP = {name: value for name, value in FIGURE_6.items() if value is not None}


@lru_cache(maxsize=4)
def final_states(num_seeds: int, momentum: float, batch_size: int) -> xarray.Dataset:
    """Measure entropy and recall at the end of the runs of Fig. 6, seeds 0, 1, ...

    Parameters
    ----------
    num_seeds : int
        Seeds per cell.
    momentum : float
        Of SGD.
    batch_size : int

    Returns
    -------
    xarray.Dataset
        entropy (num_queries, eta_Z, ratio, seed), nats: mean over classes of the entropy of c_n over its distinct
        tokens, renormalised; recall (num_queries, eta_Z, ratio, seed, point) at threshold (num_queries, point):
        share of a query's distinct tokens (those of its classes) with softmax(z_m)_l over all V ids above the
        threshold, mean over queries. Computed once per process: three figures show it.
    """
    changes: dict[str, Any] = {"momentum": momentum, "batch_size": batch_size}
    entropies, recalls, thresholds = [], [], []
    for Q in NUM_QUERIES:
        classes = syn_medium(Q)
        cells = [(classes, ratio * eta_Z, eta_Z) for eta_Z in ATTENTION_RATES for ratio in RATIOS]
        runs = [run for cell in figure_6_runs(cells, range(num_seeds), **changes) for run in cell]
        threshold = np.linspace(*THRESHOLDS[Q], NUM_THRESHOLDS)
        shape = (len(ATTENTION_RATES), len(RATIOS), num_seeds)
        entropies.append(np.reshape([distinct_entropy(run) for run in runs], shape))
        recalls.append(recall(classes, np.array([run.z[-1] for run in runs]), threshold).reshape(*shape, -1))
        thresholds.append(threshold)
    return xarray.Dataset(
        {
            "entropy": (("num_queries", "eta_Z", "ratio", "seed"), np.array(entropies), {"units": "nats"}),
            "recall": (("num_queries", "eta_Z", "ratio", "seed", "point"), np.array(recalls)),
            "threshold": (("num_queries", "point"), np.array(thresholds)),
        },
        {
            "num_queries": list(NUM_QUERIES),
            "eta_Z": list(ATTENTION_RATES),
            "ratio": list(RATIOS),
            "seed": np.arange(num_seeds),
        },
        SETUP | changes,
    )


def recall(classes: SequenceClasses, z: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Return the share of a query's distinct tokens with softmax(z_m) over all V ids above each threshold, mean over m.

    z (runs, Q, M), rows in increasing query id; ids that are no contextual token have logit 0. Shape (runs, point).
    """
    logits = np.zeros((*z.shape[:2], classes.vocab_size))
    logits[:, :, : z.shape[2]] = z
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    attention = weights / weights.sum(axis=2, keepdims=True)
    shares = []
    for m, query in enumerate(classes.queries):
        distinct = np.concatenate([classes.distinct_tokens(int(n)) for n in np.flatnonzero(classes.query == query)])
        shares.append((attention[:, m, distinct][..., None] > threshold).mean(axis=1))
    return np.mean(shares, axis=0)
