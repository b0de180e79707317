"""The mean field in heyoka: Taylor series of the equations, compiled; for comparison only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import CASES, RTOL, times


def heyoka_ensemble(case: str, rates: Any) -> Callable[[], Any]:
    """A function that integrates a case for all (eta_Y, eta_Z) of `rates` in heyoka, on all cores: z (members, N, nz).

    Attention is stored on the supports of P and outputs share a column, as in snapdyn.
    """
    import heyoka as hy

    classes = CASES[case][0]
    multiplicity = np.ones(classes.next_tokens.size + 1)
    multiplicity[-1] = classes.vocab_size - classes.next_tokens.size
    query, token = classes.z_coordinates
    z = [hy.expression(f"z_{m}_{l}") for m, l in zip(query, token, strict=True)]
    tokens = np.unique(classes.P.indices)
    Y = {(l, c): hy.expression(f"Y_{l}_{c}") for l in tokens for c in range(multiplicity.size)}
    dz, dY = [[] for _ in z], {key: [] for key in Y}
    for n in range(classes.num_classes):
        entries = range(classes.P.indptr[n], classes.P.indptr[n + 1])
        slots, ids = classes.z_of_entry[entries], classes.P.indices[entries]
        weights = [float(p) * hy.exp(z[i]) for p, i in zip(classes.P.data[entries], slots, strict=True)]
        norm = hy.sqrt(hy.sum([w * w for w in weights]))
        f = [w / norm for w in weights]
        logits = [hy.sum([a * Y[l, c] for a, l in zip(f, ids, strict=True)]) for c in range(multiplicity.size)]
        e = [float(m) * hy.exp(logit) for m, logit in zip(multiplicity, logits, strict=True)]
        total = hy.sum(e)
        error = [(1.0 if c == classes.next_index[n] else 0.0) - each / total for c, each in enumerate(e)]
        g = [hy.sum([each * Y[l, c] for c, each in enumerate(error)]) for l in ids]
        along = hy.sum([a * b for a, b in zip(f, g, strict=True)])
        p = float(classes.prior[n])
        for i, l, a, b in zip(slots, ids, f, g, strict=True):
            dz[i].append(p * hy.par[1] * a * (b - a * along))
            for c, each in enumerate(error):
                dY[l, c].append(p / float(multiplicity[c]) * hy.par[0] * a * each)
    system = [(var, hy.sum(terms)) for var, terms in zip(z, dz, strict=True)]
    system += [(Y[key], hy.sum(terms)) for key, terms in dY.items()]
    solver = hy.taylor_adaptive(system, np.zeros(len(system)), pars=[1.0, 1.0], tol=RTOL, compact_mode=True)
    grid = np.concatenate([[0.0], times(case)])

    def with_rates(template: Any, member: int) -> Any:
        template.pars[:] = rates[member]
        return template

    def run() -> Any:
        made = hy.ensemble_propagate_grid(solver, grid, len(rates), with_rates)
        return np.array([each[-1][1:, : len(z)] for each in made])

    return run
