"""Random systems, methods, tolerances and times: every run ends finite and within its bound, or says why."""

import warnings

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    System,
    integrate,
    log_times,
)
from tests.fuzz.conftest import Attack

METHODS = ("auto", "compiled", "DOP853", "RK45", "RK23", "LSODA", "BDF", "Radau", "CVODE", "RKC")
KINDS = ("mean field", "residual", "finite length", "frozen", "modified", "Eq. (10)", "Eq. (13)")


def random_system(rng: np.random.Generator) -> System:
    """A system of any kind: few classes, also linearly dependent ones; V up to 1e12; rates from 1e-6 to 1e6."""
    K, M = int(rng.integers(1, 5)), int(rng.integers(2, 9))
    P = rng.random((K, M)) ** 3
    P[:, 0] += 0.05
    if K > 1 and rng.random() < 0.3:
        P[1] = P[0]
    V = max(K, M, int(rng.choice([2, 13, 1000, 10**6, 10**12])))
    eta_Y, eta_Z = 10.0 ** rng.uniform(-6, 6, 2)
    kind = rng.choice(KINDS)
    if kind == "Eq. (13)":
        return SingleCommonToken(K, V, eta_Y, eta_Z, rho0=10.0 ** rng.uniform(-1, 2))
    classes = SequenceClasses(P / P.sum(axis=1, keepdims=True), query=rng.integers(0, 2, K), vocab_size=V)
    if kind == "frozen":
        return FrozenDecoder(classes, eta_Y)
    if kind == "modified":
        return FrozenDecoder(classes, eta_Y, modified=True)
    if kind == "Eq. (10)":
        return ModifiedDecoder(classes, eta_Y, eta_Z)
    if kind == "finite length":
        return FiniteLengthMeanField(classes, eta_Y, eta_Z, seq_len=int(rng.integers(1, 1000)))
    return MeanField(classes, eta_Y, eta_Z, residual=kind == "residual")


def test_every_run_ends(attack: Attack) -> None:
    """Assert that runs of at most some thousand evaluations end as finite and finished, or with one sentence.

    `integrate` itself judges the conserved sums of a finished run.
    """
    for number in attack.trials(60, 2000):
        rng = attack.draws(number)
        method = str(rng.choice(METHODS))
        end = 10.0 ** (rng.uniform(-300, 300) if rng.random() < 0.2 else rng.uniform(-6, 12))
        start = end * 10.0 ** rng.uniform(-6, -0.1)
        rtol = 10.0 ** rng.uniform(-12, -1)
        log_time = (None, None, True, False)[rng.integers(4)]
        refusal = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of short sequences
                run = integrate(
                    random_system(rng),
                    log_times(start, end, int(rng.integers(2, 9))),
                    method,
                    rtol=rtol,
                    atol=rtol * 10.0 ** rng.uniform(-6, 0),
                    log_time=log_time,
                    most_evaluations=2000,
                )
        except InputError as error:
            refusal = str(error)
        if refusal:
            assert "\n" not in refusal, f"trial {number}"
            attack.endings["refused"] += 1
            continue
        assert run.status in ("finished", "failed"), f"trial {number}"
        if run.status == "failed":
            assert run.message, f"trial {number}"
            assert "\n" not in run.message, f"trial {number}"
            many = "evaluations of the right-hand side, the most" in run.message
            attack.endings["stopped after 2,000 evaluations" if many else "failed with a reason"] += 1
            continue
        values = [run.z_support, *run.invariants.values(), *([run.loss] if run.has_loss else [])]
        assert all(np.isfinite(each).all() for each in values), f"trial {number}"
        attack.endings["finished"] += 1
