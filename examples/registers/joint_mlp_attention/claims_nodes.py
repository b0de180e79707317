r"""Claims: one node under exp attention: divergence, end of stationarity, order of convergence, rebound of the entropy.

    snapdyn validate joint-rebound --load examples/registers/joint_mlp_attention/claims_nodes.py
All nodes start from v = z = 0, if nothing else is said, with eta_w = eta_z = 1 and so z = v^2/2 (joint_systems.py).

Divergence. v' = Delta e^{v^2/2} gives d/dt erf(v/sqrt 2) = sqrt(2/pi) Delta. So erf(v_l/sqrt 2)/Delta_l is the same for
all l, and the entry with the largest |Delta_l| diverges first, at t = sqrt(pi/2)/max|Delta|.

End of stationarity. A bag holds one token, l with probability p_l, and its label is Y_l plus noise. With the loss
(y - v.b)^2/2 the gradient is Delta_l (1 - v_l e^{z_l}/Y_l), Delta_l = p_l Y_l. So E = sqrt(pi/2) erf(v_l/sqrt 2) lags
behind Delta_l t: E' = Delta_l (1 - v_l e^{z_l}/Y_l). With v from the law of the divergence, dt = e^{-v^2/2}
dv/Delta_l, and to first order in 1/Y_l
    1 - E/(Delta_l t) = v_l^2/(2 Y_l Delta_l t).

Order. v' = (mu - v) e^{v^2/2} reaches (1 - epsilon) mu at T = int_0^{1-epsilon} e^{-mu^2 u^2/2}/(1 - u) du, which falls
with |mu|: dT/dmu = -mu int u^2 e^{-mu^2 u^2/2}/(1 - u) du. With 1/(1 - u) = 1 + u + u^2 + ... and mu large,
    T = sqrt(pi/2)/mu + 1/mu^2 + sqrt(pi/2)/mu^3 + O(1/mu^4).

Rebound. The entropy H of attention p = softmax(z) has dH/dz_l = -p_l (ln p_l + H) = p_l (zbar - z_l), zbar = sum p z.
First: z_l = mu_l^2 t^2/2 + O(t^4), and H = ln M - (variance of z)/2 + O(z^3) falls as ln M - t^4 var(mu^2)/8.
Last: mu_l - v_l falls as exp(-e^{mu_l^2/2} t), so that the smallest |mu_l| = |mu_s| moves last: z_l'/z_s' -> 0 for each
other value of |mu_l|. As mu_s is not 0, z_s' > 0; and z_s is below the mean zbar. So dH/dt > 0 from some time on.
Any start: the final z_l is z_l(0) + (mu_l^2 - v_l(0)^2)/2, and the entry that moves and has the smallest final z moves
last. Then z_s moves with the sign of mu_s (mu_s - v_s(0)), and H with the sign of this times zbar - z_s.
Entries with mu_l = v_l(0) = 0 never move. With n such entries, and two others that end at z = alpha < beta, the entry
at alpha is the last to move, and H rises last if and only if alpha < zbar, that is alpha (n + e^beta) < beta e^beta.
"""

import joint_systems as joint
import numpy as np
import sympy
from joint_systems import OWN, SOURCE, entropy, entropy_curve, logit, progress, searched, symbolic
from scipy.special import erf

import snapdyn as sd

HALF = np.sqrt(np.pi / 2)


def unequal(p):
    """Distinct |mu_l| of a Box, from p["low"] to p["low"] p["range"]: (M,)."""
    steps = np.random.default_rng(p["seed"]).random(p["M"] - 1) + 0.2
    return p["low"] * p["range"] ** np.concatenate([[0.0], np.cumsum(steps) / steps.sum()])


def divergence_left(exponent=1):
    """d/dt erf(v/sqrt 2) - sqrt(2/pi) Delta, for any v and Delta."""
    v, Delta = sympy.symbols("v Delta", real=True)
    rate = Delta * sympy.exp(exponent * v**2 / 2)
    return [sympy.erf(v / sympy.sqrt(2)).diff(v) * rate - sympy.sqrt(2 / sympy.pi) * Delta]


def divergence(p, **changes):
    """Largest |sqrt(pi/2) erf(v_l/sqrt 2)/(Delta_l t) - 1| of the flow up to `share` of the time of divergence."""
    rng = np.random.default_rng(p["seed"])
    gradient = p["size"] * rng.choice([-1, 1], p["M"]) * 10 ** (-3 * rng.random(p["M"]))
    t = HALF / np.abs(gradient).max() * p["share"] * np.array([0.0, 0.5, 1.0])
    run = sd.integrate(joint.node(gradient, **changes), t, rtol=1e-10, atol=1e-12, most_evaluations=20_000)
    if not run.success:
        return sd.Measured(1.0, at_most=1e-5)  # as that of a wrong theory that diverges earlier
    found = HALF * erf(run.state[1:, : p["M"]] / np.sqrt(2)) / (gradient * t[1:, None])
    return sd.Measured(np.abs(found - 1).max(), at_most=1e-5)


def lag(t, **parameters):
    """1 - E/(Delta t) of the flow of `node` with Delta = 1."""
    v = sd.integrate(joint.node([1.0], **parameters), [0.0, t]).state[1, 0]
    return 1 - HALF * erf(v / np.sqrt(2)) / t


def end_of_stationarity(p, factor=1.0, **changes):
    """|lag of the flow over 10 % - 1| at the time at which the law v^2/(2 Y Delta t), times `factor`, is 10 %."""
    t = np.linspace(0.0, HALF * (1 - 1e-9), 100_001)[1:]
    end = t[np.argmax(factor * joint.law_of_stationary(1.0, t) ** 2 / (2 * p["Y"] * t) >= 0.1)]
    return sd.Measured(abs(10 * lag(end, **{"loss": 1 / p["Y"]} | changes) - 1), at_most=0.15)


def sgd_lag(p, stationary=False):
    """Lag of SGD at h -> 0, from h and h/2, less that of the flow or of a stationary gradient, in standard errors."""
    M, Y, runs = 4, p["Y"], []
    for h in (0.002 / Y, 0.004 / Y):
        v = joint.sgd_of_node(np.full(M, Y), h, round(p["end"] * M / (Y * h)), squared_loss=True, seed=len(runs))[0, 0]
        runs.append(1 - (HALF * erf(v / np.sqrt(2)) / p["end"]).mean(1))
    error = np.sqrt((4 * runs[0].var() + runs[1].var()) / runs[0].size)
    gap = 2 * runs[0].mean() - runs[1].mean() - lag(p["end"], loss=0.0 if stationary else 1 / Y)
    return sd.Measured(abs(gap) / error, at_most=4.0)


def order(p, frozen=False):
    """Time of the larger mu to (1 - epsilon) mu over that of the smaller; frozen attention: v = mu (1 - e^-t)."""
    times = (-np.log(p["epsilon"]) if frozen else joint.time_to(k * p["mu"], p["epsilon"]) for k in (p["ratio"], 1))
    return sd.Measured(np.divide(*times), at_most=1 - 1e-13)


def large_mu(p, power=1.0, second=1.0):
    """|T/law - 1| mu^3, of order 1 by the next term 2/mu^4; `power` is the factor of v^2/2 in a wrong theory."""
    mu, root = p["mu"], np.sqrt(power)
    law = HALF / (root * mu) + second / (power * mu**2) + HALF / (power * root * mu**3)
    return sd.Measured(np.abs(joint.time_to(mu, p["epsilon"]) / law - 1) * mu**3, at_most=2.5)


def entropy_left(constant=8):
    """dH/dz_l + p_l (ln p_l + H), and the first term of H - ln M, t^4, less -var(mu^2)/constant, for M = 3."""
    z, mu, e = sympy.symbols("z1:4", real=True), sympy.symbols("mu1:4", real=True), sympy.Symbol("e", positive=True)
    shares = [sympy.exp(each) / sum(map(sympy.exp, z)) for each in z]
    H = -sum(each * sympy.log(each) for each in shares)
    first = H.subs({each: e * m**2 / 2 for each, m in zip(z, mu, strict=True)}).diff(e, 2).subs(e, 0) / 2  # e = t^2
    variance = sum(m**4 for m in mu) / 3 - (sum(m**2 for m in mu) / 3) ** 2
    slopes = [H.diff(each) + p * (sympy.log(p) + H) for each, p in zip(z, shares, strict=True)]
    return [*slopes, first + variance / constant]


def boundary_left(zeros=1):
    """-ln p_alpha - H - (beta e^beta - alpha (n + e^beta))/Z with final logits 0 (n times), alpha, beta."""
    n, alpha, beta = sympy.symbols("n alpha beta", positive=True)
    a, b, Z = sympy.exp(alpha), sympy.exp(beta), n + sympy.exp(alpha) + sympy.exp(beta)
    H = sympy.log(Z) - (alpha * a + beta * b) / Z
    return [sympy.log(Z) - alpha - H - (beta * b - alpha * (zeros * n + b)) / Z]


def late_slope(mu, v, z):
    """Slope of H when only the last entry still moves, over the sizes of its terms, and the sign that the law gives.

    mu, v and z at the start are (M,); None where the last two entries are too close to tell.
    """
    moving = np.flatnonzero(mu != v)
    final = np.where(mu == v, z, logit(np.inf, mu, v, z))
    last = moving[np.argmin(final[moving])]
    gap = np.diff(np.sort(final[moving])).min(initial=1.0)
    if gap < 1e-6:
        return None
    latest = max(joint.time_of(joint.Q, mu[l], v[l], z[l])[-1] for l in moving)  # some start where z is low, and wait
    t = latest + 2 * (100 * np.exp(-final[last]) + latest) / np.expm1(gap)
    q = np.array([progress(t, mu[l], v[l], z[l]) for l in moving])
    p = np.exp(final - final.max())
    above = (p * final).sum() / p.sum() - final
    terms = (p * above * mu * (mu - v))[moving] * np.exp((final[moving] - q) - (final[moving] - q).max())
    return terms.sum() / np.abs(terms).sum(), np.sign(above[last] * mu[last] * (mu[last] - v[last]))


def first_and_last(p, stationary=False):
    """Whether H falls at t = 0.01/max|mu|, and its late slope over its terms; `stationary`: gradient mu, H falls."""
    mu = unequal(p)
    if stationary:
        t = HALF / mu.max() * (1 - np.array([[1e-8], [1e-9]]))
        return sd.Measured(np.diff(entropy(joint.law_of_stationary(mu, t) ** 2 / 2))[0], at_least=1e-3)
    z = np.array([logit(progress(1e-2 / mu.max(), each), each) for each in mu])
    weights = np.exp(z)
    fall = (weights * (z - (weights * z).sum() / weights.sum()) * mu**2 * weights).sum()
    return sd.Measured(min(np.sign(fall), late_slope(mu, 0 * mu, 0 * mu)[0]), at_least=1e-3)


def any_start(p, always_rises=False):
    """1 if the late change of H has not clearly the sign of the law, else 0; signs of mu and starts are random."""
    mu, rng = unequal(p), np.random.default_rng(p["seed"])
    mu = mu * rng.choice([-1, 1], mu.size)
    v, z = p["of_v"] * np.abs(mu).max() * rng.normal(size=mu.size), p["of_z"] * rng.normal(size=mu.size)
    found = late_slope(*(np.append(each, np.zeros(p["zeros"])) for each in (mu, v, z))) if np.abs(v).max() < 8 else None
    return found and sd.Measured(float(found[0] * (1 if always_rises else found[1]) < 0.01), at_most=0)


def lost(p, frozen=False):
    """1 - minimum over final value of the entropy: one token ends at m^2/2, M - 1 tokens at m^2/2 - c."""
    H = entropy_curve([p["m"], np.sqrt(p["m"] ** 2 - 2 * p["c"])], np.array([1, p["M"] - 1]))[1]
    return sd.Measured(0.0 if frozen else 1 - H.min() / H[-1], at_least=0.85)


WRONG = {"exponent 2 of attention": {"power": 2.0}, "attention is frozen": {"rate": 0.0}}
STATIONARY, FROZEN = {"the gradient stays stationary": {"stationary": True}}, {"attention is frozen": {"frozen": True}}
LAWS = {"exponent 2 of attention": {"power": 2.0}, "1.1 eta_z": {"power": 1.1}, "without 1/mu^2": {"second": 0.0}}
MUS = {"M": (2, 20), "low": (0.05, 2.0, "log"), "range": (1.05, 4.0), "seed": (0, 10**6)}
SEARCH, SMALL = (200, 10_000), {"m = 2": {"m": 2.0, "c": 0.5, "M": 2}}
CLAIMS = (
    sd.Claim(
        "joint-divergence", SOURCE, "A stationary gradient makes exp attention diverge in finite time",
        "One linear node under exp attention with stationary gradient Delta, no entry 0, from v = z = 0 with eta_w = "
        "eta_z = 1 has the same erf(v_l/sqrt 2)/Delta_l for all l, and diverges at t = sqrt(pi/2)/max|Delta|.",
        conclusion="Proved for every gradient without a zero entry. The flow keeps the law within {erf from its "
        "law:.0e} up to 99.99 % of the time of divergence, for |Delta_l| from 1e-9 to 1e6.", grade="proved",
        properties=(
            symbolic("rate of erf", divergence_left, "any Delta, v", {"exponent 2": {"exponent": 2}}),
            searched("erf from its law", "flow", divergence, WRONG | {"1.1 eta_z": {"rate": 1.1}},
                sd.Box(M=(2, 200, "log"), size=(1e-6, 1e6, "log"), share=(0.01, 0.9999), seed=(0, 10**6))))),
    sd.Claim(
        "joint-stationarity-ends", OWN, "The loss ends stationarity before the divergence",
        "With one-token bags, labels Y and squared loss, sqrt(pi/2) erf(v/sqrt 2) lags behind Delta t by the fraction "
        "v^2/(2 Y Delta t), with v from the law of a stationary gradient: where this fraction is 10 %, the flow lags "
        "by 8.5 to 11.5 %, for Y from 0.01 to 5. The mean of SGD at h -> 0 has the lag of the flow, at two settings.",
        expected="conditional",
        conclusion=(
            "Holds for labels Y from 0.01 to 5: the lag is 10 % at 16 % of the time of divergence for Y = 1, and at "
            "62 % for Y = 5. At Y = 15 the law fails. The lag of SGD differs from that of the flow by {Y = 5:.1f} "
            "standard errors at Y = 5 and {Y = 2:.1f} at Y = 2."
        ),
        properties=(
            searched("lag of the flow over 10 %, less 1", "flow", end_of_stationarity, WRONG | {"twice the lag":
                {"factor": 2.0}}, sd.Box(Y=(0.01, 5.0, "log")), beyond={"Y = 15": {"Y": 15.0}}),
            searched("lag of SGD from that of the flow, standard errors", "SGD", sgd_lag, STATIONARY,
                cases={"Y = 5": {"Y": 5.0, "end": 0.8}, "Y = 2": {"Y": 2.0, "end": 0.4}}))),
    sd.Claim(
        "joint-order", SOURCE, "Entries with large targets converge first",
        "A saturating node, v' = (mu - v) e^{v^2/2} from 0, reaches (1 - epsilon) mu earlier if |mu| is larger. For "
        "mu from 6 to 1000 and epsilon from 1e-12 to 0.1 the time is sqrt(pi/2)/mu + 1/mu^2 + sqrt(pi/2)/mu^3, with a "
        "relative error of at most 2.5/mu^3.",
        conclusion=(
            "Holds: the time is an integral that falls with |mu|, so the order is proved for every mu and epsilon. "
            "The relative error of the series for the time is at most {error of the law, times mu^3:.2f}/mu^3."
        ),
        properties=(
            searched("time of the larger mu over that of the smaller", "closed form", order, FROZEN,
                sd.Box(mu=(1e-2, 30.0, "log"), ratio=(1.001, 10.0, "log"), epsilon=(1e-9, 0.5, "log")), SEARCH),
            searched("error of the law, times mu^3", "closed form", large_mu, LAWS,
                sd.Box(mu=(6.0, 1e3, "log"), epsilon=(1e-12, 0.1, "log")), SEARCH))),
    sd.Claim(
        "joint-rebound", SOURCE, "Attention becomes sparse first and denser at last",
        "From v = z = 0, a saturating node with distinct |mu_l| > 0 first lowers the entropy of the attention "
        "softmax(z), and from some time on raises it at all times.", grade="proved",
        conclusion=(
            "Proved for |mu_l| > 0 that are not all equal: the slowest entry has the least attention, and its logit "
            "rises last. The formulas are verified by sympy for three tokens. Between the first fall and the last rise "
            "the entropy may turn again."
        ),
        properties=(
            symbolic("dH/dz_l and the first fall", entropy_left, "M = 3", {"variance over 4": {"constant": 4}}),
            searched("fall at first, rise at last", "closed form", first_and_last, STATIONARY, sd.Box(**MUS), SEARCH))),
    sd.Claim(
        "joint-rebound-boundary", OWN, "When the entropy falls at late times: tokens that never move, and other starts",
        "From any start the change of the entropy at late times has the sign of mu_s (mu_s - v_s(0)) (zbar - z_s): s "
        "is the entry with the smallest final z among those that move, zbar is the mean of the final z under "
        "attention. From v = z = 0, with n entries of mu_l = 0 and two that end at alpha < beta, the entropy finally "
        "rises if and only if alpha (n + e^beta) < beta e^beta.",
        conditions=("final z of moving entries differ", "mu_l is not 0 where v_l moves"), grade="proved",
        conclusion=(
            "Proved by identities. Tokens with mu_l = 0, or a slowest entry that starts beyond its target, can make "
            "the entropy fall at late times."
        ),
        properties=(
            symbolic("boundary", boundary_left, "any n, alpha, beta", {"no untouched tokens": {"zeros": 0}}),
            searched("last move against the law", "closed form", any_start, {"always a rise": {"always_rises": True}},
                sd.Box(**MUS, zeros=(0, 3), of_v=(0.0, 1.5), of_z=(0.0, 1.0)), SEARCH))),
    sd.Claim(
        "joint-rebound-size", OWN, "With large, nearly equal targets the entropy almost vanishes before it rises again",
        "Where one token ends at z = m^2/2 and 1 to 199 tokens at m^2/2 - c, m from 5 to 8 and c from 0.1 to 1, the "
        "entropy at its minimum is at most 15 % of that at the end.", expected="conditional",
        conclusion=(
            "Holds for targets of 5 to 8 that are nearly equal: one token gets nearly all attention before the "
            "others get their share. With two tokens, m = 2 and c = 0.5 the minimum is only {m = 2:.0%} below the "
            "final entropy."
        ),
        properties=searched("share of the final entropy missing at its minimum", "closed form", lost, FROZEN,
            sd.Box(m=(5.0, 8.0), c=(0.1, 1.0), M=(2, 200, "log")), SEARCH, beyond=SMALL)),
)  # fmt: skip
for entry in (joint.node([1.0], pull=1.0), *CLAIMS):
    sd.register(entry)
