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

from functools import cache

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


def sigma(t, w0=W0, N=N, rate=2 * D**0.5, share=1 + D):
    """Trace of W over D at times t, merged; c = 1 + share/N. A control takes another rate or share."""
    return np.exp(rate * t) / ((1 + share / N) * np.expm1(rate * t) + np.sqrt(D) / w0**2)


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


def of(name, rung, number, bound, right, wrong, *domain, **options):
    """Property that |number(law, setting)| is at most `bound`, largest entry, with wrong laws by name as controls."""

    def near(law):
        return lambda setting: sd.Measured(np.abs(number(law, setting)).max(), at_most=bound)

    controls = {f"wrong theory: {key}": near(law) for key, law in wrong.items()}
    return sd.Property(name, rung, near(right), *domain, controls=controls, **options)


def flow_gap(law, p):
    run = sd.integrate(MERGED.with_parameters(**p), TIMES, method="LSODA", rtol=1e-9)
    return run.observable("sigma") - sigma(TIMES, **p, **law)


def sgd_gap(law, late):
    half, whole = (sgd_sigma(h, late, seed=seed) for h, seed in ((0.00125, 1), (0.0025, 0)))
    mean = 2 * half.mean(1) - whole.mean(1)  # without the term of first order in the step size
    return (mean - sigma(late, **law)) / np.sqrt((4 * half.var(1, ddof=1) + whole.var(1, ddof=1)) / half.shape[1])


def spread_gap(one_prompt, sizes):
    runs = [sgd_sigma(h, [1.0], runs=1000, seed=k, one_prompt=one_prompt) for k, h in enumerate(sizes)]
    return np.polyfit(np.log(sizes), np.log([run.std() for run in runs]), 1)[0] - 0.5


def descent_order(h):
    rungs = sd.ladder_of(MERGED, LATE[1::2], h, closed_form=lambda t: {"sigma": sigma(t)})
    return sd.Measured(rungs.orders()["descent"].agrees, at_least=1)


@cache
def waits(seed):
    """Losses at which the flow from a random start is slowest: at the start, between two drops, at the end."""
    run = sd.integrate(
        separate(np.random.default_rng(seed).normal(0, 0.01, (2 * D + 1, D))), np.geomspace(99, 1e5, 9999)
    )
    loss = squared_error(run.state)
    pace = -np.gradient(loss, np.log(run.t))
    peaks = sorted(sorted(find_peaks(pace)[0], key=lambda i: -pace[i])[:D])
    return np.array([loss[0], *(loss[a + pace[a:b].argmin()] for a, b in np.c_[peaks[:-1], peaks[1:]]), loss[-1]])


def prompt_gap(c, seed):
    beta, x, y = prompts(np.random.default_rng(seed), 100_000, EIGENVALUES)
    heads = beta * x / (EIGENVALUES * C)
    squares = np.array([(y - heads[:, :m].sum(1)) ** 2 for m in range(D + 1)])
    return (squares.mean(1) - plateaus(c)) / squares.std(1) * len(y) ** 0.5


@cache
def aligned_run(ratio):
    """Times, heads, and times of half their final values; the second head starts at `ratio` times the others' 0.02."""
    run = sd.integrate(separate(aligned(0.02 * np.array([1, ratio, 1, 1]))), np.geomspace(100, 6e4, 9999))
    u = run.state[:, :D]
    return run.t, u, run.t[(u**3 > 0.5 / (EIGENVALUES * C)).argmax(0)]


def time_gap(power, ratio):
    t, u, half = aligned_run(ratio)
    rows = abs(t / half[3] - 1) < 0.02  # the last drop
    return time_of(u[rows, 3], 0.02, EIGENVALUES[3], C[3]) * EIGENVALUES[3] ** (2 - power) / t[rows] - 1


def drops(swap, p):
    """Ratios of the first two times, which a theory swaps from a ratio of the starts on, and of the next ones."""
    t = aligned_run(p["ratio"])[2]
    return [t[1] / t[0] if p["ratio"] > swap else t[0] / t[1], t[1] / t[2], t[2] / t[3]]


WRONG = {"rate 2": {"rate": 2.0}, "c = 1": {"share": 0}, "c = 1 + D/N": {"share": D}}
WRONG_C, FLOW = {"N = infinity": 1.0, "c = 1 + 1/N": 1 + 1 / N}, "flow"
TIMES, LATE = np.linspace(0, 3, 61), np.linspace(0.5, 2.5, 5)
for claim in (
    sd.Claim("attention-sigmoid", SOURCE, "Merged: one drop", "sigma(t) is the printed sigmoid.", properties=(
        of("|sigma - law|", FLOW, flow_gap, 1e-6, {}, WRONG, sd.Box(w0=(0.01, 0.3, "log"), N=(1, 200))),
        of("in standard errors", "SGD", sgd_gap, 4, {}, WRONG, cases={"400 runs": LATE}))),
    sd.Claim("attention-orders", SOURCE, "Merged: orders", "Descent has order 1, SGD 1/2, in h.", properties=(
        sd.Property("descent has order 1", "descent", descent_order, cases={"h = 0.01": 0.01}),
        of("|order of the spread - 1/2|", "SGD", spread_gap, 0.25, False, {"one prompt": True},
           cases={"h = 0.01 to 0.00125": 0.01 * 0.5 ** np.arange(4)}))),
    sd.Claim("attention-plateaus", SOURCE, "Separate: plateaus", "tr L - sum lambda_d/c_d.", properties=(
        of("|plateau - law|", FLOW, lambda c, seed: waits(seed) - plateaus(c), 1e-3, C, WRONG_C, cases={"random": 2}),
        of("in standard errors", "SGD", prompt_gap, 4, C, WRONG_C, cases={"100,000 prompts": 0}))),
    sd.Claim("attention-drops", SOURCE, "Separate: times", "t(u), order.", expected="conditional", properties=(
        of("relative error of t(u)", FLOW, time_gap, 1e-6, 2, {"lambda t": 1}, cases={"equal starts": 1.0}),
        of("ratio of successive times", FLOW, drops, 1, 9, {"head 2 first from 1.33": 4 / 3},
           sd.Box(ratio=(1.0, 1.75)), evaluations=(8, 100), beyond={"start of head 2 times 1.9": {"ratio": 1.9}}))),
):  # fmt: skip
    sd.register(claim)


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
