"""Random systems, methods, tolerances and times: every run ends finite and within its bound, or says why."""

import numpy as np
import pytest
from hypothesis import event, given, strategies as st

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
from tests.fuzz.conftest import searched

METHODS = ("auto", "compiled", "DOP853", "RK45", "RK23", "LSODA", "BDF", "Radau", "CVODE", "RKC")
KINDS = ("mean field", "residual", "finite length", "frozen", "modified", "Eq. (10)", "Eq. (13)")


def random_system(kind: str, K: int, V: int, eta_Y: float, eta_Z: float, rng: np.random.Generator) -> System:
    """A system of K classes, also linearly dependent ones, on random tokens and queries."""
    M = int(rng.integers(2, 9))
    P = rng.random((K, M)) ** 3
    P[:, 0] += 0.05
    if K > 1 and rng.random() < 0.3:
        P[1] = P[0]
    V = max(K, M, V)
    classes = SequenceClasses(P / P.sum(axis=1, keepdims=True), query=rng.integers(0, 2, K), vocab_size=V)
    return {
        "Eq. (13)": lambda: SingleCommonToken(K, V, eta_Y, eta_Z, rho0=10.0 ** rng.uniform(-1, 2)),
        "frozen": lambda: FrozenDecoder(classes, eta_Y),
        "modified": lambda: FrozenDecoder(classes, eta_Y, modified=True),
        "Eq. (10)": lambda: ModifiedDecoder(classes, eta_Y, eta_Z),
        "finite length": lambda: FiniteLengthMeanField(classes, eta_Y, eta_Z, seq_len=int(rng.integers(1, 1000))),
        "mean field": lambda: MeanField(classes, eta_Y, eta_Z),
        "residual": lambda: MeanField(classes, eta_Y, eta_Z, residual=True),
    }[kind]()


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    """Powers of ten between those of two exponents."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@searched(25, 2000)
@given(
    kind=st.sampled_from(KINDS), method=st.sampled_from(METHODS), K=st.integers(1, 4), seed=st.integers(0, 2**32),
    V=st.sampled_from([2, 13, 1000, 10**6, 10**12]), eta_Y=powers(-6, 6), eta_Z=powers(-6, 6),
    end=powers(-6, 12) | powers(-300, 300), share=powers(-6, -0.1), count=st.integers(2, 8), rtol=powers(-12, -1),
    log_time=st.sampled_from([None, True, False]),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")  # of short sequences
def test_every_run_ends(
    kind: str, method: str, K: int, seed: int, V: int, eta_Y: float, eta_Z: float, end: float, share: float,
    count: int, rtol: float, log_time: bool | None,
) -> None:  # fmt: skip
    """Assert that runs of at most some thousand evaluations end as finite and finished, or with one sentence.

    `integrate` itself judges the conserved sums of a finished run.
    """
    rng, refused = np.random.default_rng(seed), ""
    try:
        system, times = random_system(kind, K, V, eta_Y, eta_Z, rng), log_times(share * end, end, count)
        atol = rtol * 10.0 ** rng.uniform(-6, 0)
        run = integrate(system, times, method, rtol=rtol, atol=atol, log_time=log_time, most_evaluations=2000)
    except InputError as error:
        refused = str(error)
    event("refused" if refused else run.status)
    if refused or run.status != "finished":
        assert refused or (run.status == "failed" and run.message)
        assert "\n" not in (refused or run.message)
        return
    values = [run.z_support, *run.invariants.values(), *([run.loss] if run.has_loss else [])]
    assert all(np.isfinite(each).all() for each in values)
