"""The mean field in diffrax: jitted, float64, on the processor, in one system of all values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import ATOL, CASES, RTOL, Floats, times


def diffrax_run(case: str, route: str) -> tuple[Callable[[], Any], Callable[[Any], Floats]]:
    """Jitted run of a case in diffrax, and a function that converts its result to z (N, Q, M)."""
    import jax
    import jax.numpy as jnp

    solve = jax.jit(diffrax_solver(case, route))
    rates = jnp.ones(2)
    return lambda: jax.block_until_ready(solve(rates)), lambda ys: np.asarray(ys if "z only" in route else ys[0])


def diffrax_solver(case: str, route: str) -> Callable[[Any], Any]:
    """A case in diffrax as a function of (eta_Y, eta_Z).

    Attention is stored on the supports of P, padded to the longest one, and outputs share a column as in snapdyn. In
    diffrax this is faster than dense products, in every case.
    """
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    classes, end = CASES[case]
    longest = int(np.diff(classes.P.indptr).max())
    padded, tokens = np.zeros((2, classes.num_classes, longest))
    for n in range(classes.num_classes):
        part = slice(classes.P.indptr[n], classes.P.indptr[n + 1])
        padded[n, : part.stop - part.start] = classes.P.data[part]
        tokens[n, : part.stop - part.start] = classes.P.indices[part]
    P, token = jnp.asarray(padded), jnp.asarray(tokens.astype(int))
    multiplicity = np.ones(classes.next_tokens.size + 1)
    multiplicity[-1] = classes.vocab_size - classes.next_tokens.size
    query, own, prior = jnp.asarray(classes.query_index), jnp.asarray(classes.next_index), jnp.asarray(classes.prior)
    Q, M, C = classes.queries.size, classes.num_tokens, multiplicity.size
    count, target = jnp.asarray(multiplicity), jax.nn.one_hot(own, C, dtype=jnp.float64)

    def rate(t: Any, state: Any, rates: Any) -> Any:
        z, Y = state
        weights = P * jnp.exp(z[query[:, None], token])
        f = weights / jnp.linalg.norm(weights, axis=1, keepdims=True)
        rows = Y[token]
        alpha = jax.nn.softmax(jnp.einsum("nl,nlc->nc", f, rows) + jnp.log(count), axis=1)
        g = jnp.einsum("nlc,nc->nl", rows, target - alpha)
        dz = rates[1] * prior[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True))
        dY = rates[0] * f[:, :, None] * (prior[:, None] * (target - alpha) / count)[:, None, :]
        return jnp.zeros((Q, M)).at[query[:, None], token].add(dz), jnp.zeros((M, C)).at[token].add(dY)

    method = diffrax.Dopri8() if "Dopri8" in route else diffrax.Tsit5()
    kept = (lambda t, y, _: y[0]) if "z only" in route else lambda t, y, _: y
    saves = diffrax.SaveAt(ts=jnp.asarray(times(case)), fn=kept)
    control = diffrax.PIDController(rtol=RTOL, atol=ATOL)

    def solve(rates: Any) -> Any:
        start = (jnp.zeros((Q, M)), jnp.zeros((M, C)))
        return diffrax.diffeqsolve(
            diffrax.ODETerm(rate), method, 0.0, end, None, start, args=rates, saveat=saves, stepsize_controller=control,
            max_steps=100_000,
        ).ys  # fmt: skip

    return solve
