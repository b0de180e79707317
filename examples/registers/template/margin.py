"""The margin of one separable example: its equation, its closed form, two claims and a figure."""

import numpy as np
import snapdyn as sd
import sympy
import xarray
from matplotlib.figure import Figure
from scipy.special import wrightomega
from snapdyn.analytic.symbolic import Derivation, declare

w, eta, t = sympy.symbols("w eta t")
margin = sd.System.from_sympy("Margin", {w: 0.0}, {w: eta / (1 + sympy.exp(w))}, {eta: 1.0})
sd.register(margin)


@declare
def margin_first_integral():
    """Along the flow d(w + exp(w))/dt = eta, so that w + exp(w) = 1 + eta t."""
    slope = sympy.diff(w + sympy.exp(w), w) * eta / (1 + sympy.exp(w))
    return Derivation("w + exp(w) grows at the rate eta", "own", "(w + e^w)'", eta, {"chain rule": slope})


def law(x):
    return np.log(wrightomega(1 + np.asarray(x)))


def distance(parameters, theory=law):
    times = np.geomspace(0.01, 1e6, 30)
    run = sd.integrate(margin.with_parameters(**parameters), times, rtol=1e-9, atol=1e-10)
    return sd.Measured(np.abs(run.state[:, 0] - theory(parameters["eta"] * times)).max(), at_most=1e-6)


def excess(parameters, factor=1.0):
    difference = np.log1p(factor * parameters["x"]) - law(parameters["x"])
    return sd.Measured(float(difference), at_most=np.log(1 + np.exp(-1)), error=1e-12)


wrong = {"wrong theory: w = ln(1 + eta t)": lambda parameters: distance(parameters, np.log1p)}
exact = sd.Property("largest |w - ln omega(1 + eta t)|", "flow", distance, sd.Box(eta=(1e-3, 10.0, "log")), controls=wrong)
wrong = {"wrong theory: w = ln(1 + 2 eta t)": lambda parameters: excess(parameters, 2.0)}
above = sd.Property("ln(1 + x) - w, x = eta t", "closed form", excess, sd.Box(x=(1e-9, 1e12, "log")), controls=wrong)
conclusion = "Holds, with Wright's omega function."
statement = "w = ln omega(1 + eta t)."
law_claim = sd.Claim("margin-law", "own", "The margin has a closed form", statement, conclusion=conclusion,
                     properties=exact, proved=("margin-first-integral",), latex=r"w=\ln\omega(1+\eta t)")  # fmt: skip
conclusion = "Holds: the logarithm is above the margin by ln(1 + 1/e) = 0.313 at most, where w = 1."
statement = "0 <= ln(1 + eta t) - w <= ln(1 + 1/e)."
log_claim = sd.Claim("margin-logarithm", "own", "ln(1 + eta t) is close to the margin", statement, findings=("M1",),
                     conclusion=conclusion, properties=above, latex=r"\ln(1+\eta t)-w\leq\ln(1+1/e)")  # fmt: skip
sd.register(law_claim)
sd.register(log_claim)


def compute(level):
    x = np.geomspace(0.01, 1e4, 200)
    return xarray.Dataset({"margin": ("x", law(x)), "logarithm": ("x", np.log1p(x))}, {"x": x})


def draw(data):
    figure = Figure(figsize=(4.0, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.semilogx(data.x, data.margin, label="w")
    axes.semilogx(data.x, data.logarithm, "--", label=r"$\ln(1+\eta t)$")
    axes.set(xlabel=r"$\eta t$", ylabel="margin")
    axes.legend()
    return figure


gap = sd.Property("largest ln(1 + x) - w", "data", lambda d: sd.Measured(float((d.logarithm - d.margin).max()), at_most=0.314))
sd.register(sd.figures.FigureEntry("margin", "Margin and logarithm", "The two differ most at w = 1.", compute, draw, (gap,)))
