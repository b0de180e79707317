"""Right-hand sides: frozen attention, Eqs. (7), (8) and (26); h, Eq. (44); the modified decoder, Eq. (10)."""

from __future__ import annotations

import math
from typing import NamedTuple

from snapdyn.dynamics.kernels.compilation import EXACT, Bools, Floats, Ints, kernel
from snapdyn.dynamics.kernels.law import Structure, attention


@kernel(fastmath=EXACT)
def modified_flow(state, out, prior, V, eta_Y):
    """Write the rate of the modified flow (8)/(26) to `out` (t counts batch-size-1 steps).

    With the decoder inputs f_n, the columns of F, fixed and Y(0) = 0, Y = F (I - E') C, and the logits F^T Y are C
    (S, outputs), whose rows obey C_n' = eta_Y p_n (e_n - alpha_n). `state` has, for each different prior p_n, the
    values on the next token and on every other output.
    """
    for n in range(prior.size):
        out[2 * n] = eta_Y * prior[n] * (V - 1.0) / (V - 1.0 + math.exp(state[2 * n] - state[2 * n + 1]))
        out[2 * n + 1] = -out[2 * n] / (V - 1.0)
    return 0.0


@kernel(fastmath=EXACT)
def scaled_h_rate(u, rate, V):
    """d(V h)/dt = rate V/(V - 1 + exp(V h)), Eq. (44), for u = V h; overflow-free."""
    decay = math.exp(-u)
    return rate * V * decay / ((V - 1.0) * decay + 1.0)


@kernel(fastmath=EXACT)
def speed(u, V):
    """gamma = (V-1)^2 h/(V - 1 + exp(V h)), Eq. (85), for u = V h; overflow-free."""
    decay = math.exp(-u)
    return (V - 1.0) ** 2 * (u / V) * decay / ((V - 1.0) * decay + 1.0)


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


class Decoupled(NamedTuple):
    """Arguments of the right-hand side, for kinds of exchangeable classes, or for all classes as kinds of one class.

    The state is [z of each different logit, V h of each kind].
    """

    lists: Structure  # without the values of Y
    kind: Ints  # (entries,)
    is_own: Bools  # (entries,) whether a kind of several classes has a token for each of them
    prior: Floats  # (C,) of one class
    root: Floats  # (C,) square root of the number of classes of the kind
    row_indptr: Ints  # (rows + 1,) entries of each token that is not own
    row_entry: Ints
    V: float
    eta_Y: float
    eta_Z: float
    leading: bool


@kernel(fastmath=EXACT)
def gradient_coefficients(u, V, root, own_square, inverse, leading, total, a):
    """Write the coefficients a (C, C) of g_n = sum over k != n of a[n, k] f_k, one for each pair of kinds of classes.

    `u` is V h of each kind, and `inverse` the inverse of the matrix M that is defined below.

    For a kind k, a[n, k] holds the sum over its classes other than n. The term in f_n is left out, since attention
    projects it out. `total` (C,) is scratch.

    The exact a follows from g_n = F (I - E') W (e_n - alpha_n), where W has the rows (V-1) h_k zeta_k with
    q1 = zeta_n . zeta_n = V/(V-1) and q0 = zeta_k . zeta_n = -V/(V-1)^2:
    a[n, k] = (V-1)^2/(V-1+exp(V h_n)) [q0 sum_j (I-E')_kj h_j + (q1 - q0) (I-E')_kn h_n].
    To leading order (`leading`), a[n, k] = -gamma_n beta_nk with beta_nk = E'_kn.

    Let class k be of kind a and class n of kind b, with N_a and N_b classes; root = sqrt(N). Then G = F^T F has one
    value G_ab for each pair of kinds, plus own_square_a on the diagonal. On vectors that are constant on each kind, G
    acts as the matrix M_ab = own_square_a delta_ab + sqrt(N_a N_b) G_ab (in the basis of unit vectors), and it
    multiplies vectors that sum to 0 over each kind by own_square. So for k != n
    (G^{-1})_kn = (M^{-1})_ab/sqrt(N_a N_b) - delta_ab/(N_a own_square_a).
    """
    C = u.size
    q0 = -V / (V - 1.0) ** 2
    q1 = V / (V - 1.0)
    for k in range(C):
        total[k] = 0.0
        for j in range(C):
            total[k] += inverse[k, j] * root[j] * u[j]
        total[k] *= q0 / (V * root[k])
    for n in range(C):
        gamma = speed(u[n], V)
        decay = math.exp(-u[n])
        factor = 0.0 if leading else (V - 1.0) ** 2 * decay / ((V - 1.0) * decay + 1.0)
        along = gamma / root[n] if leading else (q1 - q0) * gamma / root[n]
        for k in range(C):
            a[n, k] = root[k] * root[k] * factor * total[k] + root[k] * along * inverse[n, k]
        others = root[n] * root[n] - 1.0
        a[n, n] = 0.0
        if others > 0.0:
            pair = inverse[n, n] - 1.0 / own_square[n]
            a[n, n] = others * (factor * total[n] + along / root[n] * pair)


@kernel(fastmath=EXACT)
def modified_decoder(state, out, decoupled, f, own_square, square, work):
    """Write d(state)/dt to `out`; `decoupled` is a Decoupled, t counts batch-size-1 steps.

    Eq. (10): z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o sum_{k != n} a[n, k] (f_k - f_n (f_n . f_k)), with G and E' of
    the current attention. Eq. (44): (V h_n)' = eta_Y p_n V/(V-1+exp(V h_n)). Scratch: f (entries,), own_square (C,),
    square (5, C, C), work as in `law.attention`.
    """
    C, root, kind, lists = decoupled.prior.size, decoupled.root, decoupled.kind, decoupled.lists
    num_slots, indptr, slot, tokens = lists.num_slots, lists.indptr, lists.slot, lists.tokens
    row_indptr, row_entry = decoupled.row_indptr, decoupled.row_entry
    u = state[num_slots:]
    G, M, L, inverse, a = square[0], square[1], square[2], square[3], square[4]
    for n in range(C):
        scale = attention(n, state, lists, work)
        out[num_slots + n] = scaled_h_rate(u[n], decoupled.eta_Y * decoupled.prior[n], decoupled.V)
        own_square[n] = 0.0
        for i in range(indptr[n], indptr[n + 1]):
            f[i] = scale * work[0, i - indptr[n]]
            if decoupled.is_own[i]:
                own_square[n] += tokens[i] * f[i] * f[i]
    for i in range(num_slots):
        out[i] = 0.0
    for i in range(C):
        for j in range(C):
            G[i, j] = 0.0
    for row in range(row_indptr.size - 1):
        entries = row_entry[row_indptr[row] : row_indptr[row + 1]]
        for i in entries:
            for j in entries:
                G[kind[i], kind[j]] += tokens[i] * f[i] * f[j]
    for i in range(C):
        for j in range(C):
            M[i, j] = root[i] * root[j] * G[i, j] + (own_square[i] if i == j else 0.0)
    spd_inverse(M, L, inverse)
    gradient_coefficients(u, decoupled.V, root, own_square, inverse, decoupled.leading, L[0], a)
    for row in range(row_indptr.size - 1):
        entries = row_entry[row_indptr[row] : row_indptr[row + 1]]
        for i in entries:
            n = kind[i]
            pull = 0.0
            for j in entries:
                pull += a[n, kind[j]] * f[j]
            out[slot[i]] += decoupled.eta_Z * lists.share[n] * f[i] * pull
    for n in range(C):
        overlap = 0.0
        for k in range(C):
            overlap += a[n, k] * G[n, k]
        for i in range(indptr[n], indptr[n + 1]):
            out[slot[i]] -= decoupled.eta_Z * lists.share[n] * f[i] * f[i] * overlap
    for i in range(num_slots if lists.copies.size > 0 else 0):
        out[i] /= lists.copies[i]
    return 0.0
