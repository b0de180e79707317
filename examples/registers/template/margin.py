"""The margin of one separable example: its equation, its closed form, two claims and a figure."""

import numpy as np
import sympy
import xarray
from scipy.special import wrightomega

import snapdyn as sd
from snapdyn.analytic.certificates import certify
from snapdyn.analytic.symbolic import Derivation, declare

w, eta = sympy.symbols("w eta")
margin = sd.System.from_sympy("Margin", {w: 0.0}, {w: eta / (1 + sympy.exp(w))}, {eta: 1.0})
sd.register(margin)


@declare
def margin_first_integral():
    """Along the flow w + exp(w) grows at the rate eta, so that w + exp(w) = 1 + eta t."""
    slope = sympy.diff(w + sympy.exp(w), w) * eta / (1 + sympy.exp(w))
    return Derivation("w + exp(w) grows at the rate eta", "own", "(w + e^w)'", eta, {"chain rule": slope})


def law(x):
    """The closed form at x = eta t."""
    return np.log(wrightomega(1 + np.asarray(x)))


def distance(parameters, theory=law):
    times = np.geomspace(0.01, 1e6, 30)
    run = sd.integrate(margin.with_parameters(**parameters), times, rtol=1e-9, atol=1e-10)
    return sd.Measured(np.abs(run.state[:, 0] - theory(parameters["eta"] * times)).max(), at_most=1e-6)


# With w + exp(w) = 1 + eta t, ln(1 + eta t) - w is ln(1 + w exp(-w)). Its largest value is 0.31326..., at w = 1.
gap = sympy.log(1 + w * sympy.exp(-w))
certify("margin-gap", gap < sympy.Rational(3133, 10000), {w: (0, 50)}, wrong=[gap < sympy.Rational(313, 1000)])


def excess(parameters, factor=1.0):
    x = parameters["x"]
    return sd.Measured(float(np.log1p(factor * x) - law(x)), at_most=np.log(1 + np.exp(-1)), error=1e-12)


def claim(id, title, statement, **facts):
    sd.register(sd.Claim(id, "own", title, statement, **facts))


claim(
    "margin-law", "The margin has a closed form", "w = ln omega(1 + eta t), omega Wright's function.",
    latex=r"w=\ln\omega(1+\eta t)", conclusion="Holds.", grade="proved",
    proved=("margin-first-integral",),
    properties=sd.Property(
        "largest |w - ln omega(1 + eta t)|", "flow", distance, sd.Box(eta=(1e-3, 10.0, "log")),
        controls={"wrong theory: w = ln(1 + eta t)": lambda parameters: distance(parameters, np.log1p)},
    ),
)  # fmt: skip
claim(
    "margin-logarithm", "ln(1 + eta t) is close to the margin", "ln(1 + eta t) - w is at most ln(1 + 1/e).",
    latex=r"\ln(1+\eta t)-w\leq\ln(1+1/e)", conclusion="Holds: the largest difference is 0.313, where w = 1.",
    findings=("M1",), certified=("margin-gap",),
    properties=sd.Property(
        "ln(1 + x) - w, x = eta t", "closed form", excess, sd.Box(x=(1e-9, 1e12, "log")),
        controls={"wrong theory: w = ln(1 + 2 eta t)": lambda parameters: excess(parameters, 2.0)},
    ),
)  # fmt: skip


def late(parameters, factor=1.0):
    x = parameters["eta"] * parameters["t"]
    return sd.Measured(float(np.log1p(factor * x) / law(x) - 1), at_most=0.01, error=1e-12)


claim(
    "margin-late", "Late, ln(1 + eta t) is the margin up to 1 %", "ln(1 + eta t) <= 1.01 w from eta t = 200 on.",
    latex=r"\ln(1+\eta t)\leq 1.01\,w", conditions=("eta t is at least 200",), expected="conditional",
    conclusion="Holds from eta t = 100 on, and fails before: its relative error is about 1/(eta t).",
    properties=sd.Property(
        "ln(1 + eta t)/w - 1", "closed form", late, sd.Box(eta=(1e-3, 10.0, "log"), t=(10.0, 1e6, "log")),
        conditions=(sd.Requirement("late", "eta t >= 200", lambda p: p["eta"] * p["t"], at_least=200.0),),
        controls={"wrong theory: w = ln(1 + 2 eta t)": lambda parameters: late(parameters, 2.0)},
    ),
    map=lambda level: sd.boundary(
        "margin-late", {}, {"eta": np.geomspace(1e-3, 10, 20), "t": np.geomspace(10, 1e6, 20)}
    ),
)  # fmt: skip


def compute(level):
    x = np.geomspace(0.01, 1e4, 200)
    return xarray.Dataset({"margin": ("x", law(x)), "logarithm": ("x", np.log1p(x))}, {"x": x})


def draw(data):
    from matplotlib.figure import Figure

    axes = Figure(figsize=(4.0, 2.6), layout="constrained").subplots()
    axes.semilogx(data.x, data.margin, label="w")
    axes.semilogx(data.x, data.logarithm, "--", label=r"$\ln(1+\eta t)$")
    axes.set(xlabel=r"$\eta t$", ylabel="margin")
    axes.legend()
    return axes.figure


def off_by(data, margin):
    largest = float((data.logarithm - margin).max())
    return sd.Measured(abs(largest - np.log(1 + np.exp(-1))), at_most=1e-3)  # of the spacing of x


off = sd.Property(
    "largest ln(1 + x) - w against ln(1 + 1/e)", "data", lambda data: off_by(data, data.margin),
    controls={"wrong theory: w = ln(1 + x/2)": lambda data: off_by(data, np.log1p(data.x / 2))},
)  # fmt: skip
caption = "The largest difference is ln(1 + 1/e)."
sd.register(sd.figures.FigureEntry("margin", "Margin and logarithm", caption, compute, draw, (off,)))
