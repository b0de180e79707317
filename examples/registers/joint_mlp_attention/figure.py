"""Figure: attention of a saturating node becomes sparse first and denser at last, theory over SGD.

snapdyn figures joint-rebound --load examples/registers/joint_mlp_attention/figure.py
"""

import joint_systems as joint
import numpy as np
import xarray
from joint_systems import entropy, logit, progress

import snapdyn as sd

MU = {"3 to 2.7": 3 - 0.06 * np.arange(6), "3 to 1.5": 3 - 0.3 * np.arange(6)}
STEP, NOISE, RUNS = 5e-4, 0.1, 20


def compute(level):
    """Entropy of flow (targets, time) and SGD (targets, time, run); clock: step size times steps over 6 tokens."""
    t = np.geomspace(0.3, 3.0, 121)
    record = np.rint(t * 6 / STEP).astype(int)
    flow = [entropy(np.stack([logit(progress(t, each), each) for each in mu], axis=-1)) for mu in MU.values()]
    runs = (joint.sgd_of_node(mu, STEP, record[-1], False, RUNS, NOISE, record=set(record)) for mu in MU.values())
    data = {"flow": (("targets", "time"), flow), "sgd": (("targets", "time", "run"), [entropy(z[:, 1]) for z in runs])}
    return xarray.Dataset(data, {"time": t, "targets": list(MU)})


def draw(data, width=3.4):
    """Draw theory as lines and the median of SGD as open symbols."""
    axes = (drawn := sd.figures.new_figure(width, 2.9)).subplots()
    for k, name in enumerate(MU):
        axes.plot(data.time, data.flow[k], ("-", "--")[k], color=f"C{k}", label=rf"flow, $\mu$ from {name}")
        axes.plot(data.time[::6], data.sgd[k, ::6].median("run"), "os"[k], color=f"C{k}", mfc="white", ms=3.5)
    axes.plot([], [], "o", color="0.4", mfc="white", ms=3.5, label=f"SGD, median of {RUNS} runs")
    axes.axhline(np.log(6), color="0.6", linestyle=":", label="attention frozen")
    axes.set(xscale="log", xlabel="$t$ (step size × steps / 6)", ylabel="entropy of attention", ylim=(0.0, 1.9))
    axes.set_xticks((0.3, 1, 3), ("0.3", "1", "3"))
    axes.xaxis.set_minor_formatter("")
    axes.legend()
    return drawn


def distance(theory):
    """Mean |median of SGD - theory| over times and targets."""
    return lambda data: sd.Measured(np.abs(data.sgd.median("run") - theory(data)).mean(), at_most=0.05)


FROZEN = {"wrong theory: attention is frozen": distance(lambda data: np.log(6))}
NEAR = sd.Property("mean distance of SGD from the flow", "SGD", distance(lambda data: data.flow), controls=FROZEN)
CAPTION = (
    "Entropy of attention, softmax(z), of a saturating node with six tokens from v = z = 0: sparse first, denser at "
    "last. SGD has one token in a step and the step size 5e-4."
)
sd.register(sd.FigureEntry("joint-rebound", "Sparse first, denser at last", CAPTION, compute, draw, properties=(NEAR,)))
