"""Equivalent classes in any number: first gaps, eigenvalues of E, turns of distinct tokens."""

import numpy as np
import pytest

from snapdyn.analytic import first_ladder_gaps
from snapdyn.dynamics import ClassKind, MeanField, integrate, symmetric_classes
from snapdyn.validation.claims.approximations import _slow_attention_settings
from snapdyn.validation.claims.correlation import _many_classes as kinds_of_classes
from snapdyn.validation.claims.correlation.assumption2 import best_slack
from snapdyn.validation.many_classes import first_gaps_of_runs, share_of
from snapdyn.validation.sample_classes import equal_overlap


@pytest.mark.parametrize("K", [2, 10**3, 10**9])
@pytest.mark.parametrize("rho", [0.01, 0.5])
def test_first_gaps_of_runs_are_the_closed_form(K: int, rho: float) -> None:
    """Assert the integrated gap of the modified decoder against its closed form at t -> 0, V = K to 1e6 K."""
    for V in (K, 3 * K, 10**6 * K):
        modified, leading = first_gaps_of_runs(K, V, rho)
        closed = first_ladder_gaps(K, V, rho)
        # The gap falls with t: by the order of u = 1e-4.
        assert modified == pytest.approx(closed.modified, rel=1e-3)
        assert leading == pytest.approx(-closed.leading, rel=1e-3, abs=1e-12)


def test_share_gives_the_overlap() -> None:
    assert share_of(0.3) == pytest.approx(equal_overlap(4, 9, 0.3).P.toarray()[0, 0], rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_eigenvalues_of_kinds_are_those_of_the_matrix(seed: int) -> None:
    """Assert |lambda_1|, min|lambda| and the slack of Assumption 2 against E as a dense matrix."""
    rng = np.random.default_rng(seed)
    kinds = kinds_of_classes.draw(rng)._replace(counts=rng.integers(1, 9, size=3))
    kinds = kinds._replace(counts=kinds.counts[: len(kinds.common)])
    rows = np.repeat(kinds.common, kinds.counts, axis=0)
    E = rows @ rows.T
    np.fill_diagonal(E, 0.0)
    if len(E) < 2:
        pytest.skip("one class has no E")
    size = np.abs(np.linalg.eigvalsh(E))
    largest, smallest = kinds_of_classes.extreme_eigenvalues(kinds)
    assert largest == pytest.approx(size.max(), rel=1e-12)
    assert smallest == pytest.approx(size.min(), rel=1e-9, abs=1e-14)
    assert kinds_of_classes.largest_slack(kinds, 1e6) == pytest.approx(best_slack(E, 1e6), rel=1e-9, abs=1e-7)


def test_turns_are_read_from_all_classes_as_from_one_of_each_kind() -> None:
    """Assert the time at which a distinct token turns against a run of all 12 classes by themselves."""
    kinds = [ClassKind([share], [0.6 * (1 - share), 0.4 * (1 - share)], 6) for share in (0.1, 0.6)]
    V, rate, t = 240, 300.0, np.linspace(0.1, 3.0, 57) * 12
    reduced = _slow_attention_settings._run(kinds, V, rate / 12, t)
    system = MeanField(symmetric_classes(kinds, vocab_size=V), 1.0, rate / 12)
    whole = integrate(system, t, reduce=False, rtol=1e-9, atol=1e-16)
    tops = []
    for kind in range(2):
        z, expected = reduced.of_class(kind).z[:, 0], whole.of_class(kind).z[:, 0]
        np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-12)
        tops.append(int(expected[:, 1].argmax()))
    assert tops[0] == t.size - 1
    assert 0 < tops[1] < 10  # the kind with the larger common token turns
    assert _slow_attention_settings._largest_fall(reduced, 2) > 1e-3


@pytest.mark.parametrize("K", [30, 3 * 10**8])
def test_turn_follows_k_times_the_ratio(K: int) -> None:
    """Assert that the turn lies at a K (eta_Z/eta_Y) u^2 that hardly depends on K, not at a fixed ratio times u^2."""
    shares = (0.1, 0.6)
    c = np.array([share / np.hypot(share, np.hypot(0.6, 0.4) * (1 - share)) for share in shares])
    law = _slow_attention_settings.analytic.turn_of_distinct_tokens_of_many_classes(c)
    kinds = [ClassKind([share], [0.6 * (1 - share), 0.4 * (1 - share)], K // 2) for share in shares]
    found = _slow_attention_settings.turns(kinds, 10**5 * K, law)
    # Left out: 1/K; the law is the limit of many classes.
    assert np.isinf(found[0])
    assert found[1] == pytest.approx(law[1], rel=3 / K + 3e-3)
