"""Maps of where a conditional claim holds: measured violation over two quantities, the printed condition on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from snapdyn import analytic
from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    Trajectory,
    log_times,
    random_classes,
    single_common_token,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.synthetic import token_table
from snapdyn.validation.results import Line, Map

# A drop of this share of the largest logit is more than the solver's error at rtol 1e-8 (some hundred steps).
FALL = 1e-5
# "Much larger" is read as a factor of ten, as in Assumption 2.
MUCH_SMALLER = 0.1


def correlated_classes(correlation: float, seed: int, num_classes: int = 5, vocab_size: int = 1000) -> SequenceClasses:
    """Random classes of one query and one common token with |lambda_1(E)| K = `correlation` (0 to K(K-1)).

    Four distinct tokens per class, Dirichlet(2); the weight of the common token varies by class and is scaled until
    the correlation is met.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    K = num_classes
    P = token_table(np.zeros((K, 1)), rng.dirichlet(np.full(4, 2.0), size=K))
    common = np.exp(rng.uniform(-0.5, 0.5, size=K))

    def at(logarithm: float) -> SequenceClasses:
        P[:, 0] = common * np.exp(logarithm)
        return SequenceClasses(P / P.sum(axis=1, keepdims=True), np.zeros(K, dtype=int), vocab_size=vocab_size)

    def excess(logarithm: float) -> float:
        return float(np.log(abs(at(logarithm).eigenvalues()[0]) * K / correlation))

    return at(float(brentq(excess, -12.0, 8.0)))


def ratio_correlation_map(
    level: str,
    title: str,
    quantity: str,
    measure: Callable[[Trajectory], float],
    threshold: float,
    scale: str = "log",
) -> Map:
    """Map of a violation in the mean field over eta_Z/eta_Y and |lambda_1| K, mean over instances, t <= 1e4/eta_Y.

    `measure` takes the run of one instance. The printed conditions are eta_Z much below eta_Y, read as a factor ten,
    and |lambda_1| < 1/K.
    """
    full = level == "full"
    ratios = np.geomspace(1e-3, 100, 11 if full else 6)
    correlations = np.geomspace(0.03, 10, 11 if full else 5)
    times = log_times(1e-1, 1e4, 60)
    violation = np.empty((correlations.size, ratios.size))
    for i, correlation in enumerate(correlations):
        members = [correlated_classes(float(correlation), seed) for seed in range(8 if full else 2)]
        for j, ratio in enumerate(ratios):
            violation[i, j] = np.mean([measure(_flow(classes, float(ratio), times)) for classes in members])
    return Map(
        title=title,
        xlabel="eta_Z/eta_Y",
        ylabel="|lambda_1(E)| K",
        quantity=quantity,
        x=ratios,
        y=correlations,
        violation=violation,
        threshold=threshold,
        boundaries=(
            _line("printed: |lambda_1| < 1/K", ratios[[0, -1]], [1.0, 1.0]),
            _line("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, correlations[[0, -1]]),
        ),
        scale="log" if scale == "log" else "linear",
    )


def _flow(classes: SequenceClasses, ratio: float, times: Floats) -> Trajectory:
    # LSODA needs half of the evaluations of DOP853, but loses to BDF where fast attention has settled.
    settled = ratio > 0.1 and times[-1] > 1e6
    options = {"method": "BDF" if settled else "LSODA", "atol": 1e-13} if ratio <= 1 else {"atol": 1e-11}
    return whole_run(MeanField(classes, 1.0, ratio), times, rtol=1e-8, **options)


def _line(label: str, x: object, y: object, kind: str = "printed") -> Line:
    return Line(label, np.asarray(x, dtype=float), np.asarray(y, dtype=float), kind)  # type: ignore[arg-type]


def fallen(run: Trajectory) -> Floats:
    """(N, distinct tokens) whether the logit has fallen by more than FALL of the run's largest |z|, one query."""
    assert run.classes is not None
    z = np.vstack([run.z_initial[0], run.z[:, 0]])[:, run.classes.distinct_tokens()]
    drop = np.maximum.accumulate(z, axis=0) - z
    return np.asarray(np.maximum.accumulate(drop, axis=0)[1:] > FALL * np.abs(run.z).max())


def distinct_fall_map(level: str) -> Map:
    """Theorem 2(a): share of distinct tokens that fall in the mean field, over eta_Z/eta_Y and |lambda_1| K."""
    return ratio_correlation_map(
        level,
        "Distinct tokens that fall, t <= 1e4/eta_Y",
        "share of distinct tokens that fall",
        lambda run: float(fallen(run)[-1].mean()),
        threshold=0.05,
        scale="linear",
    )


def common_rise_map(level: str) -> Map:
    """Theorem 2(b): rise of the only common token in the mean field, over eta_Z/eta_Y and V, t <= 1e4/eta_Y.

    Two classes of two queries, the weights of the stored counterexample theorem2b-fast: common 1, distinct 0.4 and 0.1.
    """
    full = level == "full"
    ratios = np.geomspace(0.1, 100, 13 if full else 7)
    sizes = np.geomspace(5, 5e4, 13 if full else 5).round()
    P = np.array([[1.0, 0.4, 0.0], [1.0, 0.0, 0.1]])
    P /= P.sum(axis=1, keepdims=True)
    times = log_times(1e-1, 1e4, 60)
    violation = np.empty((sizes.size, ratios.size))
    for i, V in enumerate(sizes):
        classes = SequenceClasses(P, query=[1, 0], vocab_size=int(V))
        for j, ratio in enumerate(ratios):
            z = _flow(classes, float(ratio), times).z
            common = np.vstack([np.zeros(2), z[:, :, 0]])
            violation[i, j] = (common - np.minimum.accumulate(common, axis=0)).max() / np.abs(z).max()
    return Map(
        title="Rise of the only common token, t <= 1e4/eta_Y",
        xlabel="eta_Z/eta_Y",
        ylabel="V",
        quantity="rise over the largest logit",
        x=ratios,
        y=sizes,
        violation=violation,
        threshold=FALL,
        boundaries=(
            _line("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, sizes[[0, -1]]),
            _line("printed: V >> K^2, read as 10 K^2", ratios[[0, -1]], [40.0, 40.0]),
        ),
        scale="linear",
    )


def fall_onset(classes: SequenceClasses, ratio: float, times: Floats) -> tuple[float, float]:
    """First of `times` (eta_Y = 1) at which a distinct token has fallen, and (eta_Z/eta_Y) (V h)^2 then; else NaN.

    V h at the mean visits t/K. Own: late, Y is an integral over ln t of f_n(t') (e_n - alpha_n(t')) t', so all decades
    weigh the same, while attention moves by the order of eta_Z int gamma dt = (eta_Z/eta_Y) (V h)^2/2 (128).
    """
    down = np.flatnonzero(fallen(_flow(classes, ratio, times)).any(axis=1))
    if not down.size:
        return np.nan, np.nan
    t, V = float(times[down[0]]), classes.vocab_size
    return t, ratio * (V * float(analytic.h(t / classes.num_classes, 1.0, V))) ** 2


def slow_attention_map(level: str) -> Map:
    """How slow attention must be: share of instances with a fallen distinct token, over eta_Z/eta_Y and time.

    Weak correlation, |lambda_1| K = 0.5, mean field. The fitted line is the median of the onsets.
    """
    full = level == "full"
    K, V = 3, 100
    ratios = np.geomspace(1e-3, 1, 13 if full else 7)
    last = np.geomspace(10, 1e30, 30 if full else 11)
    times = np.geomspace(1, last[-1], 600 if full else 150)
    members = [correlated_classes(0.5, seed, K, V) for seed in range(24 if full else 4)]
    onsets = np.array([[fall_onset(classes, float(ratio), times) for classes in members] for ratio in ratios])
    violation = np.array([(onsets[:, :, 0] <= t).mean(axis=1) for t in last])
    constant = float(np.nanmedian(onsets[:, :, 1]))
    u = np.sqrt(constant / ratios)
    t_line = K * (np.expm1(u) + (V - 1) * u) / V  # (45)
    shown = t_line <= last[-1]
    return Map(
        title="How slow attention must be, and for how long",
        xlabel="eta_Z/eta_Y",
        ylabel="t eta_Y (batch-size-1 steps)",
        quantity="share of instances where a distinct token has fallen",
        x=ratios,
        y=last,
        violation=violation,
        threshold=0.5,
        boundaries=(
            _line("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, last[[0, -1]]),
            _line(f"fitted: (eta_Z/eta_Y) (V h)^2 = {constant:.2g}", ratios[shown], t_line[shown], "theory"),
        ),
        scale="linear",
    )


def momentum_map(level: str) -> Map:
    """Error of the clock t = i/(1-mu) in the fall of the loss, over the step i and the momentum mu.

    Descent on the expectation at eta = 1e-6 against the mean field, on three strongly correlated classes.
    """
    full, eta, threshold = level == "full", 1e-6, 0.05
    classes = random_classes(3, num_common=1, num_distinct=3, vocab_size=50, correlation="strong", seed=1)
    i = np.unique(np.geomspace(1, 1000, 31 if full else 13).round().astype(int))
    system = MeanField(classes, eta, eta)
    momenta = 1 - np.geomspace(0.5, 0.03, 13 if full else 6)
    start = np.log(classes.vocab_size)
    violation = np.empty((momenta.size, i.size))
    for row, mu in enumerate(momenta):
        flow = whole_run(system, i / (1 - mu), rtol=1e-11, atol=1e-20)
        violation[row] = np.abs((start - flow.loss) / (start - _descent_loss(system, float(mu), i)) - 1)
    lag = momenta / (1 - momenta)
    return Map(
        title="Error of the clock i/(1-mu)",
        xlabel="step i of descent",
        ylabel="1/(1-mu)",
        quantity="relative error of the loss's fall",
        x=i.astype(float),
        y=1 / (1 - momenta),
        violation=violation,
        threshold=threshold,
        boundaries=(
            _line("printed: i = 1/(1-mu)", 1 / (1 - momenta), 1 / (1 - momenta)),
            # The clock is ahead by D = mu/(1-mu) steps: error D/(i-D).
            _line(f"D/(i-D) = {threshold:g}, D = mu/(1-mu)", lag * (1 + 1 / threshold), 1 / (1 - momenta), "theory"),
        ),
    )


def _descent_loss(system: MeanField, momentum: float, steps: NDArray[np.int64]) -> Floats:
    """Loss after each of `steps` (increasing) of heavy-ball descent: v <- mu v + g, x <- x + eta v, from 0."""
    state, velocity, losses = system.initial_state(), np.zeros(system.size), []
    for step in range(1, int(steps[-1]) + 1):
        velocity = momentum * velocity + system.derivative(0.0, state)
        state = state + velocity
        if step in steps:
            losses.append(system.loss(state))
    return np.array(losses)


def classes_of_overlap(rho: float, num_classes: int, vocab_size: int) -> SequenceClasses:
    """`single_common_token` classes, five distinct tokens each, whose attention vectors overlap by f_n.f_k = rho."""
    weights = np.linspace(0.1, 1.0, 5)
    # rho = s^2/(s^2 + (1-s)^2 |w|^2) for the share s of the common token and normalised weights w.
    odds = np.sqrt(rho / (1 - rho)) * np.linalg.norm(weights / weights.sum())
    return single_common_token(num_classes, 5, float(odds / (1 + odds)), vocab_size)


def common_logit_ratio(vocab_size: int, num_classes: int, rho: float) -> tuple[float, float, float]:
    """F4: common logit under (10) over the mean field's at t = 2 K ln V/eta_Y, eta_Z/eta_Y = 1e-4; law; denominator.

    The law, own, no free number: (1 + V E')/(2 (exp(X) - 1)/X - 1), X = rho V h. Under the modified flow beta =
    E' + 1/V to leading order. Under the original flow the own coefficient C_n[n] = u grows to V h, and C_k[n] = -(1/V)
    int exp(rho u) du with the lead rho u of overlapping classes' outputs: beta (V-1)/iota = (exp(x)-1)/x + exp(x) - 1,
    x = rho u; its mean over int gamma dt ~ int u du is the denominator.
    """
    V, K = vocab_size, num_classes
    t, eta_Z = 2 * K * np.log(V), 1e-4
    classes = classes_of_overlap(rho, K, V)
    runs = (
        whole_run(system, [t], method="LSODA", rtol=1e-9, atol=1e-18)
        for system in (ModifiedDecoder(classes, 1.0, eta_Z), MeanField(classes, 1.0, eta_Z))
    )
    modified, mean_field = (float(run.z[0, 0, 0]) for run in runs)
    X = rho * V * float(analytic.h(t / K, 1.0, V))
    denominator = 2 * float(np.expm1(X)) / X - 1
    return modified / mean_field, (1 + V * overlap_coefficient(rho, K)) / denominator, denominator


class CommonLogitLaw(NamedTuple):
    """F4's law fitted: ln(R D - 1) = constant + a ln V + b ln E', R the ratio and D the law's denominator.

    `coefficients` and `errors` (standard errors) are those of constant, a, b; the law says 0, 1, 1. `excess` is the
    largest |R/law - 1| over its bound, `without_denominator` the same for 1 + V E' alone.
    """

    coefficients: Floats
    errors: Floats
    excess: float
    without_denominator: float
    instances: int


def common_logit_law(level: str) -> CommonLogitLaw:
    """Fit F4's ratio over V, K and rho, weakly correlated, V >= 100 K."""
    points = 5 if level == "full" else 3
    rows, excess, without = [], 0.0, 0.0
    for K in (3, 5, 10, 20) if level == "full" else (3, 10):
        for V in np.geomspace(100 * K, 1e6, points).round():
            for rho in np.geomspace(1e-3, 0.9 / (K * (K - 1)), points):
                ratio, law, denominator = common_logit_ratio(int(V), K, float(rho))
                # Left out: (K-1) E' beside 1 in beta's 1/V and in the original flow's coefficients, K outputs of V.
                bound = K / V + (K - 1) * rho
                excess = max(excess, abs(ratio / law - 1) / bound)
                without = max(without, abs(ratio / (law * denominator) - 1) / bound)
                rows.append([1.0, np.log(V), np.log(overlap_coefficient(rho, K)), np.log(ratio * denominator - 1)])
    table = np.array(rows)
    X, y = table[:, :3], table[:, 3]
    coefficients, *_ = np.linalg.lstsq(X, y, rcond=None)
    variance = np.sum((y - X @ coefficients) ** 2) / (y.size - 3)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
    return CommonLogitLaw(coefficients, errors, excess, without, y.size)


def overlap_coefficient(rho: float, num_classes: int) -> float:
    """E'_nk of classes whose attention vectors all overlap by rho."""
    return rho / ((1 - rho) * (1 + (num_classes - 1) * rho))


def common_logit_maps(level: str) -> tuple[Map, Map]:
    """F4: |ratio - 1| of the common logit, modified decoder over mean field, over (V, rho) at K = 10 and (V, K)."""
    full = level == "full"
    V = np.geomspace(30, 1e7, 16 if full else 6).round()
    rho = np.geomspace(1e-5, 0.3, 12 if full else 5)
    K = np.unique(np.geomspace(2, 16, 8 if full else 4).round().astype(int))

    def measured(V: float, K: int, rho: float) -> float:
        return abs(common_logit_ratio(int(V), K, float(rho))[0] - 1) if V >= K else np.nan

    share = 0.05
    assumption = 6 / np.sqrt(V)
    shown = assumption < rho[-1]
    ends = np.clip(share / rho[[-1, 0]], V[0], V[-1])
    by_overlap = Map(
        title="Modified decoder against mean field, K = 10",
        xlabel="V",
        ylabel="rho = f_n.f_k",
        quantity="distance of the common logits' ratio from 1",
        x=V,
        y=rho,
        violation=np.array([[measured(v, 10, r) for v in V] for r in rho]),
        threshold=share,
        boundaries=(
            _line("printed: rho < 1/(K(K-1))", V[[0, -1]], [1 / 90] * 2),
            _line("printed: rho >= 6/sqrt(V)", V[shown], assumption[shown]),
            _line(f"V rho = {share:g}", ends, share / ends, "theory"),
        ),
    )
    by_classes = Map(
        title="The same at rho = 0.001",
        xlabel="V",
        ylabel="K",
        quantity="distance of the common logits' ratio from 1",
        x=V,
        y=K.astype(float),
        violation=np.array([[measured(v, int(k), 1e-3) for v in V] for k in K]),
        threshold=share,
        boundaries=(
            _line("printed: V >> K^2, read as 10 K^2", 10.0 * K**2, K),
            _line(f"V rho = {share:g}", [share / 1e-3] * 2, K[[0, -1]], "theory"),
        ),
    )
    return by_overlap, by_classes
