"""Dense algebra: xi_n in rational arithmetic, and the embedding model."""

import numpy as np
import sympy as sp

from snapdyn.dynamics import SequenceClasses
from snapdyn.validation.dense_algebra import Embedding, dense_attention, gradient, growth_over_gamma
from tests.validation.helpers import differences


def test_own_form_of_xi_in_rational_arithmetic() -> None:
    """Assert xi_n/gamma against sum_k beta_nk f_n.f_k from zeta vectors and exact inverses, K = 3, V = 5, any h."""
    V, h = 5, [sp.Rational(1), sp.Rational(3, 2), sp.Rational(1, 4)]
    E = sp.Matrix([[0, "1/3", "1/7"], ["1/3", 0, "2/5"], ["1/7", "2/5", 0]]).applyfunc(sp.Rational)
    zeta = sp.Matrix(3, V, lambda n, j: sp.Rational(V, V - 1) * ((1 if n == j else 0) - sp.Rational(1, V)))
    H = (sp.eye(3) + E).inv()
    expected = []
    for n in range(3):
        # g_n/gamma_n = F G^{-1} W (e_n - alpha_n)/gamma_n, (h_k/h_n) zeta_k . zeta_n for the last factors.
        a = H * sp.Matrix([h[k] / h[n] * zeta.row(k).dot(zeta.row(n)) for k in range(3)])
        expected.append(-sum(a[k] * E[n, k] for k in range(3) if k != n))
    measured = growth_over_gamma(np.array(E, dtype=float)[None], 5.0, np.array([h], dtype=float))[0]
    np.testing.assert_allclose(measured, np.array(expected, dtype=float), rtol=1e-13)


def test_attention_of_large_logits() -> None:
    """Assert attention where exp(z) is no float, also of a token that the class does not have."""
    classes = SequenceClasses([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], [0, 0])
    c, _ = dense_attention(classes, np.array([[900.0, 900.0 + np.log(3), 2000.0]]))
    np.testing.assert_allclose(c, [[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]], rtol=1e-12)


def classes_and_parameters(d: int = 5) -> tuple[SequenceClasses, Embedding]:
    """Three classes of two queries, one of which is a contextual token as well, and random parameters."""
    rng = np.random.default_rng(3)
    classes = SequenceClasses(
        rng.dirichlet(np.ones(6), size=3), query=[4, 6, 4], next_token=[0, 1, 7], prior=[0.2, 0.3, 0.5], vocab_size=8
    )
    return classes, Embedding(*(rng.normal(size=shape) for shape in ((8, d), (d, d), (d, d), (d, d))))


def test_gradient_is_that_of_the_objective() -> None:
    """Assert every derivative against central differences of the objective."""
    classes, at = classes_and_parameters()
    _, found = gradient(classes, at)
    for name, of_objective, value in zip(at._fields, found, at, strict=True):
        slopes = differences(lambda moved, name=name: gradient(classes, at._replace(**{name: moved}))[0], value)
        # step^2 times third derivatives, and rounding over the step.
        np.testing.assert_allclose(slopes, of_objective, atol=1e-7)
