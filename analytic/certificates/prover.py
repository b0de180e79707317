"""Proofs of inequalities on boxes by branch and bound with Arb balls (python-flint), and statements made of them.

A ball encloses every value that an expression takes on a sub-box, rounding included. Where the ball of a margin is
positive, the inequality is proved on the sub-box; where it is negative, the inequality is false on the sub-box;
otherwise the sub-box is halved.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx

from snapdyn.core.errors import InputError

Ball = Any
"""flint.arb: an interval of real numbers, given by midpoint and radius."""
Box = Mapping[str, tuple[float, float]]
"""Lower and upper end of each coordinate, by name."""

# Balls hold differences such as exp(u) - 1 - u at u = 1e-15, of 5e-31, and lambda of 1e30: 192 bits are 57 digits.
PRECISION = 192
# A sub-box narrower than this in every coordinate, relative to its size, is not halved again.
NARROWEST = 1e-12


@dataclass(frozen=True)
class Inequality:
    """An inequality ``margin > 0`` on a box.

    Parameters
    ----------
    text : str
        The inequality in plain text.
    margin : callable
        Function of the coordinates, which it receives by name and as balls; positive where the inequality is true.
    box : mapping of str to (float, float)
        Range of each coordinate; a range with a positive lower end is halved on the logarithmic scale.
    where : callable, optional
        Function of the same coordinates: the inequality is stated only where this function is >= 0. Default: on the
        whole box.
    """

    text: str
    margin: Callable[..., Ball]
    box: Box
    where: Callable[..., Ball] | None = None


@dataclass(frozen=True)
class Proof:
    """What the prover found about one inequality.

    Attributes
    ----------
    text : str
        The inequality.
    box : mapping of str to (float, float)
        The box.
    proved : bool
        True if the inequality is proved on the whole box.
    false_there : bool
        True if the inequality is false everywhere on `failing`; False if it is proved or is undecided on `failing`.
    boxes : int
        Number of sub-boxes on which the margin was evaluated.
    lower_bound : float
        A lower bound of the margin over the box if proved, else over `failing` (minus infinity if it has none).
    failing : dict or None
        The sub-box on which the inequality is false, or the worst undecided one; None if it is proved.
    """

    text: str
    box: Box
    proved: bool
    false_there: bool
    boxes: int
    lower_bound: float
    failing: dict[str, tuple[float, float]] | None

    def __str__(self) -> str:
        """Return the result in one sentence."""
        if self.failing is None:
            return f"proved on {_described(self.box)}: {self.text} ({self.boxes} sub-boxes)"
        verdict = "false" if self.false_there else "undecided"
        return f"not proved: {self.text}; {verdict} on the sub-box {_described(self.failing)} ({self.boxes} sub-boxes)"


def prove(inequality: Inequality, max_boxes: int = 100_000) -> Proof:
    """Prove an inequality on its box, or find a sub-box where it fails.

    Parameters
    ----------
    inequality : Inequality
        The inequality and its box.
    max_boxes : int
        Largest number of sub-boxes to evaluate.

    Returns
    -------
    Proof
        Either ``proved`` is True, or ``failing`` is a sub-box where the inequality is false (``false_there``), or it is
        the undecided sub-box with the least lower bound: then `max_boxes` is reached or this sub-box is too narrow to
        be halved.

    Raises
    ------
    InputError
        If a range of the box is infinite or empty, or the condition `where` excludes the whole box.

    Notes
    -----
    The sub-box with the least lower bound is taken first, so that a false inequality is refuted soon. The number
    of sub-boxes does not depend on the machine.

    Examples
    --------
    >>> from snapdyn.analytic.certificates import Inequality, prove
    >>> found = prove(Inequality("exp(u) > u", lambda u: u.exp() - u, {"u": (1e-6, 10.0)}))
    >>> found.proved, found.lower_bound > 0
    (True, True)
    >>> print(prove(Inequality("exp(u) > 3 u", lambda u: u.exp() - 3 * u, {"u": (1.0, 2.0)})))
    not proved: exp(u) > 3 u; false on the sub-box u in [1.125, 1.1875] (14 sub-boxes)
    """
    for name, (low, high) in inequality.box.items():
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise InputError(f"expected a finite range for {name}, received [{low:g}, {high:g}]; give low <= high")

    def ball(low: float, high: float) -> Ball:
        return arb(low) if low == high else arb(low).union(arb(high))

    with ctx.workprec(PRECISION):
        open_boxes: list[tuple[float, int, Box]] = []
        lowest, evaluated = math.inf, 0
        found: list[Box] = [inequality.box]
        while True:
            for ranges in found:
                coordinates = {name: ball(*ends) for name, ends in ranges.items()}
                condition = None if inequality.where is None else inequality.where(**coordinates)
                if condition is not None and condition < 0:
                    continue
                evaluated += 1
                margin = inequality.margin(**coordinates)
                lower = float(margin.lower()) if margin.is_finite() else -math.inf
                if margin > 0:
                    # Rounding to a float must not raise the bound.
                    lowest = min(lowest, math.nextafter(lower, -math.inf))
                elif margin < 0 and (condition is None or condition >= 0):
                    return Proof(inequality.text, inequality.box, False, True, evaluated, lower, dict(ranges))
                else:
                    heapq.heappush(open_boxes, (lower, evaluated, ranges))
            if not open_boxes and not evaluated:
                raise InputError(
                    f"expected a condition that holds somewhere on {_described(inequality.box)}, received one that "
                    "holds nowhere on it; widen the box"
                )
            if not open_boxes:
                return Proof(inequality.text, inequality.box, True, False, evaluated, lowest, None)
            lower, _, worst = heapq.heappop(open_boxes)
            found = _halves(worst) if evaluated < max_boxes else []
            if not found:
                return Proof(inequality.text, inequality.box, False, False, evaluated, lower, dict(worst))


def _halves(ranges: Box) -> list[Box]:
    """Return both halves of the box along its relatively widest range; no box if all ranges are too narrow."""
    widest = max(ranges, key=lambda name: _width(*ranges[name]))
    low, high = ranges[widest]
    if _width(low, high) < NARROWEST:
        return []
    middle = math.sqrt(low) * math.sqrt(high) if low > 0 and high > 4 * low else (low + high) / 2
    return [{**ranges, widest: half} for half in ((low, middle), (middle, high))]


def _width(low: float, high: float) -> float:
    """Return the relative width ln(high/low) of a positive range, and the width high - low of any other."""
    return math.log(high / low) if low > 0 else high - low


def _described(box: Box) -> str:
    return ", ".join(f"{name} in [{low:.7g}, {high:.7g}]" for name, (low, high) in box.items()) or "a point"


def expm1_ratio(u: Ball) -> Ball:
    """Return (exp(u) - 1)/u, the integral of exp(u t) over t in [0, 1]."""
    return _increasing(lambda end: end.expm1() / end, u, 1)


def expm1_excess(u: Ball) -> Ball:
    """Return (exp(u) - 1 - u)/u^2, the integral of (1 - t) exp(u t) over t in [0, 1]."""
    return _increasing(lambda end: (end.expm1() - end) / end**2, u, 2)


def exp_moment(u: Ball) -> Ball:
    """Return (u exp(u) - exp(u) + 1)/u^2, the integral of t exp(u t) over t in [0, 1]."""
    return _increasing(lambda end: (end * end.exp() - end.expm1()) / end**2, u, 2)


def _increasing(function: Callable[[Ball], Ball], u: Ball, inverse_at_0: int) -> Ball:
    def value(end: Ball) -> Ball:
        # At 0 itself the quotient is 0/0; its limit is 1 or 1/2.
        return function(end) if end != 0 else 1 / (0 * end + inverse_at_0)

    return value(u.lower()).union(value(u.upper()))


@dataclass(frozen=True)
class Statement:
    """A statement on a box that interval proofs can certify.

    Parameters
    ----------
    id : str
        Unique name.
    title : str
        One line.
    source : str
        Equation or lemma of arXiv 2305.16380v4; "own" for a result that is not in the paper.
    words : str
        The statement in words, with its conditions.
    latex : str
        The statement as LaTeX mathematics, without delimiters.
    box : mapping of str to (float, float)
        Ranges of the quantities that `words` names.
    reduction : str
        How the statement follows from the inequalities.
    inequalities : tuple of Inequality
        Inequalities that together prove the statement.
    wrong : tuple of Inequality
        Plausible but false statements about the same quantities (negative controls).
    """

    id: str
    title: str
    source: str
    words: str
    latex: str
    box: dict[str, tuple[float, float]]
    reduction: str
    inequalities: tuple[Inequality, ...]
    wrong: tuple[Inequality, ...]

    def run(self, max_boxes: int = 100_000) -> Certificate:
        """Prove every inequality of the statement.

        Parameters
        ----------
        max_boxes : int
            Largest number of sub-boxes for each inequality.

        Returns
        -------
        Certificate

        Examples
        --------
        >>> from snapdyn.analytic.certificates import CERTIFICATES
        >>> certificate = CERTIFICATES["gamma-single-maximum"].run()
        >>> certificate.proved, certificate.failing
        (True, None)
        """
        return Certificate(self, tuple(prove(inequality, max_boxes) for inequality in self.inequalities))


@dataclass(frozen=True)
class Certificate:
    """The result of running a statement's proofs.

    Attributes
    ----------
    statement : Statement
        What was to be proved.
    proofs : tuple of Proof
        One result per inequality.
    """

    statement: Statement
    proofs: tuple[Proof, ...]

    @property
    def proved(self) -> bool:
        """True if every inequality is proved on its whole box."""
        return self.failing is None

    @property
    def boxes(self) -> int:
        """Number of sub-boxes, summed over the inequalities."""
        return sum(proof.boxes for proof in self.proofs)

    @property
    def failing(self) -> Proof | None:
        """The first proof that failed; its ``failing`` is the sub-box. None if all are proved."""
        return next((proof for proof in self.proofs if not proof.proved), None)

    def __str__(self) -> str:
        """Return the result in one sentence."""
        if self.failing is not None:
            return f"{self.statement.id}: {self.failing}"
        return f"{self.statement.id}: certified on {self.boxes} sub-boxes of {len(self.proofs)} inequalities"
