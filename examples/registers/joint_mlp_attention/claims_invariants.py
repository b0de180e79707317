"""Claims: what attention and MLP conserve together under each attention, and how finite steps change it.

    snapdyn validate joint-exp-invariant --load examples/registers/joint_mlp_attention/claims_invariants.py
The equations are those of joint_systems.py.
"""

from functools import partial

import joint_systems as joint
import numpy as np
import sympy
from joint_systems import EXP, LINEAR, NODES, OWN, SOFTMAX, SOURCE, searched, symbolic

import snapdyn as sd

END, SEEDS = 20.0, 400


def left_over(attention, exponent=1, ratio=1):
    """d(invariant)/dt of one sample and one token, K = 3 nodes, any g_k phi'_k; samples and nodes enter as sums."""
    x, z, eta_w, eta_z = sympy.symbols("x z eta_w eta_z", positive=True)
    v, delta = sympy.symbols("v1:4"), sympy.symbols("delta1:4")
    b = x * sympy.exp(exponent * z) if attention == EXP else x * z**exponent
    kept = (2 * z if attention == EXP else z**2) - ratio * eta_z / eta_w * sum(w**2 for w in v)
    z_rate = eta_z * b.diff(z) * sum(d * w for d, w in zip(delta, v, strict=True))
    return [kept.diff(z) * z_rate + sum(kept.diff(w) * eta_w * d * b for w, d in zip(v, delta, strict=True))]


def change_of_invariant(p, attention, law=None, **changes):
    """Largest change of the invariant over the change of its terms; `changes` give the run of a wrong theory."""
    system = joint.flow({**p, "attention": attention, **changes})
    run = sd.integrate(system, [0.0, 1.0, 5.0, END], rtol=1e-9, atol=1e-12, most_evaluations=9999)
    kept, squares = joint.invariant(run.state, p["M"], p["ratio"], attention if law is None else law)
    moved = max(np.abs(each - each[0]).max() for each in (kept + squares, squares))
    if not run.success or not 1e-9 < moved < np.inf:
        return None
    return sd.Measured(np.abs(kept - kept[0]).max() / moved, at_most=1e-4)


def one_start(p, **changes):
    """System of p under exp attention, with its z (1, M), v (1, K, M), data and kinds for `sample_gradients`."""
    kind = {"activation": 2 * p["quadratic"]} if "quadratic" in p else {}
    system = joint.flow({**p, "attention": EXP, **kind, **changes})
    X, y, a = (np.array(system.parameters[name]) for name in ("X", "y", "a"))
    kinds = {name: int(system.parameters[name]) for name in ("attention", "activation", "logistic")}
    return system, *joint.split(system.start[None], p["M"]), (X[:, : p["M"]], y, a[: p["K"]]), kinds


def trained(p, h, steps, seeds, **changes):
    """Train by SGD: the change of the invariant (seeds, M), and the sum of (v(+) - v)^2 over nodes and steps."""
    system, z, v, (X, y, a), kinds = one_start(p, **changes)
    z, v, rng = np.repeat(z, seeds, axis=0), np.repeat(v, seeds, axis=0), np.random.default_rng(p["seed"])
    start, squares = z - p["ratio"] * (v**2).sum(1) / 2, 0.0
    for _ in range(steps):
        i = rng.integers(y.size, size=seeds)
        of_v, of_z = joint.sample_gradients(z, v, X[i], y[i], a, **kinds)
        step = h * system.parameters["eta_w"] * of_v
        squares, z, v = squares + (step**2).sum(1), z + h * system.parameters["eta_z"] * of_z, v + step
    return z - p["ratio"] * (v**2).sum(1) / 2 - start, squares


def exact_change(p, factor=1.0, **changes):
    """Largest |I(t) - I(0) + (r/2) sum (v(+) - v)^2| over the change of I, after 100 steps of SGD."""
    change, squares = trained(p, p["h"], 100, 1, **changes)
    size = np.abs(change).max()
    if not 1e-12 < size < np.inf:
        return None
    error = 1e-13 * (1 + p["ratio"]) / size
    return sd.Measured(np.abs(change + factor * p["ratio"] / 2 * squares).max() / size, at_most=1e-6, error=error)


def constant(p, noisy):
    """Return -(r/2) int sum_k E[(eta_w g_k phi'_k b)^2] dt along the flow up to END, (M,); not noisy: mean squared."""
    system, _, _, (X, y, a), kinds = one_start(p)
    t = np.linspace(0.0, END, 201)
    copies = (np.repeat(each, y.size, axis=0) for each in joint.split(sd.integrate(system, t).state, p["M"]))
    of_v = joint.sample_gradients(*copies, np.tile(X, (t.size, 1)), np.tile(y, t.size), a, **kinds)[0]
    of_v = system.parameters["eta_w"] * of_v.reshape(t.size, y.size, p["K"], p["M"])
    squares = (of_v**2).mean(1) if noisy else of_v.mean(1) ** 2
    return -p["ratio"] / 2 * np.trapezoid(squares.sum(1), t, axis=0)


def descent_drift(p, power=1, factor=1.0):
    """Largest |limit of (I(END) - I(0))/h^power - constant| over the constant, by descent at h = 0.04 and 0.02."""
    found = []
    for h in (0.04, 0.02):
        run = sd.descend(one_start(p)[0], round(END / h), h, record=[0, round(END / h)])
        found.append(np.diff(joint.invariant(run.state, p["M"], p["ratio"])[0], axis=0)[0] / h**power)
    size = np.abs(law := constant(p, noisy=False)).max()
    rounding = 1e-11 * (1 + p["ratio"]) * np.abs(run.state).max() ** 2 / size  # 1000 steps of 2e-16, over h
    return sd.Measured(np.abs(2 * found[1] - found[0] - factor * law).max() / size, at_most=0.02, error=rounding)


def sgd_drift(p, noisy=True, factor=1.0):
    """Largest |limit of the mean of (I(END) - I(0))/h over runs of SGD - constant|, in standard errors."""
    half, whole = (trained(p, h, round(END / h), SEEDS)[0] / h for h in (0.05, 0.1))
    error = np.sqrt((4 * half.var(0, ddof=1) + whole.var(0, ddof=1)) / SEEDS)
    gap = 2 * half.mean(0) - whole.mean(0) - factor * constant(p, noisy)
    return sd.Measured(np.abs(gap / error).max(), at_most=4.0)


def softmax_distance(p, law, **changes):
    """Largest |z - z(0) - law| over the largest |z - z(0)|, by descent of 400 steps up to t = 20 of the faster rate.

    law: "start", with the mean bag of the start; "run", with the mean bag along the run; "no bag", without its term.
    """
    system = joint.flow({**p, "attention": SOFTMAX, **changes})
    run = sd.descend(system, 400, 0.05, record=range(0, 401, 4))
    z, v = joint.split(run.state, p["M"])
    b = np.array(system.parameters["X"])[:, : p["M"]] * np.exp(z - z.max(1, keepdims=True))[:, None]
    bbar = (b / b.sum(2, keepdims=True)).mean(1)
    squares, size = (v**2).sum(1), (v**2).sum((1, 2))[:, None]
    along = np.cumsum((bbar[1:] + bbar[:-1]) / 2 * np.diff(size, axis=0), axis=0)
    shared = {"start": bbar[0] * (size - size[0]), "run": np.vstack([0 * bbar[:1], along]), "no bag": 0.0}[law]
    gap, moved = z - z[0] - p["ratio"] / 2 * (squares - squares[0] - shared), np.abs(z - z[0]).max()
    return sd.Measured(np.abs(gap).max() / moved, at_most=0.1) if run.success and moved > 0 else None


ANY = {
    "M": (2, 200, "log"), "K": (1, NODES), "ratio": (1e-6, 1e6, "log"), "activation": (0, 2), "logistic": (0, 1),
    "spread": (0.0, 2.0), "absent": (0.0, 0.5), "mean": (-1.0, 1.0), "seed": (0, 10**6),
}  # fmt: skip
STEPPED = {name: ANY[name] for name in ("K", "logistic", "spread", "seed")}
STEPPED |= {"M": (2, 50, "log"), "ratio": (1e-2, 1e2, "log"), "mean": (-0.9, 0.9)}
NARROW = {name: ANY[name] for name in ("K", "activation", "logistic", "seed")}
NARROW |= {"M": (20, 200, "log"), "spread": (0.01, 0.1), "mean": (0.9, 1.0)}
ONE = {"M": 20, "K": 4, "ratio": 0.1, "activation": 0, "logistic": 0, "spread": 0.1, "mean": 1.0, "seed": 1}
NOISY = ONE | {"M": 5, "ratio": 1.0, "spread": 1.0, "mean": 0.5}


def conserved(attention, law, other):
    """Claim of an exact invariant: what sympy leaves of its rate, and its change along flows."""
    kind, bag = {EXP: ("exp", "x_l e^{z_l}"), LINEAR: ("linear", "x_l z_l")}[attention]
    return sd.Claim(
        f"joint-{kind}-invariant", SOURCE, f"{kind.title()} attention follows the squares of the MLP's weights",
        f"With b_l = {bag} the flow conserves {law} for all tokens l, losses, activations and data.", grade="proved",
        conclusion=(
            "Proved for every loss, activation and data. Along flows of 1 to 4 nodes and 2 to 200 tokens, with "
            "ratios of rates from 1e-6 to 1e6, the conserved quantity changes by at most {change over that of its "
            "terms:.0e} of the change of its terms."
        ),
        properties=(
            symbolic("rate of the invariant", partial(left_over, attention), "any x, z, v, g, phi'",
                {"exponent 2 of attention": {"exponent": 2}, "rate ratio 1.1 r": {"ratio": sympy.Rational(11, 10)}}),
            searched("change over that of its terms", "flow", partial(change_of_invariant, attention=attention),
                {"other attention": other, "1.1 eta_z": {"rate": 1.1}} | FROZEN, sd.Box(**ANY), (60, 3000)))
    )  # fmt: skip


def near_law(law, ratio, **beyond):
    """Property that softmax attention is within 10 % of a law in the domain, with settings where it is not."""
    theories = {"no mean bag": {"law": "no bag"}, "exponent 2 of attention": {"power": 2}, "1.5 eta_z": {"rate": 1.5}}
    beyond = {name.replace("_", " "): ONE | change for name, change in beyond.items()}
    name, box = f"distance from the law, bag of the {law}", sd.Box(**NARROW, ratio=(1e-6, ratio, "log"))
    return searched(name, "descent", partial(softmax_distance, law=law), theories, box, (40, 2000), beyond=beyond)


FAR = {"both_signs": {"mean": 0.0, "spread": 1.0}, "two_tokens": {"M": 2, "K": 1, "ratio": 0.2, "mean": 0.9, "seed": 0}}
FAST = {"K": 1, "ratio": 10.0, "seed": 64, "spread": 0.05}
LARGER, FROZEN = {"1.1 times the law": {"factor": 1.1}}, {"attention is frozen": {"rate": 0.0}}
CLAIMS = (
    conserved(EXP, "z_l - (eta_z/eta_w) sum_k v_kl^2/2", {"power": 2}),
    conserved(LINEAR, "z_l^2 - (eta_z/eta_w) sum_k v_kl^2", {"attention": EXP, "law": LINEAR}),
    sd.Claim(
        "joint-softmax-law", OWN, "Softmax attention follows the squares less a multiple of the mean bag",
        "Up to t = 20/max(eta_w, eta_z), z - z(0) differs by at most 10 % of its largest entry from the change of "
        "(eta_z/eta_w) (sum_k v_k^2 - bbar sum_k |v_k|^2)/2: with the mean bag bbar of the start for ratios "
        "eta_z/eta_w from 1e-6 to 0.1, and with int bbar d(sum_k |v_k|^2) for ratios from 1e-6 to 10.",
        expected="conditional",
        conditions=("20 to 200 tokens, normal logarithms of frequencies with deviation 0.01 to 0.1, 6 samples, "
                    "labels of one sign within a factor of 2.9",
                    "1 to 4 nodes, z(0) = 0, v(0) normal with deviation 1/2"),
        conclusion=(
            "Holds to 10 % for 20 to 200 tokens whose frequencies differ little, with labels of one sign and similar "
            "size. With labels of both signs the covariance of bag and gradient is not small against the mean."
        ),
        properties=(near_law("start", 0.1, **FAR, fast=FAST), near_law("run", 10.0, **FAR))),
    sd.Claim(
        "joint-finite-steps", OWN, "Finite steps lower the invariant of exp attention; SGD lowers it more than descent",
        "A step of SGD changes I = z - r sum_k v_k^2/2, r = eta_z/eta_w, by -(r/2) times the square of the step of v. "
        "As h -> 0 at t = 20, (I(t) - I(0))/h tends to -(r/2) int sum_k E[(eta_w g_k phi'_k b)^2] dt for SGD, at two "
        "settings, and to -(r/2) int sum_k (v_k')^2 dt for descent with linear or quadratic activation.",
        conclusion=(
            "Holds: one step changes I at second order in h, and all steps up to a fixed t together change it at "
            "first order."
        ),
        properties=(
            searched("change of I less its law, over the change", "SGD", exact_change, LARGER | FROZEN,
                sd.Box(**STEPPED, activation=(0, 2), h=(1e-3, 0.3, "log")), (80, 3000)),
            searched("descent from its law", "descent", descent_drift, LARGER | {"second order": {"power": 2}},
                sd.Box(**STEPPED, quadratic=(0, 1)), (80, 3000)),
            searched("SGD from its law, standard errors", "SGD", sgd_drift, LARGER | {"no noise": {"noisy": False}},
                cases={"linear": NOISY, "quadratic": NOISY | {"activation": 2}}))),
)  # fmt: skip
for entry in (joint.flow(ONE | {"attention": EXP}), *CLAIMS):
    sd.register(entry)
