"""Certificates for xi_n > 0 of Theorem 1(a), uniform classes, sign of (88) corrected.

Eliminating class n, xi_n/(gamma q1) = (G^-1)_nn e^T y with y = G_n^-1 (e + 1/(V-1)): e are the overlaps of class n,
G_n = I + A is the Gram matrix of the other classes (derivation ``xi-eliminated``). Since e^T G_n^-1 e > 0, it suffices
that G_n^-1 1 >= 0. By Neumann's series in pairs, (I+A)^-1 1 = (sum of A^2k) (1 - A 1) (derivation ``neumann-pairs``),
which is >= 0 where the row sums of A are at most 1; and a row of K-2 overlaps of norm at most |lambda_1| sums up to at
most sqrt(K-2) |lambda_1|. For K = 4 the closed form is certified without the series, for larger K the family that
attains the limit.
"""

from __future__ import annotations

import math

from snapdyn.analytic.certificates.prover import Ball, Inequality, Statement


def _row(radius: Ball, angle: Ball, opposite: Ball) -> Ball:
    """(G_n^-1 1)_1 det G_n/(1-c) = 1 + c - a - b, a and b the overlaps of class 1, c that of classes 2 and 3."""
    return 1 + opposite - radius * (angle.cos() + angle.sin())


def _four_classes(largest: float) -> dict[str, tuple[float, float]]:
    """a = radius cos(angle), b = radius sin(angle), radius up to |lambda_1| = `largest`."""
    return {"radius": (0.0, largest), "angle": (0.0, math.nextafter(math.pi / 2, 2.0)), "opposite": (0.0, 1.0)}


xi_positive_4 = Statement(
    id="xi-positive-4",
    title="xi_n > 0 for four classes",
    source="Theorem 1(a), Eqs. (86)-(93), sign of (88) corrected",
    words="For K = 4 uniform classes with |lambda_1(E)| <= 0.999/sqrt(2), every V >= 4: xi_n > 0 for each class that "
    "overlaps another. (0.999: at 1 itself the margin vanishes; the series of `neumann-pairs` includes it.)",
    latex=r"K=4,\ |\lambda_1(E)|\le\frac{0.999}{\sqrt2}:\quad(G_{-n}^{-1}\mathbf{1})_1\,\det G_{-n}=(1-c)(1+c-a-b)>0",
    box={"|lambda_1|": (0.0, 0.999 / math.sqrt(2))},
    reduction="G_n has the overlaps a, b of class 1 with the other two, and c between these. (G_n^-1 1)_1 det G_n = "
    "(1-c)(1+c-a-b), the other entries by symmetry; a^2 + b^2 is at most |lambda_1|^2, as a principal submatrix of E "
    "has no larger norm, and so c < 1 and det G_n > 0.",
    inequalities=(Inequality("1 + c - a - b > 0", _row, _four_classes(0.999 / math.sqrt(2))),),
    wrong=(
        Inequality("the same for |lambda_1| up to 1.02/sqrt(2)", _row, _four_classes(1.02 / math.sqrt(2))),
        Inequality(
            "the other sign of (88), E' = (I+E)^-1 - I: 1 - c - a - b > 0",
            lambda radius, angle, opposite: _row(radius, angle, -opposite),
            _four_classes(0.999 / math.sqrt(2)),
        ),
    ),
)


def _star(ratio: Ball, others: Ball) -> Ball:
    """(G_n^-1 1)_1, class 1 overlaps each of the `others` = K - 2 by ratio/others, and these do not overlap."""
    return (1 - ratio) / (1 - ratio**2 / others)


xi_positive_star = Statement(
    id="xi-positive-star",
    title="The limit 1/sqrt(K-2) of |lambda_1| for xi_n > 0, on the classes that attain it",
    source="own; Theorem 1(a)",
    words="For K in [4, 1e6] classes of which one overlaps K-2 others equally, these K-2 do not overlap, and class n "
    "overlaps the first a little: the leading order of xi_n in its overlap is positive for 0 < |lambda_1| <= "
    "0.999/sqrt(K-2).",
    latex=r"(G_{-n}^{-1}\mathbf{1})_1=\frac{1-q}{1-q^2/(K-2)}>0,\qquad q=\sqrt{K-2}\,|\lambda_1|<1",
    box={"K": (4.0, 1e6), "sqrt(K-2) |lambda_1|": (0.0, 0.999)},
    reduction="The star of overlaps q/(K-2) has |lambda_1| = q/sqrt(K-2); two equations give G_n^-1 1.",
    inequalities=(Inequality("(G_n^-1 1)_1 > 0", _star, {"ratio": (0.0, 0.999), "others": (2.0, 1e6 - 2)}),),
    wrong=(
        Inequality(
            "the limit is 1/(K-2)^(1/3)",
            lambda scaled, others: _star(scaled * others.root(6), others),
            {"scaled": (0.0, 0.999), "others": (2.0, 1e6 - 2)},
        ),
    ),
)

STATEMENTS = (xi_positive_4, xi_positive_star)
