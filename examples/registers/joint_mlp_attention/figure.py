"""Figure: attention of a saturating node becomes sparse first and denser at last, theory over SGD.

snapdyn figures joint-rebound --load examples/registers/joint_mlp_attention/figure.py
"""

import joint_systems as joint
import numpy as np
import xarray
from joint_systems import entropy, entropy_curve, logit, progress

import snapdyn as sd

MU = {"3 to 2.7": 3 - 0.06 * np.arange(6), "3 to 1.5": 3 - 0.3 * np.arange(6)}
STEP, NOISE = 5e-4, 0.1


def compute(level):
    """Entropy of flow and SGD (targets, time, run), clock step size times steps over 6; the dip over (gap, m)."""
    t, m, gap = np.geomspace(0.3, 3.0, 61), np.linspace(2.0, 7.0, 41), np.array([0.1, 0.5, 1.0])
    record = np.rint(t * 6 / STEP).astype(int)
    flow = [entropy(np.stack([logit(progress(t, each), each) for each in mu], axis=-1)) for mu in MU.values()]
    runs = [joint.sgd_of_node(mu, STEP, record[-1], False, 20, NOISE, record=set(record))[:, 1] for mu in MU.values()]
    curves = [[entropy_curve([high, np.sqrt(high**2 - 2 * c)])[1] for high in m] for c in gap]
    data = {"flow": (("targets", "time"), flow), "sgd": (("targets", "time", "run"), [entropy(z) for z in runs])}
    data["dip"] = ("gap", "m"), [[1 - H.min() / H[-1] for H in row] for row in curves]
    return xarray.Dataset(data, {"time": t, "targets": list(MU), "m": m, "gap": gap})


def draw(data, width=7.0):
    """Draw theory as lines and SGD as circles; right: how deep the dip is."""
    drawn = sd.figures.new_figure(width, 2.6)
    left, right = drawn.subplots(1, 2)
    for k, (name, style) in enumerate(zip(data.targets.values, ("-", "--"), strict=True)):
        left.plot(data.time, data.flow[k], style, color=f"C{k}", label=rf"flow, $\mu$ from {name}")
        left.plot(data.time[::3], data.sgd[k, ::3].median("run"), "os"[k], color=f"C{k}", mfc="white", ms=3.5)
    left.plot([], [], "o", color="0.4", mfc="white", ms=3.5, label="SGD, median of 20 runs")
    left.axhline(np.log(6), color="0.6", linestyle=":", label="attention frozen")
    for k, style in enumerate(("-", "--", "-.")):
        right.plot(data.m, data.dip[k], style, label=f"$c$ = {data.gap.values[k]:g}")
    left.set(xscale="log", xlabel="$t$ (step size × steps / 6)", ylabel="entropy of attention")
    left.set(xticks=(0.3, 1, 3), xticklabels=("0.3", "1", "3"), ylim=(0.0, 1.9))
    left.xaxis.set_minor_formatter("")
    right.set(xlabel=r"larger target $m$; final logits differ by $c$", ylabel="share lacking at the minimum")
    _ = left.legend(), right.legend()
    return drawn


def distance(frozen=False):
    """Largest |median of SGD - theory| up to t = 2 in the time before and after the dip, where theory is not steep."""
    return lambda data: sd.Measured(
        np.abs(data.sgd.median("run") - (np.log(6) if frozen else data.flow)).mean(), at_most=0.05
    )


CAPTION = (
    "Left: entropy of attention, softmax(z), of a saturating node with six tokens from v = z = 0; SGD has one token a step, "
    "step size 5e-4. Right: two tokens, share of the final entropy that is missing at its minimum."
)
NEAR = sd.Property(
    "mean distance of SGD from the flow", "SGD", distance(), controls={"attention is frozen": distance(True)}
)
sd.register(sd.FigureEntry("joint-rebound", "Sparse first, denser at last", CAPTION, compute, draw, properties=(NEAR,)))
