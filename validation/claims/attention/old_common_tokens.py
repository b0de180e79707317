"""Corollary 2: several common tokens, and where some common token grows."""

from __future__ import annotations

import numpy as np
import sympy as sp

from snapdyn.dynamics import MeanField, ModifiedDecoder, SequenceClasses, System, Trajectory, log_times, sgd, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import (
    EPS,
    LINEAR_ALGEBRA,
    attention_drift,
    dense_attention,
    modified_decoder_gradient,
    overlap,
    spectral_norm,
)
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register import Evidence, claim

# A rise of this share of the largest logit is more than the solvers' error at rtol 1e-8 (some hundred steps).
RISE = 1e-5
TIMES = log_times(1e-2, 1e6, 40)


def shared_common_tokens(
    common: Floats, distinct: Floats, query: list[int], vocab_size: int, weights: Floats | None = None
) -> SequenceClasses:
    """Classes with P(l|n) = common[n, l] and distinct tokens of their own, common (K, c), distinct (K, d)."""
    K, c = common.shape
    P = np.zeros((K, c + distinct.size))
    P[:, :c] = common
    for n in range(K):
        start = c + n * distinct.shape[1]
        P[n, start : start + distinct.shape[1]] = distinct[n]
    V = max(vocab_size, P.shape[1])
    return SequenceClasses(P / P.sum(axis=1, keepdims=True), query, weights=weights, vocab_size=V)


def corollary_2_instance(seed: int, query: list[int] | None = None) -> SequenceClasses:
    """Random classes that meet Corollary 2: P(l|n) = rho_l, distinct profiles permuted, one query (or as given)."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 6)) if query is None else len(query)
    share = rng.uniform(0.05, 0.95)
    rho = rng.dirichlet(np.full(rng.integers(2, 6), 0.7)) * share
    profile = rng.dirichlet(np.full(rng.integers(1, 5), 2.0)) * (1 - share)
    distinct = np.array([rng.permutation(profile) for _ in range(K)])
    V = int(10 ** rng.uniform(1, 4))
    return shared_common_tokens(np.tile(rho, (K, 1)), distinct, [0] * K if query is None else query, V)


def spread_profiles() -> SequenceClasses:
    """Two weakly correlated classes of one query, V = 10, in which common token 1 grows since P(l|n) depends on n.

    Seed 351 of 500 draws ``default_rng(seed).dirichlet(np.ones(3), size=2)`` (common, common, distinct), rounded.
    Of the 272 weakly correlated ones a common token grows in 115, here with the smallest ratio P(l|0)/P(l|1), 4.9.
    """
    return shared_common_tokens(
        np.array([[0.733, 0.184], [0.151, 0.839]]), np.array([[0.083], [0.010]]), [0, 0], vocab_size=10
    )


def unequal_queries() -> SequenceClasses:
    """Corollary 2 but for two queries, of one and two classes: a common token falls first and grows later.

    `corollary_2_instance(274, query=[0, 1, 1])`, rounded; strongly correlated, |lambda_1| K = 5.93, V = 16.
    """
    return shared_common_tokens(np.tile([0.373, 0.555], (3, 1)), np.full((3, 1), 0.072), [0, 1, 1], vocab_size=16)


def largest_rise(trajectory: Trajectory, tokens: np.ndarray) -> float:
    """Largest rise of a logit of `tokens` above its running minimum, over the largest |z - z(0)| of the run."""
    start = np.asarray(trajectory.z_initial)
    z = np.concatenate([start[None], trajectory.z])
    path = z[:, :, tokens]
    return float((path - np.minimum.accumulate(path, axis=0)).max() / np.abs(z - start).max())


def common_rates(f: Floats, weight: Floats, vocab_size: Floats, h: Floats) -> tuple[Floats, Floats]:
    """Rates of Eq. (10) for one query, sum_n weight_n f_n o sum_k beta_nk (f_n (f_n.f_k) - f_k) (B, M), and xi_n/gamma.

    f (B, K, M), weight p_n gamma_n and h (B, K), V (B,). The coefficients -beta_nk are those of v_n G^{-1}, v_n with
    entries (h_k/h_n) zeta_k.zeta_n; compared with the decoder itself in the claim.
    """
    V = vocab_size[:, None, None]
    K = f.shape[1]
    E = overlap(f)
    v = -V / (V - 1) ** 2 * h[:, None, :] / h[:, :, None] * (1 - np.eye(K)) + V / (V - 1) * np.eye(K)
    others = (v @ np.linalg.inv(np.eye(K) + E)) * (1 - np.eye(K))
    xi = -(others * E).sum(axis=2)
    return np.einsum("bn,bnl->bl", weight, f * (f * xi[:, :, None] + others @ f)), xi


def _proportional(rng: np.random.Generator, count: int, K: int, c: int) -> tuple[Floats, Floats, Floats]:
    """Attention (B, K, c + K) with common parts proportional to one profile r (B, c), any sizes s (B, K)."""
    r = rng.dirichlet(np.full(c, 0.5), size=count) + 1e-3
    r /= np.linalg.norm(r, axis=1, keepdims=True)
    s = np.sqrt(10 ** rng.uniform(-3, -0.001, (count, K)))
    own = np.sqrt(1 - s**2)[:, :, None] * np.eye(K)
    return np.concatenate([s[:, :, None] * r[:, None, :], own], axis=2), r, s


def _spread(rng: np.random.Generator, count: int, K: int, c: int, alpha: float, largest: Floats) -> Floats:
    """Attention (B, K, c + K), common profiles of the classes drawn from Dirichlet(alpha), |lambda_1| <= largest."""
    common = rng.dirichlet(np.full(c, alpha), size=(count, K)) + 1e-12
    common *= np.sqrt(rng.uniform(0.1, 1, (count, K, 1))) / np.linalg.norm(common, axis=2, keepdims=True)
    strength = np.maximum(spectral_norm(overlap(common)), 1e-12)
    scale = np.minimum(largest / strength, 0.99 / (common**2).sum(axis=2).max(axis=1))
    common *= np.sqrt(scale)[:, None, None]
    own = np.sqrt(1 - (common**2).sum(axis=2))[:, :, None] * np.eye(K)
    return np.concatenate([common, own], axis=2)


def _share_that_grows(count: int, seed: int) -> tuple[dict[tuple[int, str], Floats], Floats, int]:
    """Share of random instances with some common token of positive rate at once, by (K, correlation), over alpha."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(0.1, 100, 7)
    share = {}
    for K in (2, 3, 5):
        for correlation in ("weak", "strong"):
            found = []
            for alpha in spread:
                low, high = (0.0, 1 / K) if correlation == "weak" else (1 / K, 0.9 * (K - 1))
                f = _spread(rng, count, K, 3, float(alpha), rng.uniform(low, high, count))
                ones = np.ones((count, K))
                rates, _ = common_rates(f, ones, np.full(count, 100.0), ones)
                found.append(float((rates[:, :3].max(axis=1) > 1e-12).mean()))
            share[K, correlation] = np.array(found)
    return share, spread, 6 * spread.size * count


def _kernel_error(count: int) -> float:
    """`common_rates` against the decoder itself by dense linear algebra: largest error in units of rounding.

    The unit is K eps |G^{-1}|^2 times the largest weight p_n gamma_n: terms of order |G^{-1}| cancel in a rate.
    """
    worst = 0.0
    for seed in range(count):
        classes = corollary_2_instance(seed)
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(1, classes.num_tokens))
        V, K = classes.vocab_size, classes.num_classes
        h = rng.uniform(0.5, 3, K) / V
        weight = classes.prior * (V - 1) ** 2 * h / (V - 1 + np.exp(V * h))
        f = dense_attention(classes, z)[1]
        expected = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), 1.0)[0]
        rates, _ = common_rates(f[None], weight[None], np.array([float(V)]), h[None])
        unit = K * EPS * float(np.linalg.norm(np.linalg.inv(f @ f.T), 2)) ** 2 * weight.max()
        worst = max(worst, float(np.abs(rates[0] - expected).max() / unit))
    return worst


def _two_class_grid(size: int) -> tuple[Floats, Floats, Floats]:
    """(gain - loss)/(gain + loss) of a common token, K = 2, on a grid of r = f_1l/f_2l and e = f_1.f_2: r, e, (e, r).

    Gain is sum_n p_n f_nl^2 xi_n, loss the rest of Eq. (10), so that the rate is their difference.

    The token takes up half of the overlap at most; a second common token, equal in both classes, fills the rest.
    """
    r, e = np.geomspace(1, 1000, size), np.geomspace(0.01, 0.6, size)
    R, overlaps = np.meshgrid(r, e)
    f = np.zeros((R.size, 2, 4))
    f[:, 0, 0] = np.sqrt(overlaps.ravel() / 2)
    f[:, 1, 0] = f[:, 0, 0] / R.ravel()
    f[:, :, 1] = np.sqrt(overlaps.ravel() - f[:, 0, 0] * f[:, 1, 0])[:, None]
    f[:, [0, 1], [2, 3]] = np.sqrt(1 - (f**2).sum(axis=2))
    ones = np.ones((R.size, 2))
    rates, xi = common_rates(f, ones, np.full(R.size, 100.0), ones)
    gain = (f[:, :, 0] ** 2 * xi).sum(axis=1)
    return r, e, (rates[:, 0] / (2 * gain - rates[:, 0])).reshape(R.shape)


@claim(
    "corollary2",
    source="Corollary 2, Eqs. (10), (101)-(107)",
    title="Several common tokens shrink together",
    statement="All common tokens lose attention where there is a single query, the distinct-token profiles of the "
    "classes are permutations of each other, P(l|n) = rho_l for every common l, and Z(0) = 0. (own: one query and "
    "P(l|n) = rho_l tau_n suffice, for any distinct profiles, Z(0), priors, V and correlation. In general "
    "z_l' = eta_Z sum_n p_n f_nl (f_nl xi_n - gamma_n sum_{k != n} beta_nk f_kl); for K = 2 and equal priors token l "
    "grows if and only if (f_1l/f_2l + f_2l/f_1l)/2 > 1/(f_1.f_2).)",
    latex=r"\dot z_l=\eta_Z\sum_np_nf_{nl}\Bigl(f_{nl}\xi_n-\gamma_n\sum_{k\ne n}\beta_{nk}f_{kl}\Bigr)<0;"
    r"\qquad K=2:\ \dot z_l>0\iff\tfrac12\Bigl(\frac{f_{1l}}{f_{2l}}+\frac{f_{2l}}{f_{1l}}\Bigr)>\frac1{f_1\cdot f_2}",
    expected="conditional",
    assumptions=(
        "one query",
        "common parts of the classes proportional: P(l|n) = rho_l tau_n",
        "one class per next token",
    ),
)
def corollary2(level: str) -> Evidence:
    quick = level == "quick"
    rises: dict[str, float] = {}
    highest, companion, distinct, least = -np.inf, 0.0, np.inf, np.inf
    instances = [corollary_2_instance(seed) for seed in range(6 if quick else 60)]
    for i, classes in enumerate(instances):
        common = classes.common_tokens()
        systems: list[tuple[str, System]] = [
            ("modified decoder", ModifiedDecoder(classes, 1.0, 1.0)),
            ("modified decoder, leading beta", ModifiedDecoder(classes, 1.0, 1.0, beta="leading")),
            *((f"mean field, eta_Z/eta_Y = {q:g}", MeanField(classes, 1.0, q)) for q in ((1e-3, 1.0, 100.0)[i % 3],)),
        ]
        for rung, system in systems:
            run = whole_run(system, TIMES)
            rises[rung] = max(rises.get(rung, 0.0), largest_rise(run, common))
            if rung != "modified decoder":
                continue
            distinct = min(distinct, largest_rise(run, classes.distinct_tokens()))
            for z, h in zip(run.z[::8], run.extra["h"][::8], strict=True):
                drift = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), 1.0)[0]
                highest = max(highest, float(drift[common].max() / np.abs(drift).max()))
            # z_l' is proportional to -f_l^2, so exp(-2 z_l) - 1 keeps the proportions rho_l^2.
            fall = np.expm1(-2 * run.z[-1, 0, common]) / classes.P.toarray()[0, common] ** 2
            companion = max(companion, float(np.ptp(fall) / fall.max()))
            least = min(least, float(-run.z[-1, 0, common].min()))
        if i < 3:
            run = sgd(classes, 0.5, 0.5, 400, batch_size=None)
            rises["descent"] = max(rises.get("descent", 0.0), largest_rise(run, common))
    # Trained on single sequences, common logits of the mean over seeds end below 0 by three standard errors.
    seeds = range(8 if quick else 64)
    case = corollary_2_instance(1)
    tokens = case.common_tokens()
    last = np.array([run.z[-1, 0, tokens] for run in sgd(case, 0.2, 0.2, 2000, seed=seeds, record=[2000])])
    trained = float(np.max(last.mean(axis=0) + 3 * last.std(axis=0, ddof=1) / np.sqrt(last.shape[0])))

    rng = np.random.default_rng(20)
    count = 500 if quick else 20_000
    general, formula, tried = -np.inf, 0.0, 0
    for K, c in ((2, 2), (3, 5), (5, 3), (10, 10)):
        f, r, s = _proportional(rng, count, K, c)
        h, weight = 10 ** rng.uniform(-1, 1, (count, K)), rng.dirichlet(np.ones(K), size=count)
        V = np.floor(K + 10 ** rng.uniform(0, 4, count))
        rates, xi = common_rates(f, weight, V, h)
        own = -(r**2) * (weight * xi * (1 - s**2)).sum(axis=1)[:, None]
        formula = max(formula, float((np.abs(rates[:, :c] - own).max(axis=1) / np.abs(own).max(axis=1)).max()))
        general, tried = max(general, float((rates[:, :c] / np.abs(rates).max(axis=1)[:, None]).max())), tried + count
    wide = {"modified decoder": 0.0, "mean field": 0.0}
    for seed in range(4 if quick else 40):
        classes, z_start = _relaxed(seed)
        for rung, system in (
            ("modified decoder", ModifiedDecoder(classes, 1.0, 1.0, z_initial=z_start)),
            ("mean field", MeanField(classes, 1.0, (1e-3, 1.0, 100.0)[seed % 3], z_initial=z_start)),
        ):
            wide[rung] = max(wide[rung], largest_rise(whole_run(system, TIMES), classes.common_tokens()))
    even = 0.0
    for seed in range(2 if quick else 20):
        classes = corollary_2_instance(seed, query=[0, 1, 0, 1])
        even = max(even, largest_rise(whole_run(ModifiedDecoder(classes, 1.0, 1.0), TIMES), classes.common_tokens()))

    small, uneven = spread_profiles(), unequal_queries()
    paths = {
        "P(l|n) depends on n": whole_run(ModifiedDecoder(small, 1.0, 1.0), TIMES),
        "two queries of unequal size": whole_run(ModifiedDecoder(uneven, 1.0, 1.0), TIMES),
    }
    split = shared_common_tokens(np.full((2, 2), 0.2), np.full((2, 1), 0.6), [0, 1], 10)
    start = np.zeros((2, split.num_tokens))
    start[0, 0] = -3.0
    paths["Z(0) != 0, two queries"] = whole_run(ModifiedDecoder(split, 1.0, 1.0, z_initial=start), TIMES)
    in_mean_field = {
        "P(l|n) depends on n": whole_run(MeanField(small, 1.0, 1e-2), TIMES),
        "two queries of unequal size": whole_run(MeanField(uneven, 1.0, 1e-2), TIMES),
    }
    share, spread, drawn = _share_that_grows(400 if quick else 20_000, 21)
    often, weakly, seen = _unequal_queries_ensemble(20 if quick else 600)

    ratio, e, grid = _two_class_grid(21 if quick else 81)
    mean = (ratio + 1 / ratio) / 2
    right = (grid > 0) == (mean[None, :] > 1 / e[:, None])
    naive = (grid > 0) == (ratio[None, :] > 1 / e[:, None])
    f1, f2, x, y, b = sp.symbols("f_1 f_2 x y beta", positive=True)
    dot = f1 * f2 + x * y
    two = b * f1 * (f1 * dot - f2) + b * f2 * (f2 * dot - f1)
    claimed = 2 * b * f1 * f2 * dot * ((f1 / f2 + f2 / f1) / 2 - 1 / dot)
    return Evidence(
        checks=[
            Check("K = 2, Eq. (10): z_l'/(eta_Z p gamma) against the own condition, residual", "symbolic",
                  int(sp.cancel(sp.together(two - claimed)) != 0), 0),
            Check("largest rate of a common logit over the largest rate", "modified decoder", highest, 0.0),
            *(Check("largest rise of a common logit", rung, value, RISE) for rung, value in rises.items()),
            Check("signal: smallest over instances of the largest fall", "modified decoder", least, 1e-2, ">="),
            Check("common logits at the end: largest mean over seeds + 3 standard errors", "SGD", trained, 0.0),
            # rtol 1e-8 over some hundred steps, on numbers of order 1.
            Check("own: (exp(-2 z_l) - 1)/rho_l^2 is the same for all common l, relative", "modified decoder",
                  companion, 1e-5),
            Check("rates of Eq. (10) used below against the decoder itself, units of rounding", LINEAR_ALGEBRA,
                  _kernel_error(10 if quick else 200), 64.0),
            Check(f"own, P(l|n) = rho_l tau_n and nothing else ({tried:,} instances): largest rate over the largest",
                  LINEAR_ALGEBRA, general, 0.0),
            # Rates differ from each other by up to 1e6, G^{-1} reaches 1e3.
            Check("own: rate -(rho_l^2/sum rho^2) sum_n p_n xi_n (1 - |common part of f_n|^2), relative",
                  LINEAR_ALGEBRA, formula, 1e-8),
            *(Check("own, the same along runs: other profiles, priors and Z(0); largest rise", rung, value, RISE)
              for rung, value in wide.items()),
            Check("own: two queries of equally many classes otherwise as in Corollary 2, largest rise",
                  "modified decoder", even, RISE),
            Check("own: growth for K = 2 on a grid of f_1l/f_2l and f_1.f_2, share of the grid told rightly",
                  LINEAR_ALGEBRA, float(right.mean()), 1.0, ">="),
            *(
                Check(f"{name}: largest rise of a common logit", "modified decoder",
                      largest_rise(run, np.array([0, 1])), RISE, role="outside")
                for name, run in paths.items()
            ),
            *(
                Check(f"{name}: largest rise of a common logit, eta_Z/eta_Y = 0.01", "mean field",
                      largest_rise(run, np.array([0, 1])), RISE, role="outside")
                for name, run in in_mean_field.items()
            ),
            Check("P(l|n) depends on n, K = 5, weak, profiles from Dirichlet(0.1): share that grows",
                  LINEAR_ALGEBRA, float(share[5, "weak"][0]), 0.0, role="outside"),
            Check("wrong theory: distinct tokens do not rise either", "modified decoder", distinct, RISE,
                  role="control"),
            Check("wrong theory: growth where f_1l/f_2l > 1/(f_1.f_2), share of the grid told rightly", LINEAR_ALGEBRA,
                  float(naive.mean()), 1.0, ">=", role="control"),
            Check("wrong theory: common tokens fall whatever P(l|n), largest share that grows", LINEAR_ALGEBRA,
                  max(float(value.max()) for value in share.values()), 0.0, role="control"),
        ],
        conclusion="With one query and proportional common parts f_n.f_k and f_nl f_kl are proportional, so "
        "z_l' = -eta_Z (rho_l^2/sum rho^2) sum_n p_n xi_n (1 - |f_n common|^2) < 0: permuted profiles and Z(0) = 0 are "
        "not needed. Where P(l|n) depends on n, some common token grows at once in "
        + ", ".join(f"{share[K, 'weak'][0]:.0%} (K = {K})" for K in (2, 3, 5))
        + " of weakly correlated instances with common profiles from Dirichlet(0.1), and in "
        + f"{max(share[K, 'weak'][-1] for K in (2, 3, 5)):.1%} at most from Dirichlet(100); "
        f"with two queries of unequal size later, in {often} of {seen} instances "
        f"({weakly} of the weakly correlated ones).",
        picture=Picture(
            "Dirichlet parameter of the common profiles", "share in which some common token grows",
            tuple(
                Picture.line(f"K = {K}, {correlation}", spread, values,
                             "simulation" if correlation == "weak" else "bound")
                for (K, correlation), values in share.items()
            ),
        ),
        conditions=[*assumption_2(small)[1:2], *assumption_2(uneven)[1:2]],
        maps=(
            Map(
                title="Rate of a common token, two classes", xlabel="f_1l/f_2l", ylabel="f_1.f_2",
                quantity="z_l' over gain + loss", x=ratio, y=e, violation=grid, threshold=0.0,
                boundaries=(Picture.line("(r + 1/r)/2 = 1/(f_1.f_2)", 1 / e + np.sqrt(1 / e**2 - 1), e),),
                scale="linear",
            ),
        ),
        seeds=(*range(6 if quick else 60), 20, 21),
        tried=len(instances) + tried + drawn + seen,
    )  # fmt: skip


def _relaxed(seed: int) -> tuple[SequenceClasses, Floats]:
    """One query and P(l|n) = rho_l tau_n; distinct profiles, priors, shares and Z(0) at random."""
    rng = np.random.default_rng(seed)
    K, c, d = int(rng.integers(2, 6)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    share = rng.uniform(0.05, 0.95, (K, 1))
    common = share * rng.dirichlet(np.full(c, 0.7))
    distinct = (1 - share) * rng.dirichlet(np.full(d, 1.0), size=K)
    classes = shared_common_tokens(common, distinct, [0] * K, 100, weights=rng.dirichlet(np.full(K, 2.0)))
    return classes, rng.normal(size=(1, classes.num_tokens))


def _unequal_queries_ensemble(count: int) -> tuple[int, str, int]:
    """How many of `count` instances with queries of unequal size, otherwise as in Corollary 2, have a rise.

    Returns the number, "a of b" for the weakly correlated ones, and the number tried.
    """
    grew, weak = [], []
    for seed in range(count):
        K = 3 + seed % 3
        classes = corollary_2_instance(seed, query=[0] + [1] * (K - 1))
        run = whole_run(ModifiedDecoder(classes, 1.0, 1.0), TIMES)
        grew.append(largest_rise(run, classes.common_tokens()) > RISE)
        weak.append(abs(classes.eigenvalues()[0]) < 1 / K)
    both = sum(a and b for a, b in zip(grew, weak, strict=True))
    return sum(grew), f"{both} of {sum(weak)}", count
