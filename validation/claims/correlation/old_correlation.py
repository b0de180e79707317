"""Lemmas 13-17: the overlaps E of attention vectors and E' = I - (I+E)^{-1}."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import sympy as sp

from snapdyn.dynamics import MeanField, ModifiedDecoder, log_times, random_classes, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import (
    DENSE_ALGEBRA_ERROR,
    EPS,
    LINEAR_ALGEBRA,
    dense_attention,
    e_prime,
    overlap,
    spectral_norm,
)
from snapdyn.validation.instances import climb, equal_overlap, random_attention, star
from snapdyn.validation.pictures import Picture
from snapdyn.validation.register import Evidence, claim

# -- instances ---------------------------------------------------------------------------------------------------------


def _ensembles(level: str, seed: int, ceiling: float | None = None) -> list[tuple[str, Floats]]:
    """(rung, attention vectors): random ones for K = 2..50, and those along runs of both systems.

    |lambda_1| runs log-uniformly from 1e-3 to `ceiling` (None: K - 1, the largest there is).
    """
    rng = np.random.default_rng(seed)
    count = 40 if level == "quick" else 2000
    found = []
    for K in (2, 3, 4, 5, 8, 15, 30, 50):
        for num_common in (1, 2, 6):
            top = (K - 1.0) if ceiling is None else ceiling
            largest = 10 ** rng.uniform(-3, np.log10(top), count if K < 20 else count // 4)
            found.append((LINEAR_ALGEBRA, random_attention(rng, K, num_common, min(K, 3), largest)))
    times = log_times(1e-1, 1e5, 12)
    for correlation in ("weak", "strong"):
        classes = random_classes(5, 3, 3, 2, 100, correlation, seed=seed)
        for rung, run in (
            ("modified decoder", whole_run(ModifiedDecoder(classes, 1.0, 1.0), times)),
            ("mean field", whole_run(MeanField(classes, 1.0, 1.0), times)),
        ):
            f = np.array([dense_attention(classes, z)[1] for z in run.z])
            found.append((rung, f if ceiling is None else f[spectral_norm(overlap(f)) < ceiling]))
    return [(rung, f) for rung, f in found if f.size]


def _search(
    measure: Callable[[Floats], Floats], ensembles: list[tuple[str, Floats]], level: str, seed: int
) -> tuple[dict[str, float], int]:
    """Largest `measure` by rung, with a directed search from random instances of K = 2..5; number tried."""
    rng = np.random.default_rng(seed)
    worst: dict[str, float] = {}
    tried = 0
    for rung, f in ensembles:
        worst[rung] = max(worst.get(rung, -np.inf), float(measure(f).max()))
        tried += f.shape[0]
    rounds = 60 if level == "quick" else 2000
    for _, f in [entry for entry in ensembles if entry[1].shape[1] <= 5][:10]:
        start = f[:8]
        worst["directed search"] = max(
            worst.get("directed search", -np.inf), float(climb(measure, start, rounds, rng).max())
        )
        tried += rounds * start.shape[0]
    return worst, tried


def _checks(name: str, worst: dict[str, float], bound: float) -> list[Check]:
    return [Check(name, rung, value, bound) for rung, value in worst.items()]


# -- symbolic proofs for K = 2 and 3 -----------------------------------------------------------------------------------

_a, _b, _c, _x = sp.symbols("a b c x", real=True)


def _symbolic_E(K: int) -> sp.Matrix:
    return sp.Matrix([[0, _a], [_a, 0]]) if K == 2 else sp.Matrix([[0, _a, _b], [_a, 0, _c], [_b, _c, 0]])


def _vanish(name: str, expressions: Sequence[sp.Expr], role: str = "statement") -> Check:
    """Check that sympy brings every rational expression to zero."""
    left = sum(sp.cancel(sp.together(expression)) != 0 for expression in expressions)
    return Check(name, "symbolic", left, 0, role=role)  # type: ignore[arg-type]


# -- Lemmas 13-17 ------------------------------------------------------------------------------------------------------


@claim(
    "lemma13",
    source="Lemma 13, Eq. (74)",
    title="Every overlap is at most |lambda_1|",
    statement="max |E_ij| <= |lambda_1(E)|.",
    latex=r"\max_{ij}|E_{ij}|\le|\lambda_1(E)|",
    assumptions=("E symmetric",),
)
def lemma13(level: str) -> Evidence:
    def ratio(f: Floats) -> Floats:
        E = overlap(f)
        return np.asarray(np.abs(E).max(axis=(1, 2)) / np.maximum(spectral_norm(E), 1e-300))

    worst, tried = _search(ratio, _ensembles(level, 13), level, 13)
    characteristic = sp.expand((_x * sp.eye(3) - _symbolic_E(3)).det())
    sizes = list(range(2, 51))
    equal = [1 / (K - 1) for K in sizes]
    shown = [float(ratio(equal_overlap(K, K, 0.3).decoder_inputs().toarray()[None])[0]) for K in sizes]
    top = max(worst.values())
    return Evidence(
        checks=[
            # det(x - E) at x = a is -a (b+c)^2: the sign says that an eigenvalue lies beyond a.
            _vanish("K = 2: det(a - E); K = 3: det(a - E) + a (b+c)^2",
                    [(_a * sp.eye(2) - _symbolic_E(2)).det(), characteristic.subs(_x, _a) + _a * (_b + _c) ** 2]),
            *_checks("largest max|E_ij|/|lambda_1| - 1", {k: v - 1 for k, v in worst.items()}, DENSE_ALGEBRA_ERROR),
            Check("the bound is attained: largest ratio", LINEAR_ALGEBRA, top, 1 - DENSE_ALGEBRA_ERROR, ">="),
            Check("wrong theory: |lambda_1|/2, ratio", LINEAR_ALGEBRA, top, 0.5 + DENSE_ALGEBRA_ERROR, role="control"),
            Check(
                "wrong theory: |lambda_1|/(K-1), the value for equal overlaps, as a bound: ratio of the two",
                LINEAR_ALGEBRA,
                max(float((ratio(f) * (f.shape[1] - 1)).max()) for _, f in _ensembles("quick", 131)),
                1 + DENSE_ALGEBRA_ERROR,
                role="control",
            ),
        ],
        conclusion="|E_ij| = |e_i^T E e_j| <= |lambda_1|. Attained for K = 2 and whenever one pair of classes overlaps "
        f"alone; equal overlaps reach 1/(K-1) of it. {tried:,} instances.",
        picture=Picture(
            "K", "max|E_ij|/|lambda_1|, equal overlaps",
            (
                Picture.line("measured", sizes, shown, "simulation"),
                Picture.line("1/(K-1)", sizes, equal),
                Picture.line("bound", sizes, np.ones(len(sizes)), "bound"),
            ),
            xscale="linear",
        ),
        seeds=(13, 131),
        tried=tried,
    )  # fmt: skip


@claim(
    "lemma14",
    source="Lemma 14, Eqs. (75)-(77)",
    title="Eigenvalues of E'",
    statement="I+E is invertible and (I+E)^{-1} = I - E', where E' has the eigenvectors of E and the eigenvalues "
    "lambda_i/(1+lambda_i). (Appendix D.1 defines E' with the other sign. own: linearly independent attention vectors "
    "suffice, |lambda_1| < 1 is not needed.)",
    latex=r"(I+E)^{-1}=I-E',\qquad\lambda_i(E')=\frac{\lambda_i}{1+\lambda_i}",
    assumptions=("attention vectors linearly independent",),
    findings=("F18",),
)
def lemma14(level: str) -> Evidence:
    def gap(f: Floats, form: Callable[[Floats], Floats]) -> Floats:
        """Largest error of the eigenvalues, over the rounding of the inverse of G, K eps |G| |G^{-1}|^2.

        lambda comes from the singular values of F, E' from a dense inverse.
        """
        sigma2 = np.sort(np.linalg.svd(f, compute_uv=False) ** 2, axis=1)
        values = np.linalg.eigvalsh(e_prime(overlap(f)))
        scale = f.shape[1] * EPS * sigma2[:, -1] / sigma2[:, 0] ** 2
        return np.asarray(np.abs(values - np.sort(form(sigma2 - 1), axis=1)).max(axis=1) / scale)

    def right(x: Floats) -> Floats:
        return x / (1 + x)

    ensembles = _ensembles(level, 14)
    worst, tried = _search(lambda f: gap(f, right), ensembles, level, 14)
    wrong = {
        "lambda/(1-lambda)": lambda x: x / (1 - x),
        "F18: the sign of appendix D.1, E' = (I+E)^{-1} - I": lambda x: -x / (1 + x),
        "lambda, the leading order": lambda x: x,
    }
    symbolic_residuals = []
    for K in (2, 3):
        E, identity = _symbolic_E(K), sp.eye(K)
        det = (identity + E).det()
        # det(I+E) (1+x) (E' - x/(1+x)), a polynomial.
        scaled = (det * identity - (1 + _x) * (identity + E).adjugate()).applyfunc(sp.expand)
        symbolic_residuals.append(sp.expand(scaled.det() - det ** (K - 1) * (E - _x * identity).det()))
        # E' = I - adj(I+E)/det(I+E) shares E's eigenvectors as soon as it commutes with E.
        symbolic_residuals.extend((E * (identity + E).adjugate() - (identity + E).adjugate() * E).expand())
    grid = np.linspace(-0.9, 3, 60)
    some = ensembles[9][1]
    lam = np.linalg.eigvalsh(overlap(some))
    order = np.argsort(lam.ravel())
    return Evidence(
        checks=[
            _vanish("K = 2, 3: det(E' - x/(1+x)) - det(E - x)/(det(I+E) (1+x)^K), E E' - E' E", symbolic_residuals),
            *_checks("largest error of the eigenvalues, over K eps |G| |G^{-1}|^2", worst, 16.0),
            *(
                Check(
                    f"wrong theory: {name}",
                    LINEAR_ALGEBRA,
                    max(float(gap(f, form).max()) for _, f in ensembles),
                    16.0,
                    role="control",
                )
                for name, form in wrong.items()
            ),
        ],
        conclusion="E' = (I+E)^{-1} E shares the eigenvectors of E. Measured to "
        f"{max(worst.values()):.2g} units of the rounding of a dense inverse on {tried:,} instances.",
        picture=Picture(
            "lambda",
            "eigenvalue of E'",
            (
                Picture.line("lambda/(1+lambda)", grid, right(grid)),
                Picture.line(
                    "measured, K = 5", lam.ravel()[order], np.linalg.eigvalsh(e_prime(overlap(some))).ravel()[order],
                    "simulation",
                ),
                Picture.line("wrong: lambda", grid, grid, "control"),
            ),
            xscale="linear",
        ),
        seeds=(14,),
        tried=tried,
    )  # fmt: skip


@claim(
    "lemma15",
    source="Lemma 15, Eqs. (78), (90)",
    title="Size of the eigenvalues of E'",
    statement="If |lambda_1(E)| <= lambda < 1, then |lambda_i(E')| <= |lambda_1|/(1-lambda) <= lambda/(1-lambda): "
    "checked at lambda = |lambda_1|, where it says most.",
    latex=r"|\lambda_i(E')|\le\frac{|\lambda_1|}{1-\lambda}\le\frac{\lambda}{1-\lambda}\quad(|\lambda_1|\le\lambda<1)",
    assumptions=("|lambda_1(E)| <= lambda < 1",),
)
def lemma15(level: str) -> Evidence:
    def ratio(f: Floats, bound: Callable[[Floats], Floats]) -> Floats:
        """max |lambda'| over `bound`(|lambda_1|); 0 outside 1e-3 < |lambda_1| < 0.99."""
        E = overlap(f)
        largest = spectral_norm(E)
        inside = (largest < 0.99) & (largest > 1e-3)
        size = np.abs(np.linalg.eigvalsh(e_prime(E))).max(axis=1)
        return np.where(inside, size / bound(np.where(inside, largest, 0.5)), 0.0)

    def right(x: Floats) -> Floats:
        return x / (1 - x)

    ensembles = _ensembles(level, 15, ceiling=0.99)
    worst, tried = _search(lambda f: ratio(f, right), ensembles, level, 15)
    # The inverse errs by K eps |G| |G^{-1}|^2 <= 2 K eps/(1-|lambda_1|)^2, the bound is |lambda_1|/(1-|lambda_1|): the
    # quotient is at most 2e3 K eps, at either end of 1e-3..0.99.
    slack = 2e3 * DENSE_ALGEBRA_ERROR
    top = max(worst.values())
    r = np.linspace(0.01, 0.9, 60)
    pair = np.array([star(2, value) for value in r])
    return Evidence(
        checks=[
            _vanish(
                "K = 2: lambda' are a/(1+a) and -a/(1-a)",
                [
                    (sp.eye(2) - (sp.eye(2) + _symbolic_E(2)).inv() - value * sp.eye(2)).det()
                    for value in (_a / (1 + _a), -_a / (1 - _a))
                ],
            ),
            *_checks(
                "largest |lambda'| (1-|lambda_1|)/|lambda_1|, minus 1", {k: v - 1 for k, v in worst.items()}, slack
            ),
            Check("the bound is attained: largest ratio", LINEAR_ALGEBRA, top, 1 - slack, ">="),
            *(
                Check(
                    f"wrong theory: {name}, ratio",
                    LINEAR_ALGEBRA,
                    max(float(ratio(f, form).max()) for _, f in ensembles),
                    1 + slack,
                    role="control",
                )
                for name, form in (
                    ("|lambda_1|", lambda x: x),
                    ("|lambda_1|/(1+|lambda_1|)", lambda x: x / (1 + x)),
                    ("half the bound", lambda x: x / (2 * (1 - x))),
                )
            ),
        ],
        conclusion="|lambda/(1+lambda)| is largest for a negative lambda = -|lambda_1|, which two classes that overlap "
        f"only each other have: there it is an equality. {tried:,} instances with |lambda_1| < 0.99.",
        picture=Picture(
            "|lambda_1|",
            "largest |lambda'|",
            (
                Picture.line("bound", r, right(r), "bound"),
                Picture.line("two classes", r, np.abs(np.linalg.eigvalsh(e_prime(overlap(pair)))).max(1), "simulation"),
                Picture.line("wrong: |lambda_1|", r, r, "control"),
            ),
            xscale="linear",
        ),
        seeds=(15,),
        tried=tried,
    )


@claim(
    "lemma16",
    source="Lemma 16, Eq. (79)",
    title="The diagonal of E' is never positive",
    statement="E'_ii <= 0, and E'_ii < 0 if class i overlaps any other class. (own: and only if; "
    "-E'_ii >= sum_k E_ik^2/(1+|lambda_1|); Assumption 2, which the lemma asks for, is not needed.)",
    latex=r"E'_{ii}\le0,\qquad E'_{ii}<0\iff\exists k\ne i:E_{ik}\ne0,"
    r"\qquad -E'_{ii}\ge\frac{\sum_kE_{ik}^2}{1+|\lambda_1|}",
    assumptions=("attention vectors linearly independent",),
)
def lemma16(level: str) -> Evidence:
    def excess(f: Floats) -> Floats:
        """Largest over classes of 1 - (-E'_ii)/(own bound), where the bound is at least 1e4 times the rounding."""
        E = overlap(f)
        diagonal = np.einsum("bii->bi", e_prime(E))
        values = np.linalg.eigvalsh(E)
        least = (E**2).sum(axis=2) / (1 + np.abs(values).max(axis=1))[:, None]
        rounding = f.shape[1] * EPS * (1 + values[:, -1]) / (1 + values[:, 0]) ** 2
        visible = least > 1e4 * rounding[:, None]
        return np.asarray(np.where(visible, 1 + diagonal / np.where(visible, least, 1.0), -np.inf).max(axis=1))

    ensembles = _ensembles(level, 16)
    worst, tried = _search(excess, ensembles, level, 16)
    alone = [np.einsum("bii->bi", e_prime(overlap(f)))[~overlap(f).any(axis=2)] for _, f in ensembles]
    isolated = float(np.abs(np.concatenate(alone)).max())
    count = sum(diagonal.size for diagonal in alone)
    error = max(_distance_error(f[:10]) for _, f in ensembles if f.shape[1] <= 8)
    symbolic_residuals = []
    for K in (2, 3):
        G = sp.eye(K) + _symbolic_E(K)
        e, rest = G[0, 1:], G[1:, 1:]
        s = (e * rest.inv() * e.T)[0]
        symbolic_residuals.append((sp.eye(K) - G.inv())[0, 0] + s / (1 - s))
    r = np.linspace(0.01, 0.9, 60)
    pair = np.array([star(2, value) for value in r])
    measured = e_prime(overlap(pair))[:, 0, 0]
    slack = 16e-4  # 16 units of rounding (a dense inverse's, as in Lemma 14), where the bound is 1e4 of them
    return Evidence(
        checks=[
            _vanish("K = 2, 3: E'_11 + s/(1-s), s = e^T G_{-1}^{-1} e", symbolic_residuals),
            *_checks("overlapping classes: largest 1 - (-E'_ii)/(own bound)", worst, slack),
            Check("classes that overlap no other: largest |E'_ii|", LINEAR_ALGEBRA, isolated, DENSE_ALGEBRA_ERROR),
            Check("how many such classes were seen", LINEAR_ALGEBRA, count, 10, ">="),
            Check(
                "E'_ii against 1 - 1/dist(f_i, span of the others)^2 by least squares, over K eps |G| |G^{-1}|^2",
                LINEAR_ALGEBRA,
                error,
                16.0,
            ),
            Check(
                "wrong theory: flipped sign (E' = (I+E)^{-1} - I), E'_ii over the own bound, smallest",
                LINEAR_ALGEBRA,
                1 - max(worst.values()),
                0.0,
                role="control",
            ),
            Check(
                "wrong theory: E'_ii < -1e-6 for every class, also without overlap",
                LINEAR_ALGEBRA,
                isolated,
                -1e-6,
                role="control",
            ),
        ],
        conclusion="1 - E'_ii = 1/(1-s), s = e^T G_{-i}^{-1} e with e the overlaps of class i: s >= 0, and s = 0 only "
        f"for e = 0; s >= |e|^2/(1+|lambda_1|) gives the size. {tried:,} instances, {count:,} classes without overlap.",
        picture=Picture(
            "overlap of two classes",
            "E'_ii",
            (
                Picture.line("measured", r, measured, "simulation"),
                Picture.line("-r^2/(1-r^2)", r, -(r**2) / (1 - r**2)),
                Picture.line("own bound -r^2/(1+r)", r, -(r**2) / (1 + r), "bound"),
                Picture.line("wrong: flipped sign", r, -measured, "control"),
            ),
            xscale="linear",
        ),
        seeds=(16,),
        tried=tried,
    )


def _distance_error(f: Floats) -> float:
    """E'_ii against 1 - 1/dist^2, dist of f_i from the span of the others by least squares, over the rounding."""
    worst = 0.0
    for vectors in f:
        diagonal = np.diag(e_prime(overlap(vectors)))
        sigma2 = np.linalg.svd(vectors, compute_uv=False) ** 2
        scale = vectors.shape[0] * EPS * sigma2[0] / sigma2[-1] ** 2
        for i, own in enumerate(vectors):
            others = np.delete(vectors, i, axis=0).T
            rest = own - others @ np.linalg.lstsq(others, own, rcond=None)[0]
            worst = max(worst, float(abs(diagonal[i] - (1 - 1 / (rest @ rest))) / scale))
    return worst


@claim(
    "lemma17",
    source="Lemma 17, Eq. (80)",
    title="E' is E to leading order",
    statement="|E'_nk - E_nk| <= |lambda_1|^2/(1-|lambda_1|). (own: for n != k half of that suffices.)",
    latex=r"|E'_{nk}-E_{nk}|\le\frac{|\lambda_1|^2}{1-|\lambda_1|}",
    assumptions=("|lambda_1(E)| < 1",),
    findings=("F18",),
)
def lemma17(level: str) -> Evidence:
    def ratio(f: Floats, power: int = 2, diagonal: bool = True) -> Floats:
        """max |E' - E| over |lambda_1|^power/(1-|lambda_1|); 0 outside 1e-3 <= |lambda_1| < 0.99."""
        E = overlap(f)
        largest = spectral_norm(E)
        inside = (largest < 0.99) & (largest >= 0.999e-3)
        gap = np.abs(e_prime(E) - E)
        if not diagonal:
            gap = gap * (1 - np.eye(f.shape[1]))
        x = np.where(inside, largest, 0.5)
        return np.where(inside, gap.max(axis=(1, 2)) * (1 - x) / x**power, 0.0)

    ensembles = _ensembles(level, 17, ceiling=0.99)
    worst, tried = _search(ratio, ensembles, level, 17)
    halves, more = _search(lambda f: ratio(f, diagonal=False), ensembles, level, 171)
    cubes = max(float(ratio(f, power=3).max()) for _, f in ensembles)
    # One class overlaps two that do not overlap each other: there the off-diagonal constant 1/2 is reached.
    r = np.geomspace(1e-3, 0.6, 40)
    stars = np.array([star(3, value) for value in r])
    pair = np.array([star(2, value) for value in r])
    E = overlap(stars)
    corner = np.abs(e_prime(E) - E)[:, 1, 2] * (1 - spectral_norm(E)) / spectral_norm(E) ** 2
    # As for Lemma 15, but the bound is smaller by |lambda_1|: at most 2e6 K eps, at |lambda_1| = 1e-3.
    slack = 2e6 * DENSE_ALGEBRA_ERROR
    E2 = _symbolic_E(2)
    return Evidence(
        checks=[
            _vanish(
                "K = 2: E' - E is a^2/(1-a^2) (-1 on, a off the diagonal); K = 3: E' - E + (I+E)^{-1} E^2",
                [
                    *(
                        sp.eye(2) - (sp.eye(2) + E2).inv() - E2
                        - _a**2 / (1 - _a**2) * sp.Matrix([[-1, _a], [_a, -1]])
                    ),
                    *(
                        sp.eye(3) - (sp.eye(3) + _symbolic_E(3)).inv() - _symbolic_E(3)
                        + (sp.eye(3) + _symbolic_E(3)).inv() * _symbolic_E(3) ** 2
                    ),
                ],
            ),
            *_checks("largest |E' - E| (1-|lambda_1|)/|lambda_1|^2", worst, 1 + slack),
            *_checks("the same for n != k, own constant 1/2", halves, 0.5 + slack),
            Check(
                "the bound is reached as |lambda_1| -> 0: two classes, overlap 1e-3, n = k",
                LINEAR_ALGEBRA, float(ratio(pair)[0]), 1 / (1 + 1e-3) - slack, ">=",
            ),
            Check(
                "the same for 1/2: one class that overlaps two others by 1e-3, n != k",
                LINEAR_ALGEBRA, float(corner[0]), 0.5 / (1 + np.sqrt(2) * 1e-3) - slack, ">=",
            ),
            Check("wrong theory: |lambda_1|^3/(1-|lambda_1|), ratio", LINEAR_ALGEBRA, cubes, 1 + slack, role="control"),
            Check(
                "wrong theory: half the bound for all n, k, ratio",
                LINEAR_ALGEBRA, max(worst.values()), 0.5 + slack, role="control",
            ),
            Check(
                "wrong theory (F18): E' with the sign of appendix D.1, ratio",
                LINEAR_ALGEBRA,
                max(float((np.abs(-e_prime(E) - E).max(axis=(1, 2)) * (1 - r) / r**2)[0]) for E in (overlap(pair),)),
                1 + slack,
                role="control",
            ),
        ],
        conclusion="E' - E = -(I+E)^{-1} E^2. The constant is reached on the diagonal as |lambda_1| -> 0 "
        f"(largest ratio seen {max(worst.values()):.5f}); off it half is enough, since (I+E)^{{-1}} E^2 is "
        f"semi-definite (largest {max(halves.values()):.5f}). {tried + more:,} instances.",
        picture=Picture(
            "|lambda_1|", "|E' - E| (1-|lambda_1|)/|lambda_1|^2",
            (
                Picture.line("bound", spectral_norm(E), np.ones(r.size), "bound"),
                Picture.line("two classes, n = k", r, ratio(pair), "simulation"),
                Picture.line("own bound for n != k", spectral_norm(E), np.full(r.size, 0.5), "bound"),
                Picture.line("one class overlaps two, n != k", spectral_norm(E), corner, "simulation"),
            ),
        ),
        seeds=(17, 171),
        tried=tried + more,
    )  # fmt: skip
