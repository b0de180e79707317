"""In-context linear regression by linear attention: one drop of the loss, or one per eigenvalue.

Data. A prompt has a task w ~ N(0, I), (D,), N examples x_n ~ N(0, L), (N, D), with y_n = w.x_n, and a query x. With
beta = sum_n y_n x_n / N, (D,), attention without softmax predicts beta^T W x. Merged key and query: W = v U, with
v a number and U (D, D). Separate: W = sum_i v_i k_i q_i^T over H heads, v (H,), columns of K and Q (D, H).
CLOCK. Steps of size h along minus the gradient of (w.x - beta^T W x)^2 / 2, one prompt a step: t (t/tau of the paper)
is h times the number of these batch-size-1 steps.
Flow. beta = S w with S = sum_n x_n x_n^T / N; E S = L and M = E S^2 = (1 + 1/N) L^2 + tr(L) L / N (fourth moments of
Gaussians). The squared error is tr L - 2 tr(L W L) + tr(M W L W^T); minus half its gradient in W is G = L^2 - M W L.
Chain rule: v' = tr(U^T G), U' = v G; or v_i' = k_i^T G q_i, k_i' = v_i G q_i, q_i' = v_i G^T k_i.
Merged, L = I, start v = w0, U = w0 I / sqrt(D): U = v I / sqrt(D) stays, and sigma = v^2 / sqrt(D) = tr(W)/D solves
sigma' = 2 sqrt(D) sigma (1 - c sigma), c = 1 + (1 + D)/N, so sigma = g/[c(g - 1) + sqrt(D)/w0^2], g = e^{2 sqrt(D) t}.
Separate. W = 1/(lambda_d c_d) on the eigenvectors e_d, d in A, 0 on others, c_d = 1 + (1 + tr L/lambda_d)/N, has the
loss tr L - sum_A lambda_d/c_d. Made by heads along e_d, d in A, it is a fixed point, for each of the 2^D sets A.
A head v = |k| = |q| = u along e_d has u' = lambda^2 u^2 (1 - a u^3), a = lambda c: with the hypergeometric function F,
lambda^2 t = phi(u) - phi(u0), phi(u) = -1/u + (a u^2/2) F(1, 2/3; 5/3; a u^3). It is small for a time 1/(lambda^2 u0).
Print (Zhang, Singh, Latham, Saxe 2025, arXiv:2501.16265): sigma(t) and the plateaus agree. Two conditions are needed.
- The drops come in the order of the eigenvalues if small starts differ by less than (lambda_1/lambda_2)^2, 1.78 for 0.4
  and 0.3. A head along e_2 that starts 1.9 times larger is first: the loss waits at 0.7368, not at 0.6406. Of 100
  random Gaussian starts 97 are in order at standard deviation 0.1, and all at 0.01.
- w0 is that of the balanced start. From v = w0, U = 0 the drop is later by ln(4)/(2 sqrt(D)): 0.347 for D = 4.
"""

import numba
import numpy as np
import sympy
from scipy.signal import find_peaks
from scipy.special import hyp2f1

import snapdyn as sd
from snapdyn.figures.style import DOUBLE_COLUMN, house_style, new_figure

D, N, W0 = 4, 31, 0.05
EIGENVALUES = np.array([0.4, 0.3, 0.2, 0.1])
C = 1 + (1 + EIGENVALUES.sum() / EIGENVALUES) / N
SOURCE = "arXiv:2501.16265, derived here"


def sigma(t, rate=2 * D**0.5, c=1 + (1 + D) / N):
    """Trace of W over D at times t, merged; a control takes another rate or c."""
    return np.exp(rate * t) / (c * np.expm1(rate * t) + np.sqrt(D) / W0**2)


def plateaus(c=C):
    """Losses with the first m = 0, ..., D eigenvectors learned, (D + 1,)."""
    return EIGENVALUES.sum() - np.append(0, np.cumsum(EIGENVALUES / c))


def time_of(u, u0, eigenvalue, c):
    """Time at which an aligned head that starts at u0 reaches u."""
    a = eigenvalue * c
    phi = (-1 / x + a * x**2 / 2 * hyp2f1(1, 2 / 3, 5 / 3, a * x**3) for x in (u, u0))
    return np.subtract(*phi) / eigenvalue**2


v, w0, n, symbol = *sympy.symbols("v w0 N"), sympy.MatrixSymbol("U", D, D)
U = symbol.as_explicit()
G = sympy.eye(D) - (1 + (1 + sympy.Integer(D)) / n) * v * U
start, rate = {v: w0, symbol: w0 / sympy.sqrt(D) * sympy.eye(D)}, {v: (U.T * G).trace(), symbol: v * G}
measured, kept = {"sigma": v * U.trace() / D}, {"v^2 - |U|^2": v**2 - (U.T * U).trace()}
MERGED = sd.System.from_sympy("MergedAttention", start, rate, {w0: W0, n: N}, measured, kept)


@numba.njit
def separate_rate(t, state, out, eigenvalues, N):
    """Rates of separate keys and queries; state is v (1, H), K (D, H), Q (D, H), one below the other."""
    D = eigenvalues.size
    S, change = state.reshape(2 * D + 1, -1), out.reshape(2 * D + 1, -1)
    v, K, Q = S[0], S[1 : D + 1], S[D + 1 :]
    change[:] = 0.0
    for d in range(D):
        for e in range(D):
            moment = (1 + 1 / N) * eigenvalues[d] ** 2 + eigenvalues.sum() / N * eigenvalues[d]
            g = (d == e) * eigenvalues[d] ** 2 - moment * (v * K[d] * Q[e]).sum() * eigenvalues[e]
            change[0] += K[d] * g * Q[e]
            change[1 + d] += v * g * Q[e]
            change[1 + D + e] += v * g * K[d]


def separate(start):
    """Flow of separate keys and queries from `start`, (2D + 1, H)."""
    return sd.System.from_function("SeparateAttention", separate_rate, np.ravel(start), (EIGENVALUES, float(N)))


def aligned(u):
    """Head d along eigenvector d with v = |k| = |q| = u[d]: (2D + 1, D)."""
    return np.vstack([u, np.diag(u), np.diag(u)])


def squared_error(states, L=EIGENVALUES):
    """Expected squared error of separate keys and queries at states (T, 2D + 1, D) or flat."""
    v, K, Q = np.split(np.reshape(states, (-1, 2 * D + 1, D)), [1, D + 1], axis=1)
    W, moment = v * K @ Q.transpose(0, 2, 1), (1 + 1 / N) * L**2 + L.sum() / N * L
    return L.sum() - 2 * (np.einsum("tdd->td", W) * L**2).sum(1) + (moment[:, None] * W**2 * L).sum((1, 2))


def prompts(rng, runs, L):
    """Draw one prompt per run: beta (runs, D), query (runs, D), its label (runs,)."""
    w, x = rng.normal(size=(runs, D)), rng.normal(size=(runs, N + 1, D)) * np.sqrt(L)
    y = (x @ w[:, :, None])[:, :, 0]
    return (y[:, None, :N] @ x[:, :N])[:, 0] / N, x[:, N], y[:, N]


def sgd(start, step_size, record, L, runs=400, seed=0, merged=False, one_prompt=False):
    """Train `runs` models, a new prompt each step: (len(record), runs, 2D + 1, D). Merged is K = U, Q = I, one v."""
    rng, S, saved = np.random.default_rng(seed), np.repeat(start[None], runs, axis=0), []
    for step in range(max(record) + 1):
        saved += [S.copy()] if step in record else []
        if step == 0 or not one_prompt:
            beta, x, y = prompts(rng, runs, L)
        v, K, Q = np.split(S, [1, D + 1], axis=1)
        keys, queries = beta[:, None] @ K, x[:, None] @ Q
        error = y - (v * keys * queries).sum((1, 2))
        change = [keys * queries, beta[:, :, None] * v * queries, x[:, :, None] * v * keys]
        if merged:
            change[0], change[2] = change[0].sum(2, keepdims=True) + 0 * v, 0 * Q
        S += step_size * error[:, None, None] * np.concatenate(change, axis=1)
    return np.array(saved)


def sgd_sigma(step_size, times, **options):
    """sigma of SGD, merged: (times, runs)."""
    start = np.vstack([np.full(D, W0), W0 / D**0.5 * np.eye(D), np.eye(D)])
    states = sgd(start, step_size, [round(t / step_size) for t in times], np.ones(D), merged=True, **options)
    return np.einsum("trd,trdd->tr", states[:, :, 0], states[:, :, 1 : D + 1]) / D


@sd.claim("attention-sigmoid", source=SOURCE, title="Merged: one drop", statement="sigma(t) is the printed sigmoid.")
def attention_sigmoid(evidence):
    times, late = np.linspace(0, 3, 61), np.array([0.5, 1.0, 1.5, 2.0, 2.5])
    found = sd.integrate(MERGED, times).observable("sigma")
    half, whole = sgd_sigma(0.00125, late, seed=1), sgd_sigma(0.0025, late)
    mean = 2 * half.mean(1) - whole.mean(1)  # without the term of first order in the step size
    error = np.sqrt((4 * half.var(1, ddof=1) + whole.var(1, ddof=1)) / half.shape[1])
    for name, law in {"": {}, "rate 2": {"rate": 2.0}, "c = 1": {"c": 1.0}, "c = 1 + D/N": {"c": 1 + D / N}}.items():
        add = evidence.control if name else evidence.holds
        add(f"largest |sigma - closed form| {name}", "flow", abs(found - sigma(times, **law)).max(), at_most=1e-6)
        add(f"SGD, in standard errors {name}", "SGD", (abs(mean - sigma(late, **law)) / error).max(), at_most=4)


@sd.claim("attention-orders", source=SOURCE, title="Merged: orders", statement="Descent has order 1, SGD 1/2, in h.")
def attention_orders(evidence):
    rungs = sd.ladder_of(MERGED, [1.0, 2.0], 0.01, closed_form=lambda t: {"sigma": sigma(t)})
    evidence.holds("descent has order 1", "descent", float(rungs.orders()["descent"].agrees), at_least=1)
    sizes = 0.01 * 0.5 ** np.arange(4)
    for one_prompt, add in ((False, evidence.holds), (True, evidence.control)):
        spread = [sgd_sigma(h, [1.0], runs=1000, seed=k, one_prompt=one_prompt).std() for k, h in enumerate(sizes)]
        slope = np.polyfit(np.log(sizes), np.log(spread), 1)[0]
        add(f"|order of the spread - 1/2|{' on one prompt' * one_prompt}", "SGD", abs(slope - 0.5), at_most=0.25)


@sd.claim("attention-plateaus", source=SOURCE, title="Separate: plateaus", statement="tr L - sum lambda_d/c_d.")
def attention_plateaus(evidence):
    best = 1 / (EIGENVALUES * C)
    run = sd.integrate(separate(np.random.default_rng(2).normal(0, 0.01, (2 * D + 1, D))), np.geomspace(99, 1e5, 9999))
    loss = squared_error(run.state)
    pace = -np.gradient(loss, np.log(run.t))
    peaks = sorted(sorted(find_peaks(pace)[0], key=lambda i: -pace[i])[:D])  # the drops; slowest between two: plateaus
    slow = [loss[0], *(loss[a + pace[a:b].argmin()] for a, b in np.c_[peaks[:-1], peaks[1:]]), loss[-1]]
    beta, x, y = prompts(np.random.default_rng(0), 100_000, EIGENVALUES)
    squares = [(y - (beta * x * best * (np.arange(D) < m)).sum(1)) ** 2 for m in range(D + 1)]
    for name, law in {"": plateaus(), "N = infinity": plateaus(1.0), "c = 1 + 1/N": plateaus(1 + 1 / N)}.items():
        add = evidence.control if name else evidence.holds
        add(f"random start: largest |plateau - law| {name}", "flow", abs(slow - law).max(), at_most=1e-3)
        scores = [abs(each.mean() - p) / each.std() * len(y) ** 0.5 for each, p in zip(squares, law, strict=True)]
        add(f"100,000 prompts, largest difference in standard errors {name}", "SGD", max(scores), at_most=4)


@sd.claim("attention-drops", source=SOURCE, title="Separate: times", expected="conditional", statement="t(u), order.")
def attention_drops(evidence):
    t, half = np.geomspace(100, 6e4, 9999), {}
    for ratio in (1.9, 1.7, 1.5, 1.0):  # start of head 2 over that of the others
        u = sd.integrate(separate(aligned(0.02 * np.array([1, ratio, 1, 1]))), t).state[:, :D]
        half[ratio] = t[(u**3 > 0.5 / (EIGENVALUES * C)).argmax(0)]
    rows = abs(t / half[1][3] - 1) < 0.02  # the last drop, equal starts
    time = time_of(u[rows, 3], 0.02, EIGENVALUES[3], C[3])
    evidence.holds("relative error of t(u)", "flow", abs(time / t[rows] - 1).max(), at_most=1e-6)
    evidence.control("lambda t, not lambda^2 t", "flow", abs(time * EIGENVALUES[3] / t[rows] - 1).max(), at_most=1e-6)
    evidence.holds("equal starts: ratio of successive times", "flow", (half[1][:-1] / half[1][1:]).max(), at_most=1)
    evidence.holds("start of head 2 times 1.7: t_1 / t_2", "flow", half[1.7][0] / half[1.7][1], at_most=1)
    evidence.outside("start of head 2 times 1.9: t_1 / t_2", "flow", half[1.9][0] / half[1.9][1], at_most=1)
    evidence.control("wrong theory: head 2 first from 1.33", "flow", half[1.5][1] / half[1.5][0], at_most=1)


def figure():
    """Draw theory (lines) and SGD (points, mean of runs) for merged and separate keys and queries."""
    with house_style():
        drawn = new_figure(DOUBLE_COLUMN, 2.6)
        left, right = drawn.subplots(1, 2)
        t, start, record = np.linspace(0, 3, 301), aligned(np.full(D, 0.1)), np.arange(0, 60001, 2000)
        left.plot(t, sigma(t), label="closed form")
        left.plot(t[::20], sgd_sigma(0.0025, t[::20]).mean(1), "o", color="C1", label="SGD")
        left.set(xlabel="$t$ (step size x prompts), merged", ylabel=r"$\sigma(t)$")
        right.plot(400 * t, squared_error(sd.integrate(separate(start), 400 * t).state), label="flow")
        states = sgd(start, 0.02, set(record), EIGENVALUES, runs=20)
        right.plot(0.02 * record, [squared_error(each).mean() for each in states], "o", color="C1", label="SGD")
        right.hlines(plateaus(), 0, 1200, color="0.6", linestyle=":", zorder=0, label="plateaus")
        right.set(xlabel="$t$ (step size x prompts), separate", ylabel="squared error")
        _ = left.legend(), right.legend(loc=(0.65, 0.63))
    return drawn
