"""Remark 1: the original flow with equal overlaps, where it has a closed form."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import FrozenDecoder, SequenceClasses, log_times, whole_run
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.results import Check, Picture
from snapdyn.validation.tools import Floats

ORIGINAL = "frozen decoder"  # rung of the original flow (7)


def equal_overlap(num_classes: int, vocab_size: int, overlap: float) -> SequenceClasses:
    """Classes of one query with f_n.f_k = overlap for every pair: one common and one distinct token each."""
    odds = np.sqrt(overlap / (1 - overlap))  # P(common)/P(distinct)
    P = np.zeros((num_classes, num_classes + 1))
    P[:, 0] = odds / (1 + odds)
    P[np.arange(num_classes), np.arange(num_classes) + 1] = 1 / (1 + odds)
    return SequenceClasses(P, np.zeros(num_classes, dtype=int), vocab_size=vocab_size)


def original_flow(classes: SequenceClasses, eta_Y: float, times: Floats) -> tuple[Floats, Floats]:
    """Integrate the original flow (7) with attention frozen at its start, next tokens 0..K-1 with V >= K.

    Returns
    -------
    W : (N, K, K+1)
        Logits F^T Y of each class for each next token and for any one of the other V - K outputs (0 where V = K).
    coefficients : (N, K, K)
        a[n, k] of g_n = Y (e_n - alpha_n) = sum_k a[n, k] f_k: iota on the diagonal, -beta off it.
    """
    K, V = classes.num_classes, classes.vocab_size
    run = whole_run(FrozenDecoder(classes, eta_Y), times, rtol=1e-12, atol=1e-14, save_decoder=True)
    assert run.Y is not None
    assert run.decoder_rows is not None
    Y = run.Y[:, run.decoder_rows[: classes.num_tokens]]
    if V == K:
        Y = np.concatenate([Y, np.zeros_like(Y[:, :, :1])], axis=2)
    count = np.append(np.ones(K), V - K)
    f = classes.decoder_inputs().toarray()
    W = f @ Y
    weight = count * np.exp(W - W.max(axis=2, keepdims=True))
    error = -weight / weight.sum(axis=2, keepdims=True)  # e_n - alpha_n, the other outputs taken together
    own = np.arange(K)
    error[:, own, own] = 0.0
    error[:, own, own] = -error.sum(axis=2)
    C = np.linalg.solve(f @ f.T, W)  # Y = F C
    return W, np.asarray(error @ C.transpose(0, 2, 1))


def _symmetric_logits(t: Floats, num_classes: int, vocab_size: int, rate: float, prefactor: float = 1.0) -> Floats:
    """prefactor (V-1) h(t/K) zeta_n with h at `rate`, laid out as the W of `original_flow`."""
    K, V = num_classes, vocab_size
    zeta = np.full((K, K + 1), -1 / (V - 1))
    zeta[np.arange(K), np.arange(K)] = 1.0
    return np.asarray(prefactor * (V - 1) * analytic.h(t / K, rate, V)[:, None, None] * zeta)


@claim(
    "remark1",
    source="Remark 1, Eqs. (41)-(43)",
    title="The original flow with equal overlaps",
    statement="Under the original flow, with all off-diagonals of E equal to rho and uniform classes, "
    "w_n = (1-rho) (V-1) h(t/K) zeta_n. Corrected: w_n = (V-1) h(t/K) zeta_n with h at rate (1-rho) eta_Y, for K = V.",
    latex=r"w_n=(1-\rho)(V-1)\,h(t/K)\,\zeta_n\ \to\ w_n=(V-1)\,h_{(1-\rho)\eta_Y}(t/K)\,\zeta_n\quad(K=V)",
    expected="corrected",
    assumptions=("attention frozen", "uniform classes, equal overlaps", "K = V: sum over classes of zeta_n is 0"),
    findings=("F2",),
)
def remark1(level: str) -> Evidence:
    rho, eta = 0.02, 1.0
    times = log_times(1e-1, 200, 60 if level == "quick" else 300)
    errors: dict[tuple[int, int, str], Floats] = {}
    ratio: dict[tuple[int, int], float] = {}
    for K, V in ((5, 5), (5, 50), (20, 400)):
        W, a = original_flow(equal_overlap(K, V, rho), eta, times)
        forms = {
            "printed": _symmetric_logits(times, K, V, eta, 1 - rho),
            "recomputed": _symmetric_logits(times, K, V, (1 - rho) * eta),
            "per round": _symmetric_logits(times * K, K, V, (1 - rho) * eta),
        }
        used = slice(None) if V > K else slice(K)  # no other outputs at V = K
        size = np.abs(W).max(axis=(1, 2))
        for name, form in forms.items():
            errors[K, V, name] = np.abs(form - W)[:, :, used].max(axis=(1, 2)) / size
        ratio[K, V] = float(-a[-1, 0, 1] / a[-1, 0, 0] * (V - 1))
    worst = {key: float(values.max()) for key, values in errors.items()}
    modified = equal_overlap(5, 5, rho).E_prime()[0, 1] * 4
    # rtol 1e-12 per step, some hundred steps.
    solver = 1e-9
    return Evidence(
        checks=[
            Check("printed form at K = V = 5, largest relative error", ORIGINAL, worst[5, 5, "printed"], solver),
            Check(
                "recomputed form at K = V = 5, largest relative error",
                ORIGINAL,
                worst[5, 5, "recomputed"],
                solver,
                role="corrected",
            ),
            Check(
                "beta (V-1)/iota of the original flow at K = V = 5: |ratio - 1|",
                ORIGINAL,
                abs(ratio[5, 5] - 1),
                solver,
                role="corrected",
            ),
            *(
                Check(
                    f"recomputed form at K = {K} < V = {V}",
                    ORIGINAL,
                    worst[K, V, "recomputed"],
                    solver,
                    role="outside",
                )
                for K, V in ((5, 50), (20, 400))
            ),
            Check(
                "wrong theory: the recomputed form at s = t, without the factor 1/K of the clock",
                ORIGINAL,
                worst[5, 5, "per round"],
                solver,
                role="control",
            ),
            Check(
                "wrong theory: beta (V-1)/iota = (V-1) E', the modified flow's: |ratio - 1|",
                ORIGINAL,
                abs(modified - ratio[5, 5]),
                solver,
                role="control",
            ),
        ],
        conclusion=(
            f"At K = V = 5 and t = 200 the printed form errs by {errors[5, 5, 'printed'][-1]:.1e} of the largest "
            f"logit, the recomputed one by {errors[5, 5, 'recomputed'][-1]:.0e}. There beta/iota = 1/(V-1) exactly. "
            f"For K < V neither holds: {errors[5, 50, 'recomputed'][-1]:.1e} (K = 5, V = 50), "
            f"{errors[20, 400, 'recomputed'][-1]:.1e} (K = 20, V = 400), and beta/iota is {ratio[5, 50]:.2f} and "
            f"{ratio[20, 400]:.2f} times 1/(V-1)."
        ),
        picture=Picture(
            "t (batch-size-1 steps)",
            "largest error of the logits over the largest logit",
            (
                Picture.line("recomputed, K = V = 5", times, np.maximum(errors[5, 5, "recomputed"], 1e-17)),
                Picture.line("printed, K = V = 5", times, errors[5, 5, "printed"], "printed"),
                Picture.line("recomputed, K = 20, V = 400", times, errors[20, 400, "recomputed"], "control"),
            ),
            yscale="log",
        ),
    )
