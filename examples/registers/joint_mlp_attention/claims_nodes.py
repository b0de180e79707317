r"""Claims: one node under exp attention: divergence, end of stationarity, order of convergence, rebound of the entropy.

    snapdyn validate joint-rebound --load examples/registers/joint_mlp_attention/claims_nodes.py
All start from v = z = 0, if nothing else is said, with eta_w = eta_z = 1 and so z = v^2/2 (joint_systems.py).

Divergence. v' = Delta e^{v^2/2} gives d/dt erf(v/sqrt 2) = sqrt(2/pi) Delta. So erf(v_l/sqrt 2)/Delta_l is the same for
all l, and the entry with the largest |Delta_l| diverges first, at t = sqrt(pi/2)/max|Delta|.

End of stationarity. A bag holds one token, l with probability p_l, and its label is Y_l plus noise. With the loss
(y - v.b)^2/2 the gradient is Delta_l (1 - v_l e^{z_l}/Y_l), Delta_l = p_l Y_l. So E = sqrt(pi/2) erf(v_l/sqrt 2) lags:
E' = Delta_l (1 - v_l e^{z_l}/Y_l). With v of the law, dt = e^{-v^2/2} dv/Delta_l, and to first order in 1/Y_l
    1 - E/(Delta_l t) = v_l^2/(2 Y_l Delta_l t).

Order. v' = (mu - v) e^{v^2/2} reaches (1 - epsilon) mu at T = int_0^{1-epsilon} e^{-mu^2 u^2/2}/(1 - u) du, which falls
with |mu|: dT/dmu = -mu int u^2 e^{-mu^2 u^2/2}/(1 - u) du. With 1/(1 - u) = 1 + u + u^2 + ... and mu large,
    T = sqrt(pi/2)/mu + 1/mu^2 + sqrt(pi/2)/mu^3 + O(1/mu^4).

Rebound. The entropy H of attention p = softmax(z) has dH/dz_l = -p_l (ln p_l + H) = p_l (zbar - z_l), zbar = sum_l p_l z_l.
First: z_l = mu_l^2 t^2/2 + O(t^4), and H = ln M - (variance of z)/2 + O(z^3) falls as ln M - t^4 var(mu^2)/8.
Last: mu_l - v_l falls as exp(-e^{mu_l^2/2} t), so that the smallest |mu_l| = |mu_s| moves last: z_l'/z_s' -> 0 for every
other value of |mu_l|. As mu_s is not 0, z_s' > 0; and z_s is below the mean zbar. So dH/dt > 0 from some time on.
Any start: the final z_l is z_l(0) + (mu_l^2 - v_l(0)^2)/2, and the entry that moves and has the smallest final z moves
last. z_s then changes with the sign of mu_s (mu_s - v_s(0)), so that H moves last with the sign of this times zbar - z_s.
Entries with mu_l = v_l(0) = 0 never move. With n of them, and others at final z of alpha < beta, alpha is the last to
move, and H rises last if and only if alpha < zbar, that is alpha (n + e^beta) < beta e^beta.
"""

from functools import cache, partial

import numpy as np
import sympy
from joint_systems import (
    OWN,
    SOURCE,
    entropy,
    entropy_curve,
    law_of_stationary,
    logit,
    node,
    progress,
    time_of,
    time_to,
    Q,
)
from scipy.special import erf

import snapdyn as sd
from snapdyn.validation.pictures import Map

RUNS, TOKENS_OF_SGD, NOISE = 400, 4, 0.5
HALF = np.sqrt(np.pi / 2)


def wrong(measure, theories):
    """Controls of a measure: the arguments that each wrong theory changes, by its name."""
    return {f"wrong theory: {name}": partial(measure, **changes) for name, changes in theories.items()}


def unequal(p):
    """Distinct |mu_l| of a Box, from p["low"] to p["low"] p["range"]: (M,)."""
    steps = np.random.default_rng(p["seed"]).random(p["M"] - 1) + 0.2
    return p["low"] * np.exp(np.log(p["range"]) * np.concatenate([[0.0], np.cumsum(steps) / steps.sum()]))


def divergence_left(p, exponent=1):
    """Residual of d/dt erf(v/sqrt 2) = sqrt(2/pi) Delta in sympy."""
    v, Delta = sympy.symbols("v Delta", real=True)
    rate = sympy.erf(v / sympy.sqrt(2)).diff(v) * Delta * sympy.exp(exponent * v**2 / 2)
    return sd.Measured(float(sympy.simplify(rate - sympy.sqrt(2 / sympy.pi) * Delta) != 0), at_most=0)


def divergence(p, **changes):
    """Largest |erf(v_l/sqrt 2)/(sqrt(2/pi) Delta_l t) - 1| of the flow up to `share` of the time of divergence."""
    rng = np.random.default_rng(p["seed"])
    gradient = p["size"] * rng.choice([-1, 1], p["M"]) * 10 ** (-3 * rng.random(p["M"]))
    t = HALF / np.abs(gradient).max() * p["share"] * np.array([0.0, 0.5, 1.0])
    run = sd.integrate(node(gradient, **changes), t, rtol=1e-10, atol=1e-12, most_evaluations=20_000)
    if not run.success:  # a wrong theory diverges earlier
        return sd.Measured(1.0, at_most=1e-5) if changes else None
    found = erf(run.state[1:, : p["M"]] / np.sqrt(2)) * HALF / (gradient * t[1:, None])
    return sd.Measured(np.abs(found - 1).max(), at_most=1e-5)


def lag(t, Y):
    """First order of 1 - E/(Delta t), with Delta = 1: t counts in 1/Delta."""
    return law_of_stationary(1.0, t) ** 2 / (2 * Y * t)


def end_of_stationarity(p, factor=1.0, **changes):
    """Lag of the flow when the law's lag is 10 %, over 10 %, less 1."""
    t = np.linspace(0.0, HALF * (1 - 1e-9), 100_001)[1:]
    end = t[np.argmax(factor * lag(t, p["Y"]) >= 0.1)]
    v = sd.integrate(node([1.0], **{"loss": 1 / p["Y"]} | changes), [0.0, end]).state[1, 0]
    return sd.Measured(np.abs(10 * (1 - HALF * erf(v / np.sqrt(2)) / end) - 1), at_most=0.15)


def trained(Y, h, end, seed):
    """E/(Delta t) of RUNS runs of SGD with one-token bags, label Y with noise, at Delta t = end; mean over tokens."""
    rng, rows = np.random.default_rng(seed), np.arange(RUNS)
    v, z = np.zeros((2, RUNS, TOKENS_OF_SGD))
    for _ in range(round(end * TOKENS_OF_SGD / (Y * h))):
        l = rng.integers(TOKENS_OF_SGD, size=RUNS)
        b, w = np.exp(z[rows, l]), v[rows, l]
        step = h * (Y + NOISE * rng.normal(size=RUNS) - w * b) * b
        v[rows, l] += step
        z[rows, l] += step * w
    return (HALF * erf(v / np.sqrt(2)) / end).mean(1)


@cache
def sgd_lag(Y, end):
    """Lag of SGD at h -> 0, from h and h/2, and its standard error."""
    runs = [trained(Y, h, end, seed) for seed, h in enumerate((0.004 / Y, 0.002 / Y))]
    return 1 - 2 * runs[1].mean() + runs[0].mean(), np.sqrt((4 * runs[1].var() + runs[0].var()) / RUNS)


def sgd_against(p, stationary=False):
    """Lag of SGD against that of the flow with its loss, or with a stationary gradient, in standard errors."""
    found, error = sgd_lag(p["Y"], p["end"])
    v = sd.integrate(node([1.0], loss=0.0 if stationary else 1 / p["Y"]), [0.0, p["end"]]).state[1, 0]
    return sd.Measured(np.abs(found - 1 + HALF * erf(v / np.sqrt(2)) / p["end"]) / error, at_most=4.0)


def order(p, reverse=False, frozen=False):
    """Time to (1 - epsilon) mu of the larger mu over that of the smaller one; frozen attention: v = mu (1 - e^-t)."""
    small, large = (-np.log(p["epsilon"]) if frozen else time_to(p["mu"] * k, p["epsilon"]) for k in (1, p["ratio"]))
    return sd.Measured(small / large if reverse else large / small, at_most=1 - 1e-13)


def large_mu(p, law=lambda mu: HALF / mu + 1 / mu**2 + HALF / mu**3):
    """|T/law - 1| mu^3: of order 1, by the next term 2/mu^4."""
    return sd.Measured(np.abs(time_to(p["mu"], p["epsilon"]) / law(p["mu"]) - 1) * p["mu"] ** 3, at_most=2.5)


def entropy_left(p, constant=8):
    """Residuals in sympy, M = 3: dH/dz_l + p_l (ln p_l + H), and the first term -t^4 var(mu^2)/constant of H - ln M."""
    z, mu, t = sympy.symbols("z1:4", real=True), sympy.symbols("mu1:4", real=True), sympy.Symbol("t", positive=True)
    total = sum(map(sympy.exp, z))
    shares = [sympy.exp(each) / total for each in z]
    H = -sum(each * sympy.log(each) for each in shares)
    slope = [H.diff(each) + share * (sympy.log(share) + H) for each, share in zip(z, shares, strict=True)]
    e = sympy.Symbol("e", positive=True)  # z = e mu^2/2 with e = t^2
    second = H.subs({each: e * m**2 / 2 for each, m in zip(z, mu, strict=True)}).diff(e, 2).subs(e, 0) / 2
    variance = sum(m**4 for m in mu) / 3 - (sum(m**2 for m in mu) / 3) ** 2
    left = [*slope, second + variance / constant]
    return sd.Measured(float(sum(sympy.simplify(each) != 0 for each in left)), at_most=0)


def late_slope(mu, v, z):
    """Slope of H so late that the last entry to move decides, over the sum of its terms' sizes, and the sign by the law.

    mu, v and z at the start are (M,); None where the last two entries are too close to tell.
    """
    moving = np.flatnonzero(mu != v)
    final = np.where(mu == v, z, logit(np.inf, mu, v, z))
    last = moving[np.argmin(final[moving])]
    gap = np.diff(np.sort(final[moving])).min(initial=1.0)
    if gap < 1e-6:
        return None
    t = time_of(Q, mu[last], v[last], z[last])[-1] + 100 / np.expm1(gap) * np.exp(-final[last])
    q = np.array([progress(t, mu[l], v[l], z[l]) for l in moving])
    pace = np.exp((final[moving] - q) - (final[moving] - q).max())
    p = np.exp(final - final.max())
    above = (p * final).sum() / p.sum() - final
    terms = (p * above * mu * (mu - v))[moving] * pace
    return terms.sum() / np.abs(terms).sum(), np.sign(above[last] * mu[last] * (mu[last] - v[last]))


def first_and_last(p, stationary=False):
    """Whether H falls at t = 0.01/max|mu|, and how clearly it rises at last; with a stationary gradient mu it only falls."""
    mu = unequal(p)
    if stationary:
        t = HALF / mu.max() * (1 - np.array([[1e-8], [1e-9]]))
        return sd.Measured(np.diff(entropy(law_of_stationary(mu, t) ** 2 / 2))[0], at_least=1e-3)
    z = np.array([logit(progress(1e-2 / mu.max(), each), each) for each in mu])
    weights = np.exp(z)
    fall = (weights * (z - (weights * z).sum() / weights.sum()) * mu**2 * np.exp(z)).sum()
    rise = late_slope(mu, 0 * mu, 0 * mu)
    return rise and sd.Measured(min(np.sign(fall), rise[0]), at_least=1e-3)


def any_start(p, always_rises=False):
    """1 if H at last moves against the law, or not clearly, else 0: signs of mu and starts v, z at random, some at rest."""
    mu, rng = unequal(p), np.random.default_rng(p["seed"])
    mu = mu * rng.choice([-1, 1], mu.size)
    v, z = p["of_v"] * np.abs(mu).max() * rng.normal(size=mu.size), p["of_z"] * rng.normal(size=mu.size)
    found = late_slope(*(np.append(each, np.zeros(p["zeros"])) for each in (mu, v, z))) if np.abs(v).max() < 8 else None
    return found and sd.Measured(float(found[0] * (1 if always_rises else found[1]) < 0.01), at_most=0)


def boundary_left(p, without_zeros=False):
    """Residual in sympy of -ln p_alpha - H = (beta e^beta - alpha (n + e^beta))/Z, final logits 0 (n times), alpha, beta."""
    n, alpha, beta = sympy.symbols("n alpha beta", positive=True)
    Z = n + sympy.exp(alpha) + sympy.exp(beta)
    H = sympy.log(Z) - (alpha * sympy.exp(alpha) + beta * sympy.exp(beta)) / Z
    law = (beta * sympy.exp(beta) - alpha * ((0 if without_zeros else n) + sympy.exp(beta))) / Z
    return sd.Measured(float(sympy.simplify(sympy.log(Z) - alpha - H - law) != 0), at_most=0)


def lost(p, frozen=False):
    """Share of the final entropy that is missing at its minimum: one token ends at m^2/2, M - 1 tokens at m^2/2 - c."""
    H = entropy_curve([p["m"], np.sqrt(p["m"] ** 2 - 2 * p["c"])], np.array([1, p["M"] - 1]))[1]
    return sd.Measured(0.0 if frozen else 1 - H.min() / H[-1], at_least=0.85)


def turns(p, never=False):
    """How many turns H makes more or less than one; tokens: `low` (copies), low * range, and `middle` unless it is 0."""
    mu = [p["low"], p["low"] * p["range"], *([p["middle"]] if p["middle"] else [])]
    H = entropy_curve(mu, np.array([p["copies"], 1, 1][: len(mu)]))[1]
    steps = np.diff(H)
    steps = np.sign(steps[np.abs(steps) > 1e-8 * np.ptp(H)])
    return sd.Measured(abs(float((np.diff(steps) != 0).sum()) - (0 if never else 1)), at_most=0)


WRONG_NODE = {"exponent 2 of attention": {"power": 2.0}, "eta_z is 1.1 times larger": {"rate": 1.1}}
WRONG_NODE |= {"attention is frozen": {"rate": 0.0}}
LAWS = {
    "exponent 2 of attention": {"law": lambda mu: HALF / np.sqrt(2) / mu + 1 / (2 * mu**2)},
    "eta_z is 1.1 times larger": {"law": lambda mu: HALF / np.sqrt(1.1) / mu + 1 / (1.1 * mu**2)},
    "without 1/mu^2": {"law": lambda mu: HALF / mu + HALF / mu**3},
}
MUS = {"M": (2, 20), "low": (0.05, 2.0, "log"), "range": (1.05, 4.0), "seed": (0, 10**6)}
TWO = {"copies": (1, 1), "middle": (0.0, 0.0)}


def symbolic(name, measure, case, theories):
    """Property that sympy brings a residual to 0, and not that of wrong theories."""
    return sd.Property(name, "symbolic", measure, cases={case: {}}, controls=wrong(measure, theories))


CLAIMS = (
    sd.Claim(
        "joint-divergence", SOURCE, "A stationary gradient makes exp attention diverge in finite time",
        "One linear node under exp attention with a stationary gradient Delta, from v = z = 0, has the same "
        "erf(v_l/sqrt 2)/Delta_l for all l. It diverges at t = sqrt(pi/2)/max|Delta|.",
        latex=r"\mathrm{erf}(v_l/\sqrt2)=\sqrt{2/\pi}\,\Delta_lt", grade="proved",
        conditions=("eta_w = eta_z = 1, Delta_l not 0",),
        conclusion="Proved for every Delta. The flow keeps the law within {distance of erf from the law:.0e} up to 99.99 % "
        "of the time of divergence, for 2 to 200 tokens and gradients from 1e-9 to 1e6.",
        properties=(
            symbolic("rate of erf", divergence_left, "any Delta, v", {"exponent 2": {"exponent": 2}}),
            sd.Property(
                "distance of erf from the law", "flow", divergence, evaluations=(200, 5000),
                domain=sd.Box(M=(2, 200, "log"), size=(1e-6, 1e6, "log"), share=(0.01, 0.9999), seed=(0, 10**6)),
                controls=wrong(divergence, WRONG_NODE),
            ),
        ),
    ),
    sd.Claim(
        "joint-stationarity-ends", OWN, "The loss ends stationarity before the divergence",
        "With one-token bags, labels Y and squared loss, sqrt(pi/2) erf(v/sqrt 2) lags behind Delta t by the share "
        "v^2/(2 Y Delta t), v of the law. Where this is 10 %, the lag of the flow differs from 10 % by at most 1.5 points, "
        "for Y from 0.01 to 5; the mean of SGD runs lags as the flow does, as h -> 0.",
        latex=r"1-\frac{\sqrt{\pi/2}\,\mathrm{erf}(v/\sqrt2)}{\Delta t}\approx\frac{v^2}{2Y\Delta t}", expected="conditional",
        conclusion="The lag reaches 10 % at about 16 % of the time of divergence for Y = 1, and at 62 % for Y = 5. For "
        "Y = 15 the first order no longer suffices. SGD (400 runs) lags as the flow within {Y = 5:.1f} and {Y = 2:.1f} "
        "standard errors.",
        properties=(
            sd.Property(
                "lag where the law has 10 %, relative difference", "flow", end_of_stationarity, evaluations=(200, 2000),
                domain=sd.Box(Y=(0.01, 5.0, "log")), beyond={"Y = 15": {"Y": 15.0}},
                controls=wrong(end_of_stationarity, WRONG_NODE | {"lag v^2/(Y Delta t)": {"factor": 2.0}}),
            ),
            sd.Property(
                "lag of SGD against the flow, standard errors", "SGD", sgd_against,
                cases={"Y = 5": {"Y": 5.0, "end": 0.8}, "Y = 2": {"Y": 2.0, "end": 0.4}},
                controls=wrong(sgd_against, {"the gradient stays stationary": {"stationary": True}}),
            ),
        ),
    ),
    sd.Claim(
        "joint-order", SOURCE, "Entries with large targets converge first",
        "A saturating node, v' = (mu - v) e^{v^2/2} from 0, reaches (1 - epsilon) mu the earlier, the larger |mu| is, for "
        "every epsilon. The time is sqrt(pi/2)/mu + 1/mu^2 + sqrt(pi/2)/mu^3 with a relative error of at most 2.5/mu^3, "
        "for mu from 6 to 1000 and epsilon from 1e-12 to 0.1.",
        latex=r"T=\frac{\sqrt{\pi/2}}\mu+\frac1{\mu^2}+\frac{\sqrt{\pi/2}}{\mu^3}+O(\mu^{-4})",
        conclusion="The order follows from T = int_0^{1-epsilon} e^{-mu^2 u^2/2}/(1-u) du, whose integrand falls with mu. "
        "The relative error of the law is at most {relative error of the law, times mu^3:.2f}/mu^3.",
        properties=(
            sd.Property(
                "time of the larger mu over that of the smaller", "closed form", order, evaluations=(500, 20_000),
                domain=sd.Box(mu=(1e-2, 30.0, "log"), ratio=(1.001, 10.0, "log"), epsilon=(1e-9, 0.5, "log")),
                controls=wrong(order, {"attention is frozen": {"frozen": True}}),
            ),
            sd.Property(
                "relative error of the law, times mu^3", "closed form", large_mu, evaluations=(500, 20_000),
                domain=sd.Box(mu=(6.0, 1e3, "log"), epsilon=(1e-12, 0.1, "log")), controls=wrong(large_mu, LAWS),
            ),
        ),
    ),
    sd.Claim(
        "joint-rebound", SOURCE, "Attention becomes sparse first and denser at last",
        "From v = z = 0, saturating nodes with unequal |mu_l| > 0 first lower the entropy of attention, softmax(z), and "
        "raise it from some time on for good.", grade="proved",
        latex=r"\partial H/\partial z_s=-p_s(\ln p_s+H)>0",
        conclusion="Proved: the slowest entry has the smallest |mu_l|, the least attention, and rises. The late slope is at "
        "least {fall at first, rise at last:.2f} of the sum of its terms' sizes, so that the slowest entry decides.",
        properties=(
            symbolic("dH/dz_l and the first fall", entropy_left, "M = 3", {"variance over 4": {"constant": 4}}),
            sd.Property(
                "fall at first, rise at last", "closed form", first_and_last, sd.Box(**MUS), evaluations=(200, 10_000),
                controls=wrong(first_and_last, {"the gradient stays stationary": {"stationary": True}}),
            ),
        ),
    ),
    sd.Claim(
        "joint-rebound-size", OWN, "The rebound restores nearly all entropy of nearly equal large targets",
        "One token ends at z = m^2/2, and 1 to 199 tokens at m^2/2 - c. For m from 5 to 8 and c from 0.1 to 1 the minimum of "
        "the entropy lies at least 85 % below its end.", expected="conditional",
        latex=r"H_{\min}\le0.15\,H(\infty)",
        conclusion="For large m attention is all on one token before the others arrive, though they share it at the end. "
        "At m = 2 only {m = 2, c = 0.5, M = 2:.1%} of the final entropy is missing at the minimum.",
        properties=sd.Property(
            "share of the final entropy that the minimum lacks", "closed form", lost, evaluations=(200, 10_000),
            domain=sd.Box(m=(5.0, 8.0), c=(0.1, 1.0), M=(2, 200, "log")), controls=wrong(lost, {"attention is frozen": {"frozen": True}}),
            beyond={"m = 2, c = 0.5, M = 2": {"m": 2.0, "c": 0.5, "M": 2}},
        ),
        map=lambda level: Map.over(
            "Two tokens: entropy at its minimum over that at the end", ("m", np.linspace(2, 8, 25)),
            ("gap c of final logits", np.geomspace(0.05, 1.9, 16)), "share", lambda m, c: 1 - lost({"m": m, "c": c, "M": 2}).value,
            0.15, xscale="linear", scale="linear"),
    ),
    sd.Claim(
        "joint-one-dip", OWN, "Two tokens: one dip of the entropy; more tokens: several",
        "With two tokens, 1 <= |mu_1| <= 2 and |mu_2| 1.02 to 3 times larger, the entropy turns exactly once. With more "
        "tokens it can turn three times.", expected="conditional",
        conclusion="Twenty tokens with mu = 0.5, one with 3 and one with sqrt(10): while the second large one rises, it is first "
        "below and then above the mean logit. The entropy falls, rises, falls and rises.",
        properties=sd.Property(
            "turns more or less than one", "closed form", turns, evaluations=(200, 10_000),
            domain=sd.Box(low=(1.0, 2.0), range=(1.02, 3.0), **TWO), controls=wrong(turns, {"the gradient stays stationary, no turn": {"never": True}}),
            beyond={"22 tokens": {"low": 0.5, "range": 20**0.5 * 2**0.5, "copies": 20, "middle": 3.0}},
        ),
    ),
    sd.Claim(
        "joint-rebound-boundary", OWN, "When the entropy falls at last: untouched tokens, and other starts",
        "Let s be the entry that moves and has the smallest final z. From any start the entropy moves last with the sign of "
        "mu_s (mu_s - v_s(0)) (zbar - z_s), zbar the mean of the final z under attention, and entries with mu_l = v_l(0) = 0 "
        "stay. With n of those and two others at final z of alpha < beta, from v = z = 0, it rises at last if and only if "
        "alpha (n + e^beta) < beta e^beta.", grade="proved",
        latex=r"\alpha\,(n+e^\beta)<\beta e^\beta", conditions=("final z of entries that move differ", "mu_l not 0 where v_l moves"),
        conclusion="The boundary is an identity, so that no interval proof is needed. Without untouched tokens and from v = z = 0 "
        "it is always met; with them, or with a slowest entry that starts beyond its target, the entropy can fall at last.",
        properties=(
            symbolic("boundary", boundary_left, "any n, alpha, beta", {"no untouched tokens": {"without_zeros": True}}),
            sd.Property(
                "last move against the law", "closed form", any_start, evaluations=(200, 10_000),
                domain=sd.Box(**MUS, zeros=(0, 3), of_v=(0.0, 1.5), of_z=(0.0, 1.0)),
                controls=wrong(any_start, {"the entropy always rises at last": {"always_rises": True}}),
            ),
        ),
    ),
)  # fmt: skip
for entry in CLAIMS:
    sd.register(entry)
