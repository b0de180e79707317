"""Linear conserved quantities of a system, found from its rate and then proved in sympy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from snapdyn.core.errors import InputError, instance, whole
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.own.symbolic import SymbolicSystem

if TYPE_CHECKING:
    import sympy

SEED = 20131220
NULL = 1e-10  # singular values below this share of the largest one count as 0
ROUNDING = 1e-7  # of coefficients that are recognised as fractions
LARGEST_DENOMINATOR = 1000
MOST_VALUES = 2000  # of the state: the null space costs their third power
PROVED, AT_PARAMETERS, MEASURED = "proved", "proved at these parameters", "measured"


@dataclass(frozen=True)
class LinearConserved:
    """A sum of state values with constant coefficients that the flow keeps.

    Attributes
    ----------
    coefficients : (size,) array
        In the order of the state; the first one that is not 0 is 1.
    expression : str
        The sum, written with the names of the state values.
    grade : str
        "proved": sympy shows that its rate is 0 identically for all parameters. "proved at these parameters": the same,
        but for the parameter values of the system only. "measured": its rate is 0 to rounding at sampled states; no
        proof was found, or the system has no expressions.
    largest_rate : float
        Largest abs(rate of the sum) over sampled states that were not used to find it, relative to the sum of the
        absolute values of its terms.
    """

    coefficients: Floats
    expression: str
    grade: str
    largest_rate: float


def linear_conserved(system: System, seed: int = SEED) -> list[LinearConserved]:
    """Find linear combinations of state values that the flow conserves.

    The coefficients c with c . rate = 0 are the null space of the matrix of rates at sampled states, which are drawn
    around the start (and at sampled times, for a rate that depends on time). So sums that are conserved only near the
    start are found too; sums whose coefficients differ by a factor of 1e7 or more are not. For a system of
    `System.from_sympy` each sum is then proved, if sympy simplifies c . rate to 0.

    Parameters
    ----------
    system : System
        Any system with at most 2000 state values.
    seed : int
        Seed of the sampled states.

    Returns
    -------
    list of LinearConserved
        A basis, in reduced echelon form: each sum contains a state value that the other sums do not.

    Raises
    ------
    InputError
        No system, too many state values, or a rate that is not finite around the start.

    Examples
    --------
    >>> import snapdyn as sd, sympy
    >>> x, y, k = sympy.symbols("x y k")
    >>> reaction = sd.System.from_sympy("Reaction", {x: 1.0, y: 0.0}, {x: -k * x * y, y: k * x * y}, {k: 2.0})
    >>> [(found.expression, found.grade) for found in sd.linear_conserved(reaction)]
    [('x + y', 'proved')]
    """
    instance("system", system, System, "make it with System.from_sympy")
    whole("the number of state values", system.size, 1, MOST_VALUES, "take a smaller instance")
    rng = np.random.default_rng(whole("seed", seed, 0))
    rates = _rates(system, rng, 2 * system.size + 20)
    fresh = _rates(system, rng, system.size + 20)
    found = []
    for row in _null_space(rates):
        recognised, exact = _recognised(row)
        largest = _largest_rate(fresh, recognised)
        if exact is not None and largest > 1e-12 + 10 * _largest_rate(fresh, row):
            recognised, exact, largest = row, None, _largest_rate(fresh, row)  # close to a fraction, and none
        if largest > np.sqrt(NULL):
            continue  # of the states that found it, not of the flow
        grade = _grade(system, exact) if isinstance(system, SymbolicSystem) and exact is not None else MEASURED
        found.append(LinearConserved(recognised, _text(system, recognised, exact), grade, largest))
    return found


def _largest_rate(rates: Floats, row: Floats) -> float:
    """Largest absolute rate of the sum, divided by the sum of the absolute values of its terms."""
    terms = rates * row
    scale = np.abs(terms).sum(axis=1)
    return float(np.max(np.abs(terms.sum(axis=1)) / np.where(scale > 0, scale, 1.0)))


def _rates(system: System, rng: np.random.Generator, count: int) -> Floats:
    """Rates (count, size) at random states: half are the start plus random numbers, half the start times factors."""
    start = system.initial_state()
    rows: list[Floats] = []
    for trial in range(20 * count):
        noise = rng.normal(size=start.size)
        scaled = start * np.exp(0.5 * noise)
        state = start + 0.5 * noise if trial % 2 else np.where(start == 0.0, 0.5 * noise, scaled)
        with np.errstate(all="ignore"):
            rate = system.derivative(float(rng.exponential(2.0)), state)
        if np.isfinite(rate).all():
            rows.append(rate)
        if len(rows) == count:
            return np.array(rows)
    raise InputError(
        f"expected a rate that is finite around the start, received {len(rows)} finite ones at {20 * count} states; "
        "choose another start"
    )


def _null_space(rates: Floats) -> Floats:
    """Basis of the coefficients c with rates @ c = 0, one per row, in reduced echelon form."""
    from scipy.linalg import null_space

    size = np.abs(rates).max(axis=0)
    size[size == 0.0] = 1.0
    scaled = rates / size
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    basis = null_space(scaled / np.where(norms > 0, norms, 1.0), rcond=NULL).T / size
    row = 0
    for column in range(basis.shape[1]):
        if row == len(basis):
            break
        basis /= np.abs(basis).max(axis=1, keepdims=True)
        pivot = row + int(np.argmax(np.abs(basis[row:, column])))
        if abs(basis[pivot, column]) < ROUNDING:
            continue
        basis[[row, pivot]] = basis[[pivot, row]]
        basis[row] /= basis[row, column]
        others = np.arange(len(basis)) != row
        basis[others] -= np.outer(basis[others, column], basis[row])
        row += 1
    for i, each in enumerate(basis):
        basis[i] = each / each[np.flatnonzero(np.abs(each) > ROUNDING)[0]]
    return basis


def _recognised(row: Floats) -> tuple[Floats, list[Fraction] | None]:
    """Coefficients rounded to simple fractions, and the fractions; (`row`, None) if an entry is near no fraction."""
    exact = [Fraction(float(each)).limit_denominator(LARGEST_DENOMINATOR) for each in row]
    rounded = np.array([float(each) for each in exact])
    if np.abs(rounded - row).max() > ROUNDING * max(1.0, np.abs(row).max()):
        return np.where(np.abs(row) > ROUNDING, row, 0.0), None
    return rounded, exact


def _text(system: System, row: Floats, exact: list[Fraction] | None) -> str:
    terms = []
    for i in np.flatnonzero(row):
        factor = f"{row[i]:.6g}" if exact is None else str(exact[i])
        terms.append({"1": "", "-1": "-"}.get(factor, f"{factor} ") + system.value_name(int(i)))
    return " + ".join(terms).replace("+ -", "- ")


def _grade(system: SymbolicSystem, coefficients: list[Fraction]) -> str:
    import sympy

    theory = system.theory
    rate = sympy.Add(*(c * each for c, each in zip(coefficients, theory.rate, strict=True)))
    if vanishes(rate):
        return PROVED
    values = [Fraction(float(each)).limit_denominator(10**9) for each in system.parameter_values]
    if not np.array_equal([float(each) for each in values], system.parameter_values):
        return MEASURED
    here = dict(zip(theory.parameters, map(sympy.Rational, values), strict=True))
    return AT_PARAMETERS if vanishes(rate.xreplace(here)) else MEASURED


def vanishes(expression: sympy.Expr) -> bool:
    """Whether sympy shows that an expression is 0 identically; exponentials and roots count as further variables.

    False says that no proof was found.
    """
    import sympy
    from sympy.functions.elementary.hyperbolic import HyperbolicFunction
    from sympy.functions.elementary.trigonometric import TrigonometricFunction

    periodic = TrigonometricFunction, HyperbolicFunction
    plain = sympy.sympify(expression).replace(
        lambda each: isinstance(each, periodic), lambda each: each.rewrite(sympy.exp)
    )
    try:
        return bool(sympy.cancel(plain) == 0)
    except sympy.PolynomialError:  # such as that of functions that are defined piece by piece
        return False
