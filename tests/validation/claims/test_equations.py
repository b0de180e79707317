"""The table of equations: complete, consistent with the register; and the equations only a test recomputes."""

import re

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.analytic.symbolic import derivations
from snapdyn.dynamics.classes.synthetic import token_table
from snapdyn.validation import CLAIMS, FINDINGS, ClaimResult, Evidence
from snapdyn.validation.claims import equations
from snapdyn.validation.claims.equations import NOT_RECOMPUTED, equation_table, expected_verdict
from tests.dynamics.dense_reference import Instance, eq_10
from tests.helpers import ROOT

ROWS = equation_table()


def _row(number: int) -> equations.EquationRow:
    return next(row for row in ROWS if number in row.numbers)


LAST = 138  # the paper's last displayed equation


def _numbers(source: str) -> set[int]:
    """Equation numbers that a source names, ranges filled in: "Eqs. (26)-(28), (30)"."""
    ranges = re.findall(r"\((\d+)\)(?:-\((\d+)\))?", source)
    return {number for low, high in ranges for number in range(int(low), int(high or low) + 1)}


def test_the_rows_are_complete() -> None:
    """Assert one row for each of (1) to (138) in order, those that sources name among them, and all findings.

    A derivation is cited by the row of some equation that its source names. F12 is about a figure.
    """
    assert [number for row in ROWS for number in row.numbers] == list(range(1, LAST + 1))
    derived = {derivation.id: _numbers(derivation.source) for derivation in derivations()}
    named = set().union(*derived.values(), *(_numbers(claim.source) for claim in CLAIMS.values()))
    assert named <= set(range(1, LAST + 1))
    assert len(named) > 80
    for derivation in derivations():
        if not derivation.source.startswith("own") and derived[derivation.id]:
            assert any(derivation.id in _row(number).derivations for number in derived[derivation.id])
    assert {finding for claim in CLAIMS.values() for finding in claim.findings} == set(FINDINGS)
    assert set(re.findall(r"F\d+", " ".join(row.note for row in ROWS))) == set(FINDINGS) - {"F12"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.equation)
def test_a_row_has_the_verdict_of_what_recomputes_it(row: equations.EquationRow) -> None:
    """Assert that what recomputes a row exists, and that its verdict is their worst, or one that a note explains.

    A row that is not recomputed, or does not hold, says why, and names a finding of each claim that is corrected.
    """
    assert set(row.claims) <= set(CLAIMS)
    assert set(row.derivations) <= {derivation.id for derivation in derivations()}
    for test in row.tests:
        path, _, name = test.partition("::")
        assert f"\ndef {name}(" in (ROOT / path).read_text()
    assert bool(row.recomputed_by) == (row.verdict != NOT_RECOMPUTED)
    if row.recomputed_by:
        order, expected = equations.WORST_FIRST.index, expected_verdict(row)
        assert order(row.verdict) <= order(expected)
        assert row.verdict == expected or row.note
    if row.verdict != "holds":
        assert row.note
        named = set(re.findall(r"F\d+", row.note))
        for id_ in row.claims:
            assert CLAIMS[id_].expected != "corrected" or named & set(CLAIMS[id_].findings)


@pytest.fixture
def sympy_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave sympy out: every derivation gets the verdict its printed form expects."""
    printed = {derivation.id for derivation in derivations() if derivation.printed is not None}
    monkeypatch.setattr(
        equations, "derivation_verdict", lambda id_: "corrected" if id_ in printed else "holds", raising=True
    )


@pytest.mark.usefixtures("sympy_agrees")
def test_results_of_claims_show_in_their_equations() -> None:
    """Assert the recorded verdicts for expected results and for none, and a worse one in the rows of its claim only."""

    def table(**measured: str) -> tuple[equations.EquationRow, ...]:
        return equation_table([ClaimResult(CLAIMS[id_], Evidence(), found) for id_, found in measured.items()])

    assert table(**{id_: claim.expected for id_, claim in CLAIMS.items()}) == table() == ROWS
    for verdict in ("refuted", "corrected", "conditional"):
        changed = {row.equation: row.verdict for row in table(lemma6=verdict) if row not in ROWS}
        assert changed == {"(44)-(45)": verdict}


@pytest.mark.parametrize(("id_", "verdict"), [("h-implicit", "holds"), ("late-dominance", "corrected")])
def test_sympy_gives_the_verdict_of_a_derivation(id_: str, verdict: str) -> None:
    """Assert that a verified formula holds, and is a correction where the printed one leaves a residual."""
    assert equations.derivation_verdict(id_) == verdict


def test_the_gap_of_lemma_7_must_exceed_ln_2() -> None:
    """Assert that the s0' of (48) never exists for eta_Y <= ln(2)/2, for any gap Lemma 7(a) leaves possible."""
    V = 1000
    s = np.arange(100_000.0)
    for eta_Y in (0.05, 0.2, np.log(2) / 2):
        h = analytic.h(s, eta_Y, V)
        largest_gap = 2 * eta_Y / V
        assert np.all(np.diff(h) > largest_gap + np.log(0.5) / V)
    # Above that rate the largest gaps allow it, with half the gap in its place all do.
    eta_Y = 0.9
    step = np.diff(analytic.h(s, eta_Y, V))
    assert step[-1] < 2 * eta_Y / V + np.log(0.5) / V
    assert step[-1] < 1e-3 * eta_Y / V


def test_lemma_9s_first_stage_starts_after_the_smaller_root() -> None:
    """Assert that exp(V h) <= (V-1) V h fails before s = [2 (V-1) u_- - 1]/(V eta_Y), and holds from there on."""
    V, eta_Y = 1000, 0.5
    start = (2 * (V - 1) * float(analytic.u_minus(V)) - 1) / (V * eta_Y)
    assert start == pytest.approx(1 / (V * eta_Y), rel=5e-3)
    s = np.array([0.5, 0.99, 1.01, 2.0]) * start
    u = V * analytic.h(s, eta_Y, V)
    np.testing.assert_array_equal(np.exp(u) <= (V - 1) * u, [False, False, True, True])


@pytest.mark.parametrize("K", [2, 3, 8])
def test_the_remainders_of_87_and_89_stay_within_their_bound(K: int) -> None:
    """Assert |delta_2|, |delta_3| <= 2 V/(V-1)^2 (1 + 3 |delta_1|) < 3/V for entries of E' up to 1/(K-1)."""
    rng = np.random.default_rng(K)
    V = 1000
    q0 = -V / (V - 1) ** 2
    largest_theta = 0.05
    for _ in range(200):
        theta = rng.uniform(-largest_theta, largest_theta, K)
        E_prime = rng.uniform(-1, 1, (K, K)) / (K - 1)
        E_prime = (E_prime + E_prime.T) / 2
        delta_1 = np.abs(V / (V - 1) * (1 + theta) - 1).max()
        bound = 2 * V / (V - 1) ** 2 * (1 + 3 * delta_1)
        n, k = rng.choice(K, 2, replace=False)
        others = np.arange(K) != n
        sums = ((1 + theta) * E_prime[k])[others].sum()
        delta_2 = -q0 * ((1 + theta) * E_prime[n])[others].sum()
        assert abs(delta_2) <= bound < 3 / V
        for sign in (1, -1):
            assert abs(sign * q0 * (1 + theta[k] + sign * sums)) <= bound


def _minus_diagonal(E: np.ndarray) -> np.ndarray:
    """-E'_nn by plain linear algebra."""
    return np.diag(np.linalg.inv(np.eye(len(E)) + E)) - 1


@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_the_printed_lower_bound_of_93_fails_where_classes_overlap_in_pairs(pairs: int) -> None:
    """Assert that min lambda^2/(1-|lambda_1|) exceeds -E'_nn there, and that 1+|lambda_1| bounds it."""
    rho = 0.9 / (2 * pairs)
    E = np.kron(np.eye(pairs), rho * (np.ones((2, 2)) - np.eye(2)))
    eigenvalues = np.linalg.eigvalsh(E)
    smallest, largest = np.abs(eigenvalues).min() ** 2, np.abs(eigenvalues).max()
    assert largest < 1 / (2 * pairs)
    # rho^2/(1-rho^2) against rho^2/(1-rho): the printed bound is 1 + rho times too large.
    np.testing.assert_allclose(smallest / (1 - largest), (1 + rho) * _minus_diagonal(E), rtol=1e-12)
    assert np.all(_minus_diagonal(E) >= smallest / (1 + largest))


def test_permuted_profiles_keep_equal_rates_and_norms() -> None:
    """Assert (101)-(106): with permuted profiles, equal common shares and zero start, (10) keeps classes alike.

    Common logits stay equal between equal probabilities, distinct logits between corresponding tokens, and the
    norms ||c~_n|| between classes; a class with another profile breaks all three. Plain Euler steps.
    """
    K, common, own = 3, np.array([0.2, 0.1]), np.array([0.4, 0.2, 0.1])
    rng = np.random.default_rng(101)
    order = [rng.permutation(3) for _ in range(K)]

    def spreads(change: float) -> tuple[float, float]:
        P = token_table(np.tile(common, (K, 1)), [own[order[n]] for n in range(K)])
        P[0, 2] += change
        P /= P.sum(axis=1, keepdims=True)
        instance = Instance(P, np.zeros(K, int), np.arange(K), np.full(K, 1 / K), 20)
        z = np.zeros((1, P.shape[1]))
        for _ in range(200):
            z = z + eq_10(instance, np.ones(K), z, 0.0, 0.2, True)[0]
        (z,) = z
        distinct = np.array([z[2 + 3 * n : 5 + 3 * n][np.argsort(order[n])] for n in range(K)])
        norms = np.linalg.norm(P * np.exp(z), axis=1)
        assert np.abs(z).max() > 0.05
        return float(np.ptp(distinct, axis=0).max()), float(np.ptp(norms))

    # 600 additions of rounding errors of values below 1.
    assert max(spreads(0.0)) < 1e-12
    assert min(spreads(0.1)) > 1e-3


def test_133_agrees_with_132_if_it_has_the_square_root_of_nu() -> None:
    """Assert that half of ln ln(...) - ln sqrt(nu/K) is (132) less a constant, and that without the root it is not.

    Without the root the difference is negative in Fig. 9's left panel up to eta_Z = 4, where B_n >= 0.
    """
    K, V, nu = 1, 100, 10.0
    t = np.linspace(0.5, 5, 50)
    for eta_Z in (0.5, 1.0, 2.0, 4.0):
        logarithm = np.log(V * eta_Z * nu * t / K)
        late = np.log(logarithm) / 2 + np.log(2 * K * (V - 1) ** 2 / (V**2 * nu)) / 4
        constant = np.log(2) / 4 + np.log((V - 1) / V) / 2
        np.testing.assert_allclose(
            late, (np.log(logarithm) - np.log(np.sqrt(nu / K))) / 2 + constant, rtol=0, atol=1e-14
        )
        assert np.all(np.log(logarithm) - np.log(nu / K) < 0)
        assert np.all(analytic.growth_exponent(t, nu * eta_Z, eta_Z, V, K, 1.0, form="printed") > 0)
