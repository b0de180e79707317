r"""Attention and MLP trained together: equations, data, runs and laws that claims and figure of this folder share.

Question. How do the logits of attention and the weights of the MLP above it move together? It is the sequel question of
"Scan and Snap" that JoMA asks (Tian, Wang, Zhang, Chen, Du, ICLR 2024, arXiv 2310.00535). The text of that paper was
not used: every formula here is derived here, and no verdict is passed on what is printed there. The laws of the step
size, the domains, the end of stationarity, and the size and boundary of the rebound are our own additions.

Setting. One query, M contextual tokens with orthonormal embeddings. In token coordinates hidden node k has weights v_k,
(M,), and attention has logits z, (M,). A sample is a bag of frequencies x, (M,), and a label y. Attention makes of it
    exp: b_l = x_l e^{z_l};   linear: b_l = x_l z_l;   softmax: b_l = x_l e^{z_l} / sum_m x_m e^{z_m}.
Node k has h_k = v_k.b, and the output is f = sum_k a_k phi(h_k) with a fixed readout a, (K,). phi(h) is h (linear),
max(h, 0) (ReLU) or h^2/2 (quadratic). The loss is (y - f)^2/2 or ln(1 + e^{-y f}). Minus its derivative in f is
g = y - f or g = y/(1 + e^{y f}), so g_k = g a_k reaches node k.

Flow. Minus the gradient of the mean loss, with rates eta_w and eta_z:
    v_k' = eta_w E[g_k phi'_k b],   z' = eta_z E[(db/dz)^T sum_k g_k phi'_k v_k].
CLOCK. t = h times the number of steps, for steps of size h (rates h eta_w and h eta_z); SGD has one sample in a step.

Invariants, with r = eta_z/eta_w. Under exp attention db_l/dz_l = b_l, so z_l' = r sum_k v_kl v_kl': the flow conserves
z - r sum_k v_k^2/2 for every loss, activation and data. Under linear attention db_l/dz_l = x_l, so z_l z_l' =
r sum_k v_kl v_kl': it conserves z^2 - r sum_k v_k^2. Under softmax db_l/dz_m = b_l (delta_lm - b_m), so
    z' = r sum_k v_k v_k' - eta_z E[b sum_k g_k phi'_k b.v_k],   v_k.v_k' = eta_w E[g_k phi'_k b.v_k].
With the mean bag bbar in place of b in front, z' = r (sum_k v_k v_k' - bbar sum_k v_k.v_k'). What is left out is eta_z
times the covariance of b and sum_k g_k phi'_k b.v_k over the samples.

Steps of size h. Terms of first order in h cancel in the invariant. Under exp attention one step, of descent or of SGD,
changes it by -(r/2) sum_k (v_k(+) - v_k)^2, exactly. It is of second order in h; at fixed t the sum is of first order,
-(r h/2) times the integral of sum_k (v_k')^2, for SGD of sum_k E[(eta_w g_k phi'_k b)^2], along the flow.

One saturating node under exp attention, v(0) = z(0) = 0 and r = 1, so z = v^2/2:
    stationary gradient Delta: v' = Delta e^{v^2/2};   target mu: v' = (mu - v) e^{v^2/2}, entry by entry.
"""

from functools import partial

import numba
import numpy as np
import sympy
from scipy.interpolate import CubicHermiteSpline
from scipy.special import erfinv

import snapdyn as sd

EXP, LINEAR, SOFTMAX = 0, 1, 2
TOKENS, NODES, SAMPLES = 200, 4, 6
SOURCE, OWN = "question of arXiv:2310.00535, derived here", "own derivation"


@numba.njit(error_model="numpy")
def joint_rate(t, state, out, X, y, a, tokens, eta_w, eta_z, attention, power, activation, logistic):
    """Rates of z (M,) and v (K, M), one behind the other; x e^{power z} in place of x e^z makes a wrong theory."""
    M, share = int(tokens), 1.0 / y.size
    K, z = state.size // M - 1, state[:M]
    out[:] = 0.0
    for s in range(y.size):
        b = X[s, :M] * (z if attention == 1 else np.exp(power * (z - (z.max() if attention == 2 else 0.0))))
        b /= b.sum() if attention == 2 else 1.0
        f, delta, back = 0.0, np.empty(K), np.zeros(M)
        for k in range(K):
            h = (state[M * (k + 1) : M * (k + 2)] * b).sum()
            f += a[k] * (max(h, 0.0) if activation == 1 else h * h / 2 if activation == 2 else h)
            delta[k] = a[k] * (np.float64(h > 0) if activation == 1 else h if activation == 2 else 1.0)
        delta *= share * (y[s] / (1 + np.exp(y[s] * f)) if logistic == 1 else y[s] - f)
        for k in range(K):
            out[M * (k + 1) : M * (k + 2)] += eta_w * delta[k] * b
            back += delta[k] * state[M * (k + 1) : M * (k + 2)]
        slope = X[s, :M] if attention == 1 else power * b
        out[:M] += eta_z * slope * (back - ((b * back).sum() if attention == 2 else 0.0))


def flow(p, **changes):
    """System of the flow at parameters p of a Box; `changes` make a wrong theory.

    p has M, ratio = eta_z/eta_w, attention, and, unless the defaults do: K, activation, logistic, spread (of the
    logarithms of the frequencies), absent (share of x that is 0), mean (of the labels), seed.
    """
    p = {"K": NODES, "activation": 0, "logistic": 0, "spread": 1.0, "absent": 0.0, "mean": 0.0, "seed": 0} | p | changes
    rng, M, X = np.random.default_rng(p["seed"]), p["M"], np.zeros((SAMPLES, TOKENS))
    X[:, :M] = np.exp(p["spread"] * rng.normal(size=(SAMPLES, M))) * (rng.random((SAMPLES, M)) >= p["absent"])
    X /= np.maximum(X.sum(1, keepdims=True), 1e-9)
    y = p["mean"] + np.sqrt(1 - p["mean"] ** 2) * np.tile([1.0, -1.0], SAMPLES // 2)
    a = rng.choice([-1.0, 1.0], NODES) / p["K"]
    start = np.concatenate([np.full(M, float(p["attention"] == LINEAR)), 0.5 * rng.normal(size=p["K"] * M)])
    data = {"X": X, "y": y, "a": a, "tokens": float(M)}
    fast = max(1.0, p["ratio"])  # so that the faster rate is 1
    rates = {"eta_w": 1 / fast, "eta_z": p["ratio"] / fast * p.get("rate", 1)}
    kinds = {name: float(p.get(name, 1)) for name in ("attention", "power", "activation", "logistic")}
    return sd.System.from_function("JointMLPAttention", joint_rate, start, data | rates | kinds)


def split(states, M):
    """Return z (N, M) and v (N, K, M) of states (N, M + K M)."""
    return states[:, :M], states[:, M:].reshape(len(states), -1, M)


def invariant(states, M, r, attention=EXP):
    """Return z - r sum_k v_k^2/2, or z^2 - r sum_k v_k^2 of linear attention: (N, M); and the terms without z."""
    z, v = split(states, M)
    squares = r * (v**2).sum(1)
    return (z**2 - squares, squares) if attention == LINEAR else (z - squares / 2, squares / 2)


def sample_gradients(z, v, x, y, a, attention=EXP, activation=0, logistic=0):
    """Per sample, -d loss/dv_k (R, K, M) and -d loss/dz (R, M) of R copies z (R, M), v (R, K, M), x (R, M), y (R,)."""
    b = x * (z if attention == LINEAR else np.exp(z))
    if attention == SOFTMAX:
        b = b / b.sum(1, keepdims=True)
    h = np.einsum("rkm,rm->rk", v, b)
    phi, slope = ((h, np.ones_like(h)), (np.maximum(h, 0), 1.0 * (h > 0)), (h**2 / 2, h))[int(activation)]
    f = phi @ a
    delta = (y / (1 + np.exp(y * f)) if logistic else y - f)[:, None] * a * slope
    back = np.einsum("rk,rkm->rm", delta, v)
    if attention == SOFTMAX:
        back = back - (b * back).sum(1, keepdims=True)
    return delta[:, :, None] * b[:, None], (x if attention == LINEAR else b) * back


@numba.njit(error_model="numpy")
def node_rate(t, state, out, target, pull, power, rate, loss):
    """v_l' = (target_l - pull v_l - loss v_l e^{z_l}) e^{power z_l}, z_l' = rate power v_l v_l'; v (M,), then z (M,).

    Pull and loss 0: stationary gradient. Pull 1: saturating node. Loss 1/Y, target 1: squared loss with labels Y.
    """
    M = state.size // 2
    for l in range(M):
        v, z = state[l], state[M + l]
        out[l] = (target[l] - pull * v - loss * v * np.exp(z)) * np.exp(power * z)
        out[M + l] = rate * power * v * out[l]


def node(target, **changes):
    """System of one linear node under exp attention from v = z = 0; `changes` of pull, power, rate and loss."""
    padded = np.zeros(TOKENS)
    padded[: len(target)] = target
    values = {"target": padded, "pull": 0.0, "power": 1.0, "rate": 1.0, "loss": 0.0} | changes
    return sd.System.from_function("ExpNode", node_rate, np.zeros(2 * len(target)), values)


def law_of_stationary(gradient, t):
    """v(t) of v' = gradient e^{v^2/2}, v(0) = 0: erf(v/sqrt 2) = sqrt(2/pi) gradient t, up to the divergence."""
    return np.sqrt(2) * erfinv(np.sqrt(2 / np.pi) * gradient * t)


def sgd_of_node(target, h, steps, squared_loss, runs=400, noise=0.5, seed=0, record=None):
    """SGD of `node`, bags of one token each: v, z (len(record), 2, runs, M) after the numbers of steps in `record`.

    Each step has one token l, all equally likely, and its label y, target_l plus noise. The gradient is y - v_l e^{z_l}
    of the squared loss, or y - v_l of the saturating node, times b_l = e^{z_l}. t = h steps/M.
    """
    rng, rows, saved = np.random.default_rng(seed), np.arange(runs), []
    v, z = np.zeros((2, runs, len(target)))
    for step in range(steps + 1):
        if step in (record or [steps]):
            saved.append(np.stack([v, z]))
        l = rng.integers(len(target), size=runs)
        w, b = v[rows, l], np.exp(z[rows, l])
        change = h * (target[l] + noise * rng.normal(size=runs) - w * (b if squared_loss else 1)) * b
        v[rows, l] += change
        z[rows, l] += change * w
    return np.array(saved)


GAUSS, WEIGHTS = np.polynomial.legendre.leggauss(8)
Q = np.concatenate([[0.0], np.geomspace(1e-7, 60.0, 400)])


def logit(q, mu, v=0.0, z=0.0):
    """z_l of a saturating node where mu - v_l is e^{-q} times its start; from v, z at the start."""
    return z + ((mu - (mu - v) * np.exp(-q)) ** 2 - v**2) / 2


def time_of(q, *start):
    """Times at which a saturating node reaches q (N,), from 0: the integral of dt/dq = e^{-z}."""
    middle, half = (q[1:] + q[:-1]) / 2, np.diff(q) / 2
    pieces = (np.exp(-logit(middle[:, None] + half[:, None] * GAUSS, *start)) * WEIGHTS).sum(1) * half
    return np.concatenate([[0.0], np.cumsum(pieces)])


def time_to(mu, epsilon):
    """Time at which v reaches (1 - epsilon) mu from v = z = 0."""
    end = -np.log(epsilon)
    return time_of(np.concatenate([[0.0], np.geomspace(1e-3 * min(end, 1 / mu), end, 200)]), mu)[-1]


def progress(t, *start):
    """q of a saturating node at times t."""
    known, end = time_of(Q, *start), logit(Q[-1], *start)
    spline = CubicHermiteSpline(known, Q, np.exp(logit(Q, *start)))
    return np.where(t < known[-1], spline(np.minimum(t, known[-1])), Q[-1] + (t - known[-1]) * np.exp(end))


def entropy(z, counts=1.0):
    """Entropy of softmax(z) over the last axis, whose entries stand for `counts` equal tokens each."""
    z = z - z.max(-1, keepdims=True)
    weights = counts * np.exp(z)
    total = weights.sum(-1)
    return np.log(total) - (weights * z).sum(-1) / total


def entropy_curve(mu, counts=1.0):
    """Times and entropy of attention from v = z = 0: all times at which an entry of mu (distinct) moves."""
    t = np.unique(np.concatenate([time_of(Q, each)[1::2] for each in mu]))
    return t, entropy(np.stack([logit(progress(t, each), each) for each in mu], axis=-1), counts)


def searched(name, rung, measure, theories, domain=None, evaluations=(200, 3000), **settings):
    """Property of `measure` with wrong theories: the arguments of it that each changes, by its name."""
    controls = {f"wrong theory: {theory}": partial(measure, **changes) for theory, changes in theories.items()}
    return sd.Property(name, rung, measure, domain, controls=controls, evaluations=evaluations, **settings)


def symbolic(name, residuals, case, theories):
    """Property that sympy brings `residuals(**changes)` to 0, and not those of wrong theories."""

    def left(_, **changes):
        return sd.Measured(float(sum(sympy.simplify(each) != 0 for each in residuals(**changes))), at_most=0)

    return searched(name, "symbolic", left, theories, cases={case: {}})
