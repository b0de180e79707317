"""Lemmas 3 and 5-7, Remark 2: the decoder with frozen attention, step by step and in continuous time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.integrate import solve_ivp

from snapdyn import analytic
from snapdyn.dynamics import FrozenDecoder, log_times, random_classes, sgd, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition, assumption_2
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import IDENTITY_ERROR, dense_attention, largest_relative, softmax
from snapdyn.validation.pictures import Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.statistics import fit_order
from snapdyn.validation.symbolic_checks import symbolic, symbolic_printed
from snapdyn.validation.visits import FROZEN, discrete_logits, late_lag, own_lead, single_token_classes, visits_of


@claim(
    "lemma3",
    source="Lemma 3, Eqs. (8), (26)",
    title="The modified flow decouples the classes",
    statement="With f_n replaced by f_n - F E' e_n in the update of Y, the logits w_n = Y^T f_n of each class follow "
    "w_n' = eta_Y (e_n - alpha_n), untouched by the other classes.",
    latex=r"\dot Y=\eta_Y (f_n-FE'e_n)(e_n-\alpha_n)^\top\ \Rightarrow\ \dot w_n=\eta_Y(e_n-\alpha_n)",
    assumptions=("attention frozen", "attention vectors f_n linearly independent", "one class per next token"),
)
def lemma3(level: str) -> Evidence:
    eta = 1.0
    classes = random_classes(
        4, num_common=2, num_distinct=3, vocab_size=20, correlation="strong", uniform_prior=False, seed=3
    )
    V = classes.vocab_size
    _, f = dense_attention(classes, np.zeros((1, classes.num_tokens)))
    update = f - classes.E_prime() @ f  # rows f_n - F E' e_n
    one_hot = np.eye(V)[classes.next_token]

    def full_flow(direction: Floats) -> Floats:
        """All of Y (M, V) by scipy in plain numpy; returns W = F^T Y at t = 200."""

        def rate(t: float, Y: Floats) -> Floats:
            error = one_hot - softmax(f @ Y.reshape(-1, V))
            return ((eta * classes.prior[:, None] * direction).T @ error).ravel()

        end = solve_ivp(rate, (0, 200), np.zeros(f.shape[1] * V), method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
        return f @ end.reshape(-1, V)

    times = log_times(1e-2, 200, 60)
    own = whole_run(FrozenDecoder(classes, eta, modified=True), times, rtol=1e-10, atol=1e-12)
    expected = np.array([(V - 1) * analytic.h(p * 200, eta, V) for p in classes.prior])
    modified = full_flow(update)
    original = full_flow(f)
    own_logit = np.arange(classes.num_classes), classes.next_token
    closed = np.array([(V - 1) * analytic.h(p * times, eta, V) for p in classes.prior]).T
    return Evidence(
        checks=[
            symbolic("modified-flow"),
            Check(
                "F^T Y' against e_n - alpha_n for one update, any error vectors",
                "closed form",
                float(np.abs(f @ update.T - np.eye(4)).max()),
                IDENTITY_ERROR,
            ),
            # Solver tolerance 1e-10 per step over some hundred steps.
            Check(
                "full Y by scipy against the decoupled closed form, t = 200",
                "modified decoder",
                largest_relative(modified[own_logit], expected),
                1e-8,
            ),
            Check(
                "FrozenDecoder(modified=True) against the same, t = 0.01..200",
                "modified decoder",
                largest_relative(own.extra["own_logit"], closed),
                1e-8,
            ),
            Check(
                "wrong theory: the original flow (7) decouples too",
                "frozen decoder",
                largest_relative(original[own_logit], expected),
                1e-8,
                role="control",
            ),
        ],
        conclusion="Exact for the modified flow, at any overlap. The original flow (7) does not decouple.",
        picture=Picture(
            "t (batch-size-1 steps)",
            "own logit of class 0",
            (
                Picture.line("(V-1) h(p t), closed form", times, closed[:, 0]),
                Picture.line("modified flow, integrated", times, own.extra["own_logit"][:, 0], "simulation"),
                Picture.line(
                    "original flow (7)",
                    times,
                    whole_run(FrozenDecoder(classes, eta), times).extra["own_logit"][:, 0],
                    "control",
                ),
            ),
        ),
        conditions=[
            Condition(
                "independent attention vectors",
                "condition number of G below 1e8",
                1e8,
                float(np.linalg.cond(classes.gram())),
                bool(np.linalg.cond(classes.gram()) < 1e8),
            ),
            *assumption_2(classes)[1:2],
        ],
        seeds=(3,),
    )


def _plain_steps(V: int, eta: float, steps: int) -> tuple[Floats, Floats]:
    """Plain SGD on one class's logits w <- w + eta (e_0 - softmax(w)): (w_0 - w_1, norm of error) after each step."""
    w = np.zeros(V)
    gap, norm = np.zeros(steps + 1), np.zeros(steps + 1)
    for s in range(steps + 1):
        e = np.exp(w - w.max())
        alpha = e / e.sum()
        error = -alpha
        error[0] = alpha[1:].sum()
        gap[s], norm[s] = w[0] - w[1], np.linalg.norm(error)
        w += eta * error
    return gap, norm


@claim(
    "lemma5",
    source="Lemma 5, Eqs. (31)-(33)",
    title="Logits after s visits",
    statement="After s visits of class n, w_n = (V-1) h*(s) zeta_n and e_n - alpha_n = (V-1)/(V-1+exp(V h*)) zeta_n "
    "with h*(s) = h*(s-1) + eta_Y/(V-1+exp(V h*(s-1))), h*(0) = 0.",
    latex=r"w_n=(V-1)h^*(s)\,\zeta_n,\quad h^*(s)=h^*(s-1)+\frac{\eta_Y}{V-1+e^{Vh^*(s-1)}}",
    assumptions=("modified flow, discrete steps", "Y(0) = 0"),
)
def lemma5(level: str) -> Evidence:
    steps = 300 if level == "quick" else 5000
    logit_error = norm_error = 0.0
    control = np.inf
    gap, h_star = np.empty(0), np.empty(0)
    for V in (3, 50, 1000):
        for eta in (0.1, 1.0, 4.0):
            gap, norm = _plain_steps(V, eta, steps)
            h_star = analytic.discrete_h(steps, eta, V)
            zeta = np.sqrt(V / (V - 1))
            decay = np.exp(-V * h_star)
            # w_0 - w_1 = (V-1) h* (1 + 1/(V-1)) = V h*
            logit_error = max(logit_error, largest_relative(gap, V * h_star))
            predicted = (V - 1) * decay / ((V - 1) * decay + 1) * zeta
            norm_error = max(norm_error, float(np.max(np.abs(norm / predicted - 1))))
            wrong = np.zeros(steps + 1)
            for s in range(steps):  # wrong theory: V in place of V - 1
                wrong[s + 1] = wrong[s] + eta * np.exp(-V * wrong[s]) / (V * np.exp(-V * wrong[s]) + 1)
            control = min(control, largest_relative(V * wrong, gap))
    visits = np.arange(1, steps + 1)
    # The training code itself: K = 1, so that every step is a visit; every state kept.
    trained = sgd(single_token_classes(1, 1000), 4.0, FROZEN, steps, save_decoder=True)
    trained_error = largest_relative(own_lead(trained)[:, 0], 1000 * h_star)
    return Evidence(
        checks=[
            symbolic("discrete-recursion", "error-norm"),
            Check(f"logits of plain SGD against V h*, {steps} steps, V = 3..1000", "descent", logit_error, 1e-11),
            Check(f"logits of batch-size-1 SGD on one class against V h*, {steps} steps", "SGD", trained_error, 1e-11),
            Check(
                "norm of e_n - alpha_n of SGD, from its loss, against the formula, relative",
                "SGD",
                # |e_n - alpha_n| = (1 - alpha_nn) |zeta_n|, and the loss is -ln alpha_nn.
                float(np.max(np.abs(-np.expm1(-trained.loss) * zeta / predicted - 1))),
                1e-10,
            ),
            Check("norm of e_n - alpha_n against the formula, relative", "descent", norm_error, 1e-10),
            Check("wrong theory: V in place of V - 1 in the recursion", "descent", control, 1e-11, role="control"),
        ],
        conclusion="Exact to accumulated rounding.",
        picture=Picture(
            "s (visits of the class)",
            "w_n[n] - w_n[other] = V h*",
            (
                Picture.line("recursion (33)", visits, 1000 * h_star[1:]),
                Picture.line("plain SGD on 1000 logits", visits, gap[1:], "simulation"),
            ),
        ),
        seeds=(0,),
        tried=9,
    )


@claim(
    "lemma6",
    source="Lemma 6, Eqs. (44)-(45)",
    title="Continuous h",
    statement="dh/ds = eta_Y/(V-1+exp(V h)) with h(0) = 0 gives exp(V h) + (V-1) V h = V eta_Y s + 1.",
    latex=r"\dot h=\frac{\eta_Y}{V-1+e^{Vh}},\quad e^{Vh}+(V-1)Vh=V\eta_Y s+1",
)
def lemma6(level: str) -> Evidence:
    import mpmath

    rng = np.random.default_rng(6)
    count = 60 if level == "quick" else 600
    V = np.unique(np.round(10 ** rng.uniform(np.log10(2), 7, count)))
    s = 10 ** rng.uniform(-9, 15, V.size)
    eta = 10 ** rng.uniform(-6, 3, V.size)
    evaluated = analytic.h(s, eta, V)
    worst = 0.0
    with mpmath.workdps(50):
        for h, si, etai, Vi in zip(evaluated, s, eta, V, strict=True):
            x = mpmath.mpf(Vi) * mpmath.mpf(etai) * mpmath.mpf(si)
            # expm1(u) + (V-1) u is convex and at least V u and expm1(u): Newton from there falls to the root.
            u = min(x / Vi, mpmath.log1p(x))
            for _ in range(200):
                step = (mpmath.expm1(u) + (Vi - 1) * u - x) / (mpmath.exp(u) + Vi - 1)
                u -= step
                if abs(step) < abs(u) * mpmath.mpf(10) ** -40:
                    break
            worst = max(worst, float(abs(mpmath.mpf(h) * Vi / u - 1)))
    visits = log_times(1e-2, 1e4, 60)
    flow, control = 0.0, np.inf
    for size, rate in ((3, 1.0), (50, 0.3), (1000, 2.0), (100000, 1.0)):

        def slope(t: float, y: Floats, size: int = size, rate: float = rate) -> Floats:
            return rate * size * np.exp(-y) / ((size - 1) * np.exp(-y) + 1)

        u = solve_ivp(slope, (0, visits[-1]), [0.0], method="LSODA", t_eval=visits, rtol=1e-11, atol=1e-14).y[0]
        flow = max(flow, float(np.max(np.abs(size * analytic.h(visits, rate, size) / u - 1))))
        # Wrong theory: exp(V h) + (V-1) V h = V eta s, without the 1, which is h at s - 1/(V eta).
        later = visits > 2 / (size * rate)
        shifted = analytic.h(visits[later] - 1 / (size * rate), rate, size)
        control = min(control, float(np.max(np.abs(size * shifted / u[later] - 1))))
    return Evidence(
        checks=[
            symbolic("h-implicit", "h-closed"),
            Check(
                f"evaluator against the implicit equation at 50 digits, {V.size} points",
                "closed form",
                worst,
                IDENTITY_ERROR,
            ),
            # LSODA at rtol 1e-11 per step, some thousand steps; its dense output is of lower order than its steps.
            Check("evaluator against scipy's LSODA on the ODE, s = 0.01..1e4", "frozen decoder", flow, 1e-7),
            Check(
                "wrong theory: exp(V h) + (V-1) V h = V eta_Y s, without the 1",
                "frozen decoder",
                control,
                1e-7,
                role="control",
            ),
        ],
        conclusion="Holds; the closed form is V h = A - omega(A - ln(V-1)), A = (V eta_Y s + 1)/(V-1).",
        picture=Picture(
            "s (visits of the class)",
            "V h, V = 1000, eta_Y = 1",
            (
                Picture.line("closed form", visits, 1000 * analytic.h(visits, 1.0, 1000)),
                Picture.line(
                    "LSODA on the ODE",
                    visits,
                    solve_ivp(
                        lambda t, y: 1000 * np.exp(-y) / (999 * np.exp(-y) + 1),
                        (0, visits[-1]),
                        [0.0],
                        method="LSODA",
                        t_eval=visits,
                        rtol=1e-9,
                        atol=1e-12,
                    ).y[0],
                    "simulation",
                ),
            ),
        ),
        seeds=(6,),
        tried=V.size,
    )


@claim(
    "lemma7",
    source="Lemma 7, Eqs. (46)-(49)",
    title="Discrete and continuous h stay together",
    statement="0 <= h*(s) - h(s) <= 2 eta_Y/V for all s; for s <= ln V/eta_Y a shift c = Theta(1) has h(s+c) >= h*(s); "
    "the gap tends to 0.",
    latex=r"0\le h^*(s)-h(s)\le \frac{2\eta_Y}{V}",
    findings=("F15",),
)
def lemma7(level: str) -> Evidence:
    steps = 3000 if level == "quick" else 200_000
    s = np.arange(1, steps + 1)
    lowest, highest, decay = np.inf, 0.0, 0.0
    early: list[float] = []
    sizes, rates = (2, 10, 100, 1000, 100_000, 10_000_000), (0.1, 0.3, 1.0, 3.0)
    for V in sizes:
        for eta in rates:
            h_star = analytic.discrete_h(steps, eta, V)[1:]
            gap = h_star - analytic.h(s, eta, V)
            scaled = gap * V / eta
            lowest, highest = min(lowest, float(scaled.min())), max(highest, float(scaled.max()))
            decay = max(decay, float(gap[-1] / gap[steps // 10 - 1]))
            before = s <= np.log(V) / eta
            if before.any():
                # h(s+c) = h* solved for c by the implicit equation (45).
                early.append(float(np.max(visits_of(V * h_star[before], eta, V) - s[before])))
    V_late, eta_late = (a.ravel() for a in np.meshgrid(np.array(sizes, dtype=float), rates))
    # h(s+X) - h(s) = X h'(s) to a share X/s; here times V.
    late = (
        late_lag(V_late, eta_late, LATE)
        * V_late
        * eta_late
        / (V_late - 1 + np.exp(V_late * analytic.h(LATE[:, None], eta_late, V_late)))
    )
    against_order = late * 2 * LATE[:, None] / np.log(eta_late * LATE[:, None])
    V, eta = 1000, 1.0
    gap = (analytic.discrete_h(steps, eta, V)[1:] - analytic.h(s, eta, V)) * V / eta
    # The proof of (b) wants V (h(s+1) - h(s)) <= V epsilon - ln 2 from some s on, where V epsilon <= 2 eta_Y.
    slow = 0.2
    missed = float(np.min(np.diff(V * analytic.h(s, slow, V))) - (2 * slow - math.log(2)))
    return Evidence(
        checks=[
            symbolic("lag-increment", "largest-gap"),
            # h* and h carry rounding of 1e-15 h; in units of eta/V that is below 1e-11 here.
            Check("smallest (h* - h) V/eta_Y, V = 2..1e7", "descent", lowest, -1e-11, ">="),
            Check("largest (h* - h) V/eta_Y, V = 2..1e7", "descent", highest, 2.0),
            # Own: a step of the recursion is at most eta/V, and where h* leads by more than one step's time, h has
            # the larger slope throughout and catches up.
            Check("half the bound is enough: largest (h* - h) V/eta_Y", "descent", highest, 1.0),
            # Up to s = ln V/eta, V h <= ln V, so h grows by at least eta/(2V-1) per visit: 2 eta/V is made up in 4.
            Check("largest shift c that is needed for s <= ln V/eta_Y", "descent", max(early), 4.0),
            # Late, Euler's truncation feeds a gap ln(s)/(2 V s): tenfold s leaves 0.14 of it at s = 3000.
            Check(f"gap at s = {steps} over the gap at a tenth of it", "descent", decay, 0.2),
            # The ratio tends to 1, by 1/ln(s).
            Check(
                "(h* - h) over ln(eta_Y s)/(2 V s) at s = 1e6, 1e9, 1e12, V = 2..1e7: largest",
                "closed form",
                float(np.max(against_order)),
                2.0,
            ),
            Check("the same: smallest", "closed form", float(np.min(against_order)), 0.5, ">="),
            Check(
                "wrong theory (F15): the s0' of (48) at eta_Y = 0.2: smallest V (h(s+1) - h(s)) - (2 eta_Y - ln 2)",
                "closed form",
                missed,
                0.0,
                role="control",
            ),
            Check("wrong theory: h* <= h (largest (h* - h) V/eta_Y)", "descent", highest, 1e-11, role="control"),
            Check(
                "wrong theory: the gap stays (gap at a tenth of the time over the gap)",
                "descent",
                1 / decay,
                1.0,
                role="control",
            ),
        ],
        conclusion=f"(h* - h) V/eta_Y stays within [{lowest:.1e}, {highest:.3f}] for V = 2..1e7 and is "
        f"at most {late[-1].max():.1e}/eta_Y at s = 1e12 (ln(eta_Y s)/(2 V s) times "
        f"[{np.min(against_order):.3f}, {np.max(against_order):.3f}]); the shift that is needed for s <= ln V/eta_Y is "
        f"[{min(early):.3f}, {max(early):.3f}].",
        picture=Picture(
            "s (visits of the class)",
            "(h* - h) V/eta_Y, V = 1000, eta_Y = 1",
            (
                Picture.line("h* recursion against closed form", s, gap, "simulation"),
                Picture.line("bound of the lemma", s[[0, -1]], [2, 2], "bound"),
            ),
        ),
    )


# Visits at which the late gap is measured.
LATE = np.array([1e6, 1e9, 1e12])


def _leading_lag(u: Floats, vocab_size: float | Floats) -> Floats:
    """ln((V-1+exp(u))/V)/2: the sum of r = T'' d^2/2, T the inverse of V h, as the integral of T''/(2 T')."""
    return np.asarray(np.log1p(np.expm1(u) / vocab_size) / 2)


@claim(
    "remark2",
    source="Remark 2, after Lemma 7",
    title="How fast the gap between steps and flow closes",
    statement="Late, h*(s) - h(s) is of the order of 2 eta_Y s0/(V s) = O(ln V/(V s)), s0 the time of the order of "
    "ln V/eta_Y in the proof of Lemma 7, and h*(s) <= h(s+c) with c = O(ln V). Corrected: it is "
    "[ln(eta_Y s)/2 + eta_Y (1/24 + 1/(8V))]/(V s): Euler's truncation keeps feeding it, so that no constant s0 or c "
    "bounds it; at all times h*(s) = h(s + X), X = ln((V-1+exp(V h))/V)/2 + O(eta_Y).",
    latex=r"h^*-h\sim\frac{2\eta_Y s_0}{Vs}\ \to\ "
    r"h^*-h=\frac{\frac12\ln(\eta_Y s)+\eta_Y\left(\frac1{24}+\frac1{8V}\right)+O(\eta_Y^2)}{Vs}",
    expected="corrected",
    assumptions=("modified flow, discrete steps, Y(0) = 0", "eta_Y s much larger than ln(V eta_Y s)"),
    findings=("F11",),
)
def remark2(level: str) -> Evidence:
    last = 10**6 if level == "quick" else 10**8
    visits = np.unique(np.geomspace(10, last, 8 * round(math.log10(last))).round().astype(np.int64))
    s, fitted = visits.astype(float), visits >= last // 100
    slopes, margins, limits, lags, rounding = [], [], [], [], []
    shown: dict[int, Floats] = {}
    cases = [(V, eta) for V in (2, 10, 1000, 10_000_000) for eta in (0.1, 1.0, 3.0)]
    for V, eta in cases:
        u = discrete_logits(float(V), eta, visits)
        scaled = (u - V * analytic.h(s, eta, V)) * s
        slopes.append(float(np.polyfit(np.log(s[fitted]), scaled[fitted], 1)[0]))
        # h' = (1/(V s)) (1 + O(ln(V eta s)/(eta s))): the share of the law that a finite s leaves out.
        first = s[fitted][0]
        margins.append(float(scaled[-1] * np.log(V * eta * first) / (eta * first)))
        limits.append(float(scaled[-1] - np.log(eta * s[-1]) / 2))
        lags.append(float((visits_of(u[-1:], eta, V) - s[-1])[0]))
        rounding.append(4 * np.finfo(float).eps * s[-1] * u[-1])  # of u and of exp(u), times s
        if eta == 1.0:
            shown[V] = scaled
    V_case, eta_case = np.array(cases).T
    far = np.geomspace(1e10, 1e12, 9)
    lag = late_lag(V_case, eta_case, np.append(s[-1], far))
    beyond = float(np.max(np.abs(lag[0] - lags) / rounding))
    slope_beyond = float(np.abs(np.polyfit(np.log(far), lag[1:], 1)[0] - 0.5).max())
    slope, margin = np.array(slopes), np.array(margins)
    latest = min(eta * s[fitted][0] / np.log(V * eta * s[fitted][0]) for V, eta in cases)
    by_s0 = shown[10][-1] / (2 * np.log(10))
    rates: Floats = 0.2 * 2.0 ** -np.arange(5.0)
    constants = {V: _constant_of_lag(V, rates) for V in (2, 1000)}
    orders = {
        V: fit_order(rates, np.abs(found - rates * (1 / 24 + 1 / (8 * V))), next_order=1.0)
        for V, found in constants.items()
    }
    steps = 20_000 if level == "quick" else 100_000
    record = np.unique(np.geomspace(100, steps, 40).round().astype(np.int64))
    trained = sgd(single_token_classes(1, 1000), 1.0, FROZEN, steps, record=record, save_decoder=True)
    lead = own_lead(trained)[:, 0]
    left = visits_of(lead, 1.0, 1000) - record - _leading_lag(lead, 1000) - _constant_of_lag(1000, np.ones(1))
    return Evidence(
        checks=[
            Check(
                "printed law: |slope of (h* - h) V s on ln s| over what a finite s explains, smallest of 12",
                "descent",
                float(np.min(np.abs(slope) / margin)),
                1.0,
            ),
            Check(f"printed size with s0 = ln V/eta_Y, V = 10: gap over it at s = {last:g}", "descent", by_s0, 1.0),
            replace(symbolic("lag-increment", "lag", "late-lag"), role="corrected"),
            Check(
                f"|slope of (h* - h) V s on ln s - 1/2| over what a finite s explains, largest of 12, to s = {last:g}",
                "descent",
                float(np.max(np.abs(slope - 0.5) / margin)),
                1.0,
                role="corrected",
            ),
            Check(
                f"lag X by the integral against the recursion at s = {last:g}, over the recursion's rounding",
                "closed form",
                beyond,
                1.0,
                role="corrected",
            ),
            # dX/d ln s = 1/2 (1 - O(ln(V eta s)/(eta s))): 4e-8 at s = 1e10, eta = 0.1.
            Check(
                "|slope of the lag on ln s - 1/2|, s = 1e10..1e12, V = 2..1e7",
                "closed form",
                slope_beyond,
                1e-7,
                role="corrected",
            ),
            *(
                check
                for V, order in orders.items()
                for check in (
                    Check(
                        f"constant of the law less eta_Y (1/24 + 1/(8V)), V = {V}: order in eta_Y ({order}): "
                        "|corrected slope - 2|",
                        "closed form",
                        abs(order.corrected - 2),
                        order.margin(),
                        role="corrected",
                    ),
                    Check(f"margin of that order, V = {V}", "closed form", order.margin(), 0.25, role="corrected"),
                )
            ),
            # What the sum of r still adds after s: 1/(6 s) to leading order.
            Check(
                f"lag of batch-size-1 SGD on one class against the law, times s, s = 100..{steps}: largest",
                "SGD",
                float(np.max(np.abs(left) * record)),
                1.0,
                role="corrected",
            ),
            symbolic_printed("late-lag", "printed: late visits add nothing to the lag, in sympy"),
            Check(
                "wrong theory: ln(s)/(V s), twice the constant: smallest |slope - 1| over the same margin",
                "descent",
                float(np.min(np.abs(slope - 1) / margin)),
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: constant eta_Y/24 for every V, V = 2: order in eta_Y of what is left",
                "closed form",
                abs(fit_order(rates, np.abs(constants[2] - rates / 24), next_order=1.0).corrected - 2),
                orders[2].margin(),
                role="control",
            ),
        ],
        conclusion=f"(h* - h) V s grows by {slope.min():.4f} to {slope.max():.4f} per unit of ln s (1/2; printed: 0) "
        f"and is ln(eta_Y s)/2 plus [{min(limits):.3f}, {max(limits):.3f}] at s = {last:g}, for V = 2..1e7 and eta_Y = "
        f"0.1..3. At V = 10 it passes the printed 2 ln V {by_s0:.2f} times over.",
        picture=Picture(
            "s (visits of the class)",
            "(h* - h) V s, eta_Y = 1",
            (
                Picture.line("V = 1000", s, shown[1000], "simulation"),
                Picture.line("V = 10", s, shown[10], "simulation"),
                Picture.line("ln(s)/2 + 1/24", s, np.log(s) / 2 + 1 / 24),
                Picture.line("2 ln V, V = 10 (printed, s0 = ln V/eta_Y)", s[[0, -1]], [2 * np.log(10)] * 2, "printed"),
            ),
        ),
        conditions=[
            Condition(
                "late visits", "eta_Y s/ln(V eta_Y s) >= 10 where the slope is fitted", 10.0, latest, latest >= 10
            )
        ],
        seeds=(0,),
    )


def _constant_of_lag(vocab_size: float, eta_Y: Floats) -> Floats:
    """X - ln((V-1+exp(V h*))/V)/2 at s = 1e12, for several rates (n,)."""
    s, V = np.array([1e12]), np.full(eta_Y.size, float(vocab_size))
    lag = late_lag(V, eta_Y, s)[0]
    return lag - _leading_lag(V * analytic.h(s + lag, eta_Y, V), V)
