"""Lemmas 3 and 5-7: the decoder with frozen attention, step by step and in continuous time."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from snapdyn import analytic
from snapdyn.dynamics import FrozenDecoder, log_times, random_classes, whole_run
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.results import Check, Picture
from snapdyn.validation.tools import Floats, dense_attention, largest_relative, softmax, symbolic

ROUNDING = 1e-12


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
                ROUNDING,
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
        conditions=classes.assumptions()[1:2],
    )


def _discrete_logits(V: int, eta: float, steps: int) -> tuple[Floats, Floats]:
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
            gap, norm = _discrete_logits(V, eta, steps)
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
    return Evidence(
        checks=[
            symbolic("discrete-recursion", "error-norm"),
            Check(f"logits of plain SGD against V h*, {steps} steps, V = 3..1000", "descent", logit_error, 1e-11),
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
                f"evaluator against the implicit equation at 50 digits, {V.size} points", "closed form", worst, ROUNDING
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
    )


@claim(
    "lemma7",
    source="Lemma 7",
    title="Discrete and continuous h stay together",
    statement="0 <= h*(s) - h(s) <= 2 eta_Y/V for all s; for s <= ln V/eta_Y a shift c = Theta(1) has h(s+c) >= h*(s); "
    "the gap tends to 0.",
    latex=r"0\le h^*(s)-h(s)\le \frac{2\eta_Y}{V}",
)
def lemma7(level: str) -> Evidence:
    steps = 3000 if level == "quick" else 200_000
    s = np.arange(1, steps + 1)
    lowest, highest, reversed_order, shift, late = np.inf, 0.0, 0.0, 0.0, 0.0
    for V in (2, 10, 100, 1000, 100_000):
        for eta in (0.1, 0.3, 1.0, 3.0):
            gap = analytic.discrete_h(steps, eta, V)[1:] - analytic.h(s, eta, V)
            scaled = gap * V / eta
            lowest, highest = min(lowest, float(scaled.min())), max(highest, float(scaled.max()))
            reversed_order = max(reversed_order, float(scaled.max()))
            late = max(late, float(gap[-1] / gap[steps // 10 - 1]))
            early = s <= np.log(V) / eta
            if early.any():
                # h(s+c) = h* solved for c by the implicit equation (45).
                u = V * analytic.discrete_h(steps, eta, V)[1:][early]
                shift = max(shift, float(np.max((np.expm1(u) + (V - 1) * u) / (V * eta) - s[early])))
    V, eta = 1000, 1.0
    gap = (analytic.discrete_h(steps, eta, V)[1:] - analytic.h(s, eta, V)) * V / eta
    return Evidence(
        checks=[
            # h* and h carry rounding of 1e-15 h; in units of eta/V that is below 1e-11 here.
            Check("smallest (h* - h) V/eta_Y", "descent", lowest, -1e-11, ">="),
            Check("largest (h* - h) V/eta_Y", "descent", highest, 2.0),
            # Up to s = ln V/eta, V h <= ln V, so h grows by at least eta/(2V-1) per visit: 2 eta/V is made up in 4.
            Check("largest shift c that is needed for s <= ln V/eta_Y", "descent", shift, 4.0),
            # Late, Euler's truncation feeds a gap ln(s)/(2 V s): tenfold s leaves 0.14 of it at s = 3000.
            Check(f"gap at s = {steps} over the gap at a tenth of it", "descent", late, 0.2),
            Check("wrong theory: h* <= h (largest (h* - h) V/eta_Y)", "descent", reversed_order, 1e-11, role="control"),
        ],
        conclusion=f"(h* - h) V/eta_Y stays within [{lowest:.1e}, {highest:.3f}]; the shift c needs to be "
        f"at most {shift:.3f}.",
        picture=Picture(
            "s (visits of the class)",
            "(h* - h) V/eta_Y, V = 1000, eta_Y = 1",
            (
                Picture.line("h* recursion against closed form", s, gap, "simulation"),
                Picture.line("bound of the lemma", s[[0, -1]], [2, 2], "bound"),
            ),
        ),
    )
