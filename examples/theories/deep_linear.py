r"""Two layers of a linear network, one mode: closed form, flow, SGD on samples, four claims, a figure.

    snapdyn validate deep-linear-sigmoid --load examples/theories/deep_linear.py
Network and data: y_hat = W2 W1 x, W1 of shape (H, N), W2 of shape (M, H), loss |y - y_hat|^2 / 2. Inputs x (N,) are
standard normal, labels are y = s w (v.x) + sigma xi with unit vectors w (M,), v (N,) and standard normal xi (M,).

Derivation. The mean gradient needs E[x x^T] = 1 and E[y x^T] = s w v^T only: W1' = W2^T (s w v^T - W2 W1), W2' =
(s w v^T - W2 W1) W1^T. With W1 = a r v^T and W2 = b w r^T, |r| = 1, both sides keep this form. With u = a b:
    a' = b (s - u),   b' = a (s - u),   lambda = a^2 - b^2 is conserved,
    u' = (a^2 + b^2)(s - u) = sqrt(lambda^2 + 4 u^2)(s - u).
P = (a + b)^2 and Q = (a - b)^2 obey P' = 2(s - u) P, Q' = -2(s - u) Q with u = (P - Q)/4 and P Q = lambda^2, so each
is alone: P' = lambda^2/2 + 2 s P - P^2/2, Q' = lambda^2/2 - 2 s Q - Q^2/2, two Riccati equations (`riccati`).
`overlap` is the result, for every start. For a = b it is u = s e^{2st}/(e^{2st} - 1 + s/u0).
CLOCK: t = h times the number of batch-size-1 steps, h the learning rate of both layers.
Label noise. A step changes |W1|^2 - |W2|^2 by h^2 (|x|^2 |W2^T e|^2 - |e|^2 |W1 x|^2), e = y - y_hat: the terms of
order h cancel. At u = s, e is the noise, whose mean gives h^2 sigma^2 (N |W2|^2 - M |W1|^2). With |W1| |W2| = s
(H = 1) q = |W1|^2/|W2|^2 follows q' = 2 q (N - M q)/(1 + q) in the slow clock tau = h^2 sigma^2 times steps.
Findings. The sigmoid and u' as quoted from Saxe, McClelland, Ganguli (2014) are right. But
- lambda = 0 does not suffice for the sigmoid: a = -b has lambda = 0 too, and ends in the saddle u = 0. The sigmoid
  from u0 = -0.0625, s = 1 has a pole at t = ln(1 - s/u0)/(2s) = 1.417.
- The flow alone conserves lambda. Descent multiplies it by 1 - h^2 (s - u)^2 in each step. SGD with label noise
  drives q towards N/M: it unbalances balanced layers unless N = M (N = 6, M = 2: q goes from 1 to 2.03 by tau = 0.3).
"""

from functools import lru_cache, partial

import numpy as np
import sympy
import xarray

import snapdyn as sd
from snapdyn.figures.style import DOUBLE_COLUMN, new_figure

BALANCED, UNBALANCED, S, INPUTS, OUTPUTS = (0.25, 0.25), (0.6, 0.1), 1.0, 6, 2
TIMES, TAUS, SAXE = np.linspace(0.5, 5.0, 10), np.array([0.05, 0.1, 0.2, 0.3]), "Saxe et al. 2014, arXiv:1312.6120"

a, b, a0, b0, s, q, N, M = sympy.symbols("a b a0 b0 s q N M")
rate, values, measured = {a: b * (s - a * b), b: a * (s - a * b)}, {a0: 0.25, b0: 0.25, s: S}, {"u": a * b}
LAYERS = sd.System.from_sympy("DeepLinear", {a: a0, b: b0}, rate, values, measured, {"lambda": a**2 - b**2})
RATIO = sd.System.from_sympy("LabelNoise", {q: 1}, {q: 2 * q * (N - M * q) / (1 + q)}, {N: INPUTS, M: OUTPUTS})


def riccati(t, start, slope, lam):
    """Solve y' = lam^2/2 + slope y - y^2/2, y(0) = start, at times t (any shape)."""
    kappa, decay = np.hypot(slope, lam), np.exp(-np.hypot(slope, lam) * t)
    above = start * kappa * (1 + decay) + (lam**2 + slope * start) * (1 - decay)
    return above / (kappa * (1 + decay) + (start - slope) * (1 - decay))


def overlap(t, a, b, s=S):
    """Return u(t) from a, b at t = 0, the closed form; shape of t."""
    P, Q = (riccati(t, (a + sign * b) ** 2, 2 * sign * s, a**2 - b**2) for sign in (1, -1))
    return (P - Q) / 4


def sigmoid(t, u0, s=S, rate=2.0):
    """Return the solution of u' = rate u (s - u), u(0) = u0; that of balanced layers has rate 2."""
    return s / (1 + (s / u0 - 1) * np.exp(-rate * s * t))


# Wrong theories of u: the other clock, and a network without a hidden layer, u' = s - u.
WRONG = {"rate s": partial(sigmoid, rate=1.0), "one layer": lambda t, u0, s=S: s - (s - u0) * np.exp(-t)}


@lru_cache
def train(h, steps, start, shape=(4, 3, 2), noise=0.3, seeds=300, seed=0):
    """SGD, a new sample in each step: u, |W1|^2, |W2|^2 after `steps`, (len(steps), 3, seeds); shape = (N, H, M)."""
    (N, H, M), rng = shape, np.random.default_rng(seed)
    W1, W2, kept = np.zeros((seeds, H, N)), np.zeros((seeds, M, H)), []
    W1[:, 0, 0], W2[:, 0, 0] = start  # r, w and v are first unit vectors
    for step in range(steps[-1] + 1):
        if step in steps:
            kept.append([(W2 @ W1)[:, 0, 0], (W1**2).sum((1, 2)), (W2**2).sum((1, 2))])
        x, xi = rng.normal(size=(seeds, 1, N)), rng.normal(size=(seeds, M, 1))
        hidden = (W1 * x).sum(2)[:, None]  # (seeds, 1, H)
        error = noise * xi - (W2 * hidden).sum(2, keepdims=True)  # (seeds, M, 1)
        error[:, 0] += S * x[:, 0, :1]
        W1, W2 = W1 + h * (W2 * error).sum(1)[:, :, None] * x, W2 + h * error * hidden
    return np.array(kept)


def at_zero_rate(measure, h, steps, **settings):
    """Mean over seeds of `measure` of SGD at h -> 0, from h and h/2 (order h drops out), and its standard error."""
    runs = [measure(train(h / 2**k, tuple(steps(h / 2**k).round().astype(int)), seed=k, **settings)) for k in (0, 1)]
    variance = (runs[0].var(axis=1, ddof=1) + 4 * runs[1].var(axis=1, ddof=1)) / runs[0].shape[1]
    return 2 * runs[1].mean(axis=1) - runs[0].mean(axis=1), np.sqrt(variance)


def largest(difference, at_most):
    return sd.Measured(np.abs(difference).max(), at_most=at_most)


def flow(b, a=None, s=S):
    """Run the flow from a and b; from a = |b| if no a is given."""
    return sd.integrate(LAYERS.with_parameters(a0=abs(b) if a is None else a, b0=b, s=s), TIMES)


def of_flow(law):
    """Largest |u - law|."""
    return lambda start: largest(flow(**start).observable("u") - law(**start), 1e-6)


def of_sgd(law):
    """|mean - law| over its standard error; 20 of them pass 4 with a probability of at most 20 * 6.3e-5 = 1.3e-3."""
    runs = {"measure": lambda run: run[:, 0], "h": 0.02, "steps": lambda h: TIMES / h}
    return lambda start: of_mean(law(TIMES, *start))(at_zero_rate(**runs, start=start))


def of_mean(law):
    return lambda found: largest((found[0] - law) / found[1], 4)


@lru_cache
def layer_ratio():
    """Ratio q of SGD at TAUS from balanced layers at the minimum, sigma = 0.5, h -> 0, with its standard error."""
    settings = {"start": (1.0, 1.0), "shape": (INPUTS, 1, OUTPUTS), "noise": 0.5}
    return at_zero_rate(lambda run: run[:, 1] / run[:, 2], 0.02, lambda h: TAUS / (h * 0.5) ** 2, **settings)


ALONG = {name: lambda b, s, law=law: law(TIMES, abs(b) * b, s) for name, law in {"sigmoid": sigmoid, **WRONG}.items()}
PRODUCT = {name: lambda t, a, b, law=law: law(t, a * b) for name, law in {"sigmoid": sigmoid, **WRONG}.items()}
RATIOS = {key: sd.integrate(RATIO.with_parameters(N=key[0], M=key[1]), TAUS) for key in ((6, 2), (4, 4), (2, 6))}
LAWS = {key: of_mean(run.observable("q")) for key, run in RATIOS.items()}
ANY = sd.Box(a=(0.1, 1.5), b=(-1.5, 1.5))
CLAIMS = (
    sd.Claim(
        "deep-linear-sigmoid", SAXE, "Balanced layers learn along a sigmoid",
        "From a = b, u follows s e^{2st}/(e^{2st} - 1 + s/u0). From a = -b it does not, though lambda = 0.",
        conclusion="From a = b a sigmoid; from a = -b u ends at the saddle.", expected="conditional",
        properties=sd.Property(
            "|u - law|", "flow", of_flow(ALONG["sigmoid"]), sd.Box(b=(0.05, 1.5), s=(0.5, 2.0)),
            controls={name: of_flow(ALONG[name]) for name in WRONG}, beyond={"a = -b": {"b": -0.25, "s": S}},
        ),
    ),
    sd.Claim(
        "deep-linear-unbalanced", SAXE, "Layers of any start: two Riccati equations",
        "`overlap` solves u' = sqrt(lambda^2 + 4 u^2)(s - u), and the flow conserves lambda.",
        conclusion="Closed form within {|u - law|:.1e} of the flow; lambda changes by {change of lambda:.1e}.",
        properties=(
            sd.Property("|u - law|", "flow", of_flow(lambda a, b: overlap(TIMES, a, b)), ANY, controls={
                "wrong theory: lambda = 0, same |u0|": of_flow(lambda a, b: overlap(TIMES, *[abs(a * b) ** 0.5] * 2))}),
            sd.Property("change of lambda", "flow", lambda p: largest(flow(**p).invariants["lambda"], 1e-6), ANY),
        ),
    ),
    sd.Claim(
        "deep-linear-sgd", SAXE, "SGD on samples follows the closed form",
        "As h -> 0 the mean of u over SGD runs (batch size 1, N = 4, H = 3, M = 2) tends to `overlap`.",
        conclusion="The mean of 300 runs is within {a = b:.1f} and {a = 6 b:.1f} standard errors of the closed form.",
        properties=sd.Property(
            "|mean - law|/standard error", "SGD", of_sgd(overlap), cases={"a = b": BALANCED, "a = 6 b": UNBALANCED},
            controls={f"wrong theory: {name}": of_sgd(law) for name, law in PRODUCT.items()},
        ),
    ),
    sd.Claim(
        "deep-linear-label-noise", "own derivation", "Label noise drives q = |W1|^2/|W2|^2 towards N/M",
        "At the minimum the mean of q over SGD runs (N = 6, M = 2, H = 1) follows q' = 2 q (N - M q)/(1 + q).",
        conclusion="q leaves 1 along the law; lambda is conserved by the flow only.",
        properties=sd.Property(
            "|mean - law|/standard error", "SGD", LAWS[6, 2], cases=lambda: {"sigma = 0.5": layer_ratio()},
            controls={"wrong theory: M = N": LAWS[4, 4], "wrong theory: N, M exchanged": LAWS[2, 6]},
        ),
    ),
)  # fmt: skip


def compute(level):
    """Return u (start, time), u_sgd (start, run, time; h = 0.02), q (tau), q_sgd and its error (tau_sgd)."""
    t, tau, starts = np.linspace(0, 5, 51), np.linspace(0, 0.32, 33), (BALANCED, UNBALANCED)
    runs = [train(0.02, tuple(np.rint(t / 0.02).astype(int)), start, seeds=20)[:, 0].T for start in starts]
    data = {"u": (("start", "time"), [overlap(t, *each) for each in starts]), "u_sgd": (("start", "run", "time"), runs)}
    data["q"], (mean, error) = ("tau", sd.integrate(RATIO, tau).observable("q")), layer_ratio()
    data |= {"q_sgd": ("tau_sgd", mean), "q_error": ("tau_sgd", error)}
    return xarray.Dataset(data, {"time": t, "tau": tau, "tau_sgd": TAUS})


def draw(data):
    figure = new_figure(DOUBLE_COLUMN, 2.6)
    left, right = figure.subplots(1, 2)
    for k, (name, style) in enumerate({"$a=b=0.25$": "-", "$a=0.6$, $b=0.1$": "--"}.items()):
        left.plot(data.time, data.u_sgd[k].T, color=f"C{k}", alpha=0.2, linewidth=0.5)
        left.plot(data.time, data.u[k], style, color=f"C{k}", label=f"closed form, {name}")
    right.plot(data.tau, data.q, label="$q'=2q(N-Mq)/(1+q)$")
    right.axhline(1, color="0.65", linewidth=0.8, label=r"wrong theory: $\lambda$ conserved")
    right.errorbar(data.tau_sgd, data.q_sgd, 4 * data.q_error, fmt="s", label="SGD, 4 standard errors")
    right.set(xlabel=r"$\tau=h^2\sigma^2$ × batch-size-1 steps", ylabel="$q=|W_1|^2/|W_2|^2$")
    left.set(xlabel="$t=h$ × batch-size-1 steps", ylabel="$u$ (thin: SGD, $h=0.02$)")
    left.legend(), right.legend()
    return figure


DRAWN = sd.Property(
    "q", "SGD", lambda data: of_mean(np.interp(TAUS, data.tau, data.q))((data.q_sgd, data.q_error)),
    controls={"wrong theory: q = 1": lambda data: of_mean(1)((data.q_sgd, data.q_error))},
)  # fmt: skip
CAPTION = "Left: overlap u of balanced and unbalanced layers, 20 SGD runs each. Right: label noise unbalances layers."
FIGURE = sd.FigureEntry("deep-linear", "Two layers of a linear network", CAPTION, compute, draw, properties=(DRAWN,))
for entry in (LAYERS, *CLAIMS, FIGURE):
    sd.register(entry)
