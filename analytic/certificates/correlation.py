"""Certificates for xi_n > 0, Theorem 1(a), for uniform classes and with the sign of Eq. (88) corrected.

Elimination of class n gives xi_n/(gamma q1) = (G^-1)_nn e^T y with y = G_n^-1 (e + 1/(V-1)) and q1 = V/(V-1). Here G is
the Gram matrix of the attention vectors, e are the overlaps of class n, G_n = I + A is the Gram matrix of the other
classes, and 1 is a vector of ones where a vector is needed (derivation ``xi-eliminated``). Since e^T G_n^-1 e > 0, it
suffices that G_n^-1 1 >= 0. Neumann's series in pairs gives (I+A)^-1 1 = (sum of A^2k) (1 - A 1) (derivation
``neumann-pairs``), which is >= 0 where the row sums of A are at most 1. A row of K-2 overlaps has at most the norm
|lambda_1|, so its sum is at most sqrt(K-2) |lambda_1|. For K = 4 the closed form of G_n^-1 1 is certified without the
series. For larger K the certificate covers only the family of classes that attains the limit 1/sqrt(K-2) of |lambda_1|.
"""

from __future__ import annotations

import math

from snapdyn.analytic.certificates.prover import Ball, Inequality, Statement


def _row(radius: Ball, angle: Ball, opposite: Ball) -> Ball:
    """Return (G_n^-1 1)_1 det G_n/(1-c) = 1 + c - a - b; classes 1, 2 overlap by a, 1, 3 by b, and 2, 3 by c."""
    return 1 + opposite - radius * (angle.cos() + angle.sin())


def _four_classes(largest: float) -> dict[str, tuple[float, float]]:
    """Return the box of a = radius cos(angle), b = radius sin(angle) and c, with radius <= |lambda_1| = `largest`."""
    return {"radius": (0.0, largest), "angle": (0.0, math.nextafter(math.pi / 2, 2.0)), "opposite": (0.0, 1.0)}


xi_positive_4 = Statement(
    id="xi-positive-4",
    title="xi_n > 0 for four classes",
    source="Theorem 1(a), Eqs. (86)-(93), sign of (88) corrected",
    words="For K = 4 uniform classes with |lambda_1(E)| <= 0.999/sqrt(2) and every V >= 4, xi_n > 0 for each class "
    "that overlaps another. (At 1/sqrt(2) itself the margin vanishes; the series of `neumann-pairs` includes that "
    "value.)",
    latex=r"K=4,\ |\lambda_1(E)|\le\frac{0.999}{\sqrt2}:\quad(G_{-n}^{-1}\mathbf{1})_1\,\det G_{-n}=(1-c)(1+c-a-b)>0",
    box={"|lambda_1|": (0.0, 0.999 / math.sqrt(2))},
    reduction="In G_n class 1 overlaps the other two by a and b, and these overlap by c. (G_n^-1 1)_1 det G_n = "
    "(1-c)(1+c-a-b), and the other entries follow by symmetry. A principal submatrix of E has no larger norm than E, "
    "hence a^2 + b^2 <= |lambda_1|^2, c < 1 and det G_n > 0.",
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
    """Return (G_n^-1 1)_1; class 1 overlaps each of `others` = K - 2 mutually orthogonal classes by ratio/others."""
    return (1 - ratio) / (1 - ratio**2 / others)


xi_positive_star = Statement(
    id="xi-positive-star",
    title="The limit 1/sqrt(K-2) of |lambda_1| for xi_n > 0, on the classes that attain it",
    source="own; Theorem 1(a)",
    words="For K in [4, 1e6] classes: one of them overlaps K-2 others equally, these K-2 do not overlap each other, "
    "and class n overlaps the first one a little. Then the leading order of xi_n in the overlap of class n is positive "
    "for 0 < |lambda_1| <= 0.999/sqrt(K-2).",
    latex=r"(G_{-n}^{-1}\mathbf{1})_1=\frac{1-q}{1-q^2/(K-2)}>0,\qquad q=\sqrt{K-2}\,|\lambda_1|<1",
    box={"K": (4.0, 1e6), "sqrt(K-2) |lambda_1|": (0.0, 0.999)},
    reduction="The overlaps form a star of K-2 edges with the weight q/(K-2), so |lambda_1| = q/sqrt(K-2). G_n^-1 1 "
    "has two different entries, which solve two linear equations.",
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
