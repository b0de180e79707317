"""Figure: steps to a relative error of 5 % over the number of tokens d, with the laws of bigram.py."""

import numpy as np
import xarray
from bigram import descent_steps, law, scaled_steps, sign_steps

import snapdyn as sd

EPSILON = 0.05
E = EPSILON * np.pi**2 / 6
STEPS = {
    r"descent, $\alpha=1$": lambda d: descent_steps(law(1.0, d), EPSILON),
    r"descent, $\alpha=2$": lambda d: descent_steps(law(2.0, d), EPSILON),
    "sign descent": lambda d: sign_steps(law(1.0, d), EPSILON),
    "sign descent, even": lambda d: sign_steps(law(1.0, d), EPSILON, even=True),
}


def compute(level):
    """Steps (rule, d), and the laws of both rules at alpha = 1."""
    d = np.geomspace(30, 100_000 if level == "full" else 30_000, 16).round()
    laws = {"linear": d / 2 * np.array([scaled_steps(each, EPSILON) for each in d]), "root": np.sqrt(d * (1 - E) / E)}
    data = {"steps": (("rule", "d"), [[steps(each) for each in d] for steps in STEPS.values()])}
    return xarray.Dataset(data | {name: ("d", each) for name, each in laws.items()}, {"d": d, "rule": list(STEPS)})


def draw(data, width=3.4):
    """Draw measured steps as symbols and laws as lines."""
    axes = (drawn := sd.figures.new_figure(width, 2.9)).subplots()
    for number, rule in enumerate(data.rule.values):
        axes.loglog(
            data.d, data.steps.sel(rule=rule), "osv^"[number], color=f"C{number}", mfc="white", ms=4, label=rule
        )
    axes.loglog(data.d, data.linear, color="C0", label=r"$(d/2)\,s$")
    axes.loglog(data.d, data.root, "--", color="C2", label=r"$\sqrt{d(1-e)/e}$")
    axes.set(xlabel="tokens $d$", ylabel=r"steps to 5 %")
    axes.legend(fontsize="small")
    return drawn


def off(rule, theory, at_most):
    """Distance of a law from the steps at the largest d."""
    return lambda data: sd.Measured(abs(float(theory(data)[-1] / data.steps[rule, -1]) - 1), at_most=at_most)


PROPERTIES = (
    sd.Property("law of gradient descent at the largest d", "data", off(0, lambda data: data.linear, 0.01), controls={
        "wrong theory: d steps": off(0, lambda data: data.d, 0.01)}),
    sd.Property("law of sign descent at the largest d", "data", off(2, lambda data: data.root, 0.15), controls={
        "wrong theory: with even steps only": off(2, lambda data: data.steps[3], 0.15)}),
)  # fmt: skip
CAPTION = (
    "Steps to a relative error of 5 % over the number of tokens. Gradient descent: almost linear at alpha = 1, "
    "constant at alpha = 2. Sign descent at alpha = 1: the square root of d, and constant if only even steps count."
)
sd.register(sd.FigureEntry("bigram-steps", "Steps over tokens", CAPTION, compute, draw, PROPERTIES))
