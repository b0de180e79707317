"""Right-hand side of Eq. (10): attention driven by the modified decoder, exact or leading beta."""

from __future__ import annotations

import math

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.decoder import scaled_h_rate, speed
from snapdyn.dynamics.kernels.elementary import normalized_attention


@kernel(fastmath=EXACT)
def spd_inverse(G, L, inverse):
    """Write G^{-1} to `inverse` for a symmetric positive definite G (S, S); `L` (S, S) is scratch.

    The Cholesky decomposition is written out because a library call would allocate. If G is not positive definite,
    the result is NaN, which the integrator reports.
    """
    S = G.shape[0]
    for i in range(S):
        for j in range(i + 1):
            total = G[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                L[i, i] = math.sqrt(total) if total > 0.0 else math.nan
            else:
                L[i, j] = total / L[j, j]
    for c in range(S):
        for i in range(c, S):
            total = 1.0 if i == c else 0.0
            for k in range(c, i):
                total -= L[i, k] * inverse[k, c]
            inverse[i, c] = total / L[i, i]
        for i in range(S - 1, c - 1, -1):
            total = inverse[i, c]
            for k in range(i + 1, S):
                total -= L[k, i] * inverse[k, c]
            inverse[i, c] = total / L[i, i]
    for c in range(S):
        for i in range(c):
            inverse[i, c] = inverse[c, i]


@kernel(fastmath=EXACT)
def gradient_coefficients(u, V, inverse, leading, a):
    """Write a (S, S) with g_n = sum_k a[n, k] f_k, from u = V h (S,) and G^{-1} = I - E' (S, S).

    Exact, from g_n = F (I - E') W (e_n - alpha_n) with rows (V-1) h_k zeta_k of W:
    a[n, k] = (V-1)^2/(V-1+exp(V h_n)) [q0 sum_j (I-E')_kj h_j + (q1 - q0) (I-E')_kn h_n].
    Leading: beta_nk = E'_kn. Only k != n acts on attention (the f_n part is projected out).
    """
    S = u.size
    q0 = -V / (V - 1.0) ** 2
    q1 = V / (V - 1.0)
    for k in range(S):
        total = 0.0
        for j in range(S):
            total += inverse[k, j] * u[j] / V
        for n in range(S):
            gamma = speed(u[n], V)
            if leading:
                a[n, k] = gamma * inverse[k, n]
            else:
                decay = math.exp(-u[n])
                factor = (V - 1.0) ** 2 * decay / ((V - 1.0) * decay + 1.0)
                a[n, k] = factor * q0 * total + (q1 - q0) * gamma * inverse[k, n]


@kernel(fastmath=EXACT)
def modified_decoder(
    state, out, num_slots, indptr, entry_slot, entry_class, log_p, multiplicity, prior,
    row_indptr, row_entry, V, eta_Y, eta_Z, leading, f, square,
):  # fmt: skip
    """Write d(state)/dt to `out`; state = [z on the slots, V h_n per class], t counts batch-size-1 steps.

    z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o sum_{k != n} a[n, k] (f_k - f_n (f_n . f_k)), G and E' from the
    current attention (10); (V h_n)' = eta_Y p_n V/(V-1+exp(V h_n)) (44). Rows list their entries in
    `row_entry[row_indptr[l]:row_indptr[l+1]]`. Scratch: f (entries,), square (4, S, S).
    """
    S = prior.size
    u = state[num_slots:]
    G, L, inverse, a = square[0], square[1], square[2], square[3]
    for n in range(S):
        part = slice(indptr[n], indptr[n + 1])
        normalized_attention(state, entry_slot[part], log_p[part], multiplicity[part], f[part])
        out[num_slots + n] = scaled_h_rate(u[n], eta_Y * prior[n], V)
    for i in range(num_slots):
        out[i] = 0.0
    for i in range(S):
        for j in range(S):
            G[i, j] = 0.0
    for row in range(row_indptr.size - 1):
        entries = row_entry[row_indptr[row] : row_indptr[row + 1]]
        for i in entries:
            for j in entries:
                G[entry_class[i], entry_class[j]] += multiplicity[i] * f[i] * f[j]
    spd_inverse(G, L, inverse)
    gradient_coefficients(u, V, inverse, leading, a)
    for row in range(row_indptr.size - 1):
        entries = row_entry[row_indptr[row] : row_indptr[row + 1]]
        for i in entries:
            n = entry_class[i]
            pull = 0.0
            for j in entries:
                if entry_class[j] != n:
                    pull += a[n, entry_class[j]] * f[j]
            out[entry_slot[i]] += eta_Z * prior[n] * f[i] * pull
    for n in range(S):
        overlap = 0.0
        for k in range(S):
            if k != n:
                overlap += a[n, k] * G[n, k]
        for i in range(indptr[n], indptr[n + 1]):
            out[entry_slot[i]] -= eta_Z * prior[n] * f[i] * f[i] * overlap
    return 0.0
