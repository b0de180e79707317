"""Claims on the linear bigram model under Zipf's law; bigram.py derives what they measure.

The paper's statements are read as follows. "Steps" are those of the step 1/pi_1 (gradient descent), and of the best
constant step (sign descent), to a relative error epsilon. A law of growth is the exponent between d and 2 d, or 4 d.
"""

import bigram
import numpy as np
import sympy
from bigram import SOURCE, descent_steps, law, sign_steps
from scipy.special import zeta

import snapdyn as sd
from snapdyn.analytic.symbolic import Derivation, declare


def claim(id, title, statement, **facts):
    sd.register(sd.Claim(id, facts.pop("source", SOURCE), title, statement, **facts))


def descent(q, power=2.0, p=None):
    p = law(q["alpha"], q["d"]) if p is None else p
    found = bigram.simulated(q["alpha"], q["d"], q["steps"], q["share"], False, q["seed"])
    error = abs(float(bigram.descent_error(p, q["steps"], q["share"], power)) - found)
    return sd.Measured(error, at_most=1e-10, error=1e-13)


def sign(q, oscillates=True):
    p = law(q["alpha"], q["d"])
    left = bigram.sign_errors(p, q["steps"], eta := q["share"] * p[0])
    left = left if oscillates else np.maximum(p - q["steps"] * eta, 0.0)
    found = bigram.simulated(q["alpha"], q["d"], q["steps"], q["share"], True, q["seed"])
    return sd.Measured(abs(float(np.sum(left**2) / np.sum(p**2)) - found), at_most=1e-10, error=1e-13)


SMALL = {"alpha": (0.0, 2.0), "d": (2, 12), "steps": (1, 200, "log"), "seed": (0, 999)}
claim(
    "bigram-descent", "Gradient descent in closed form", "The relative error is the sum of pi_i (1 - eta pi_i)^(2 t).",
    latex=r"r(t)=\sum_i\pi_i(1-\eta\pi_i)^{2t}", conclusion="Holds, against descent on the matrix.",
    properties=sd.Property(
        "|closed form - simulated descent|", "descent", descent, sd.Box(share=(0.05, 1.95), **SMALL),
        controls={
            "wrong theory: (1 - eta pi_i)^t": lambda q: descent(q, 1.0),
            "wrong theory: equal frequencies": lambda q: descent(q, p=np.full(q["d"], 1 / q["d"])),
        },
    ),
)  # fmt: skip
claim(
    "bigram-sign", "Sign descent in closed form", "An entry rises to its target, then alternates around it.",
    source="own", latex=r"|\mathrm{error}|=k\eta-p\ \text{or}\ p-(k-1)\eta,\quad k=\lceil p/\eta\rceil\leq T",
    conclusion="Holds, against sign descent on the matrix.",
    properties=sd.Property(
        "|closed form - simulated sign descent|", "descent", sign, sd.Box(share=(0.0051, 1.97), **SMALL),
        controls={"wrong theory: an entry stays at its target": lambda q: sign(q, False)},
    ),
)  # fmt: skip


def exponent(q, steps, factor):
    """Exponent with which steps(d) grow between d and factor d, and its error of one step or 3 % where T is whole."""
    few, many = (steps(law(q.get("alpha", 1.0), each * q["d"]), q["epsilon"]) for each in (1, factor))
    error = np.log(1.03 + 1 / few) / np.log(factor) if isinstance(few, int) else 1e-8
    return np.log(many / few) / np.log(factor), error


def almost_linear(q, alpha=1.0):
    return sd.Measured(exponent(q | {"alpha": alpha}, descent_steps, 2)[0], at_least=0.9, error=1e-8)


claim(
    "bigram-descent-zipf", "At alpha = 1 the steps of gradient descent grow almost linearly with d",
    "For a small relative error epsilon the steps grow as d to a power of at least 0.9.", expected="conditional",
    latex=r"\log_2\frac{t(2d)}{t(d)}\geq 0.9", conditions=("epsilon is at most 0.02", "d is at least 100"),
    conclusion="Holds for epsilon up to 0.02. The power is 1 - epsilon e^s, which tends to 1 - epsilon as d grows.",
    findings=("Z1",),
    properties=sd.Property(
        "exponent of the steps between d and 2 d", "descent", almost_linear,
        sd.Box(epsilon=(1e-3, 0.3, "log"), d=(100, 10_000, "log")),
        conditions=(sd.Requirement("small error", "epsilon <= 0.02", lambda q: q["epsilon"], at_most=0.02),),
        controls={"wrong theory: frequencies 1/i^2": lambda q: almost_linear(q, 2.0)},
    ),
    map=lambda level: sd.boundary(
        "bigram-descent-zipf", {}, {"d": np.geomspace(100, 10_000, 9).round(), "epsilon": np.geomspace(1e-3, 0.3, 13)}
    ),
)  # fmt: skip


def scaled(q, of_epsilon=1.0):
    s = bigram.scaled_steps(q["d"], of_epsilon * q["epsilon"])
    return sd.Measured(abs(q["d"] / 2 * s / descent_steps(law(1.0, q["d"]), q["epsilon"]) - 1), at_most=0.02)


def without_constant(q):
    return scaled(q, np.log(q["d"]) / np.sum(1 / np.arange(1, q["d"] + 1)))


claim(
    "bigram-descent-steps", "The steps of gradient descent at alpha = 1", "t = (d/2) s, E_1(s) = epsilon H.",
    source="own", latex=r"t=\frac d2s,\quad E_1(s)=\epsilon H_d", conditions=("t is at least 20",),
    expected="conditional",
    conclusion="Holds to 2 % from 20 steps on.",
    properties=sd.Property(
        "|(d/2) s/steps - 1|", "closed form", scaled, sd.Box(epsilon=(1e-3, 0.5, "log"), d=(10, 20_000, "log")),
        conditions=(
            sd.Requirement("t", "t >= 20", lambda q: q["d"] / 2 * bigram.scaled_steps(**q), at_least=20.0),
        ),
        controls={
            "wrong theory: E_1(s) = epsilon ln d": without_constant,
            "wrong theory: twice the error": lambda q: scaled(q, 2.0),
        },
    ),
)  # fmt: skip


def beyond(q):
    """Share of the loss of tokens beyond d, over epsilon."""
    return zeta(q["alpha"], q["d"] + 1) / zeta(q["alpha"]) / q["epsilon"]


def finite(q, alpha=None):
    return sd.Measured(exponent(q | ({"alpha": alpha} if alpha else {}), descent_steps, 2)[0], at_most=0.1, error=1e-8)


claim(
    "bigram-descent-finite", "For alpha > 1 the steps of gradient descent do not depend on d",
    "With the tokens beyond d below 5 % of epsilon, twice as many tokens need at most 7 % more steps.",
    latex=r"\log_2\frac{t(2d)}{t(d)}\leq 0.1", conditions=("tokens beyond d have at most 5 % of epsilon",),
    conclusion="Holds if d is that large; near alpha = 1 no vocabulary is.",
    expected="conditional", findings=("Z2",),
    properties=sd.Property(
        "exponent of the steps between d and 2 d", "descent", finite,
        sd.Box(alpha=(1.05, 3.0), epsilon=(0.01, 0.3, "log"), d=(50, 5000, "log")),
        conditions=(sd.Requirement("tokens beyond d", "tokens beyond d <= 0.05 epsilon", beyond, at_most=0.05),),
        controls={"wrong theory: frequencies 1/i": lambda q: finite(q, 1.0)},
    ),
    map=lambda level: sd.boundary(
        "bigram-descent-finite", {"epsilon": 0.05},
        {"alpha": np.linspace(1.05, 3.0, 14), "d": np.geomspace(50, 5000, 9).round()},
    ),
)  # fmt: skip


@declare
def bigram_sign_least():
    """(1 - x)/sqrt(e - x^2) is least at x = e: the difference of squares, without denominators, is a square."""
    x, e = sympy.symbols("x e", positive=True)
    return Derivation("T is least at x = e", "own", "e(1-x)^2-(1-e)(e-x^2)", (x - e) ** 2, {
        "expanded": sympy.expand(e * (1 - x) ** 2 - (1 - e) * (e - x**2)),
    })  # fmt: skip


def root(q, steps=sign_steps):
    power, error = exponent(q, lambda p, epsilon: steps(p, epsilon, bool(q["even"])), 4)
    return sd.Measured(abs(power - 0.5), at_most=0.12, error=error)


def by_descent(p, epsilon, even):
    return int(np.ceil(descent_steps(p, epsilon)))


claim(
    "bigram-sign-zipf", "At alpha = 1 the steps of sign descent grow as the square root of d",
    "The steps to a relative error epsilon grow as d to a power of 1/2 up to 0.12.", expected="conditional",
    latex=r"T\approx\sqrt{d(1-e)/e},\quad e=\epsilon\pi^2/6", proved=("bigram-sign-least",), findings=("Z3",),
    conditions=("the error counts after even and odd numbers of steps", "d epsilon is at least 50"),
    conclusion="Holds if every step counts. After even numbers of steps rare tokens are back at 0: T does not grow.",
    properties=sd.Property(
        "|exponent between d and 4 d - 1/2|", "descent", root,
        sd.Box(epsilon=(0.02, 0.3, "log"), d=(100, 1600, "log"), even=(0, 1)), evaluations=(60, 600),
        conditions=(
            sd.Requirement("every step counts", "even = 0", lambda q: q["even"], at_most=0.0),
            sd.Requirement("many tokens", "d epsilon >= 50", lambda q: q["d"] * q["epsilon"], at_least=50.0),
        ),
        controls={"wrong theory: the steps of gradient descent": lambda q: root(q, by_descent)},
    ),
)  # fmt: skip
