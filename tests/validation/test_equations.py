"""The table of equations: complete, consistent with the register; and the equations only a test recomputes."""

import ast
import re
from dataclasses import replace

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.analytic.symbolic import Derivation, derivation_of, derivations
from snapdyn.dynamics.classes.synthetic import token_table
from snapdyn.validation import CLAIMS, FINDINGS, ClaimResult, Evidence, equations
from snapdyn.validation.equations import NOT_RECOMPUTED, equation_table, equation_text, expected_verdict
from snapdyn.validation.results import VERDICTS
from tests.helpers import ROOT

ROWS = equation_table()
IDS = [row.equation for row in ROWS]
DERIVATIONS = {derivation.id for derivation in derivations()}


def _row(number: int) -> equations.EquationRow:
    return next(row for row in ROWS if number in row.numbers)


LAST = 138  # the paper's last displayed equation


def test_every_displayed_equation_has_one_row() -> None:
    """Assert that the rows run through (1) to (138) in order, without gap or overlap."""
    assert [number for row in ROWS for number in row.numbers] == list(range(1, LAST + 1))


def test_equations_that_the_register_names_are_covered() -> None:
    """Assert that every equation number in the source of a claim or a derivation is a row's."""
    sources = [claim.source for claim in CLAIMS.values()] + [derivation.source for derivation in derivations()]
    named = {number for source in sources for number in _numbers(source)}
    assert named <= set(range(1, LAST + 1))
    assert len(named) > 80


def _numbers(source: str) -> set[int]:
    """Equation numbers that a source names, ranges filled in: "Eqs. (26)-(28), (30)"."""
    ranges = re.findall(r"\((\d+)\)(?:-\((\d+)\))?", source)
    return {number for low, high in ranges for number in range(int(low), int(high or low) + 1)}


@pytest.mark.parametrize(
    "derivation",
    [d for d in derivations() if not d.source.startswith("own") and _numbers(d.source)],
    ids=lambda derivation: derivation.id,
)
def test_a_derivation_of_an_equation_is_in_its_row(derivation: Derivation) -> None:
    """Assert that a derivation is cited by the row of some equation that its source names."""
    assert any(derivation.id in _row(number).derivations for number in _numbers(derivation.source))


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_what_recomputes_a_row_exists(row: equations.EquationRow) -> None:
    """Assert that claims, derivations and tests of a row exist, and that a row without any says why."""
    assert set(row.claims) <= set(CLAIMS)
    assert set(row.derivations) <= DERIVATIONS
    for test in row.tests:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if row.recomputed_by:
        assert row.verdict in VERDICTS
    else:
        assert row.verdict == NOT_RECOMPUTED
        assert row.note


@pytest.mark.parametrize("row", [row for row in ROWS if row.verdict != NOT_RECOMPUTED], ids=lambda row: row.equation)
def test_no_row_is_milder_than_what_recomputes_it(row: equations.EquationRow) -> None:
    """Assert that a row's verdict is its claims' and derivations' worst, or a stricter one that a note explains."""
    expected = expected_verdict(row)
    order = equations.WORST_FIRST.index
    assert order(row.verdict) <= order(expected)
    if row.verdict != expected:
        assert row.note


@pytest.mark.parametrize("row", [row for row in ROWS if row.verdict != "holds"], ids=lambda row: row.equation)
def test_a_row_that_does_not_hold_says_why(row: equations.EquationRow) -> None:
    """Assert that a note explains the verdict, and names a finding of each claim that expects a correction."""
    assert row.note
    named = set(re.findall(r"F\d+", row.note))
    assert named <= set(FINDINGS)
    for id_ in row.claims:
        if CLAIMS[id_].expected == "corrected":
            assert named & set(CLAIMS[id_].findings)


def test_each_finding_on_an_equation_is_in_a_note() -> None:
    """Assert that the notes name every finding but F12, which is about a figure."""
    notes = " ".join(row.note for row in ROWS)
    assert set(re.findall(r"F\d+", notes)) == set(FINDINGS) - {"F12"}


def test_each_finding_is_shown() -> None:
    """Assert that every finding is shown by a claim."""
    assert {finding for claim in CLAIMS.values() for finding in claim.findings} == set(FINDINGS)


def _result(id_: str, verdict: str) -> ClaimResult:
    return ClaimResult(CLAIMS[id_], Evidence(), verdict)  # type: ignore[arg-type]


@pytest.fixture
def sympy_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave sympy out: every derivation gets the verdict its printed form expects."""
    printed = {derivation.id for derivation in derivations() if derivation.printed is not None}
    monkeypatch.setattr(
        equations, "derivation_verdict", lambda id_: "corrected" if id_ in printed else "holds", raising=True
    )


@pytest.mark.usefixtures("sympy_agrees")
def test_expected_results_give_the_recorded_verdicts() -> None:
    """Assert that results that are all as expected leave every verdict as recorded."""
    assert equation_table([_result(id_, claim.expected) for id_, claim in CLAIMS.items()]) == ROWS
    assert equation_table([]) == ROWS


@pytest.mark.usefixtures("sympy_agrees")
@pytest.mark.parametrize("verdict", ["refuted", "corrected", "conditional"])
def test_a_claim_that_fails_shows_in_its_equations(verdict: str) -> None:
    """Assert that a worse measured verdict is shown, in the rows of that claim only."""
    changed = equation_table([_result("lemma6", verdict)])
    assert {row.equation: row.verdict for row in changed if row not in ROWS} == {"(44)-(45)": verdict}


@pytest.mark.usefixtures("sympy_agrees")
def test_a_correction_that_is_not_measured_disappears() -> None:
    """Assert that a measured "holds" overrules a recorded correction that rests on that claim alone."""
    row = replace(_row(9), derivations=())
    assert expected_verdict(row) == row.verdict == "corrected"
    assert equations._measured_verdict(row, {"theorem1-form": "holds"}) == "holds"


def test_a_derivation_is_found_under_its_id() -> None:
    """Assert that every derivation is the one that its id names, and no other id names one."""
    assert all(derivation_of(derivation.id) is derivation for derivation in derivations())
    with pytest.raises(KeyError):
        derivation_of("no-such-derivation")


@pytest.mark.parametrize(
    ("id_", "verdict"), [("h-implicit", "holds"), ("relative-gain-rate", "corrected"), ("late-dominance", "corrected")]
)
def test_sympy_gives_the_verdict_of_a_derivation(id_: str, verdict: str) -> None:
    """Assert that a verified formula holds, and is a correction where the printed one leaves a residual."""
    assert equations.derivation_verdict(id_) == verdict


def test_a_derivation_that_fails_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a derivation with a residual is refuted."""
    good = next(derivation for derivation in derivations() if derivation.id == "entry-bound")
    wrong = replace(good, id="wrong", equations=lambda claim: {"always": claim})
    monkeypatch.setattr("snapdyn.analytic.symbolic.derivation_of", lambda id_: wrong)
    equations.derivation_verdict.cache_clear()
    assert equations.derivation_verdict("wrong") == "refuted"
    equations.derivation_verdict.cache_clear()


def test_the_text_shows_every_row_within_the_width() -> None:
    """Assert that the text form names each equation and verdict and keeps to 110 columns where it can."""
    text = equation_text()
    assert text.startswith(f"{LAST} displayed equations: ")
    assert sum(int(count) for count in re.findall(r"\d+", text.splitlines()[0])) == 2 * LAST
    for row in ROWS:
        assert f"{row.equation:<14}{row.verdict}" in text
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 110


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


def test_the_corrected_lower_bound_of_93_holds_for_random_overlaps() -> None:
    """Assert -E'_nn >= min lambda^2/(1+|lambda_1|) for random overlaps with |lambda_1| < 1/K."""
    rng = np.random.default_rng(93)
    for _ in range(500):
        K = int(rng.integers(2, 9))
        E = np.triu(rng.exponential(size=(K, K)), 1)
        E = E + E.T
        E *= rng.uniform(0.05, 1) / (K * np.abs(np.linalg.eigvalsh(E)).max())
        eigenvalues = np.abs(np.linalg.eigvalsh(E))
        # Rounding of the inverse, of order machine epsilon.
        assert np.all(_minus_diagonal(E) >= eigenvalues.min() ** 2 / (1 + eigenvalues.max()) - 1e-14)


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
        z = np.zeros(P.shape[1])
        for _ in range(200):
            c = P * np.exp(z)
            f = c / np.linalg.norm(c, axis=1, keepdims=True)
            G = f @ f.T
            beta = np.eye(K) - np.linalg.inv(G)
            for n in range(K):
                for k in range(K):
                    if k != n:
                        z = z + 0.05 * beta[n, k] * f[n] * (f[n] * G[n, k] - f[k])
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
