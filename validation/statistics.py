"""Standard errors, and orders of convergence: slopes fitted in log-log coordinates, with derived margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, number, positive_array, whole
from snapdyn.dynamics.classes.table import Floats

# A fit decides between orders only if the margin of its slope is below this: neighbouring orders differ by 1/2.
DECISIVE = 0.25
MOST_ORDER = 100  # of the next term: a larger power of x underflows


def standard_error(sample: Floats, axis: int = 0) -> Floats:
    """Return the standard error of the mean of `sample` over `axis`, which needs at least two values."""
    return sample.std(axis=axis, ddof=1) / np.sqrt(sample.shape[axis])


def spread(values: Floats) -> tuple[float, float]:
    """Standard deviation of values (seeds, ...) over the seeds, and its standard error from the scatter of squares.

    Squared deviations are averaged over the other axes.
    """
    count = len(values)
    squares = ((values - values.mean(axis=0)) ** 2).reshape(count, -1).mean(axis=1)
    deviation = np.sqrt(squares.sum() / (count - 1))
    return float(deviation), float(deviation * squares.std() / squares.mean() / np.sqrt(4 * count))


@dataclass(frozen=True)
class Order:
    """Fitted order p of y = C x^p (1 + a x^q).

    Attributes
    ----------
    slope : float
        Slope of ln y against ln x.
    standard_error : float
        Standard error of the slope: from the errors of y where given, else from the scatter about the fitted curve.
    next_order_shift : float
        Contribution of the next term a x^q, fitted to the same data, to the slope; 0 if no q was given.
    shift_error : float
        Standard error of `next_order_shift`.
    next_term : float
        Largest |a| x^q of the data.
    constant : float
        C of the straight line in the logarithms.
    """

    slope: float
    standard_error: float
    next_order_shift: float
    shift_error: float
    next_term: float
    constant: float

    @property
    def corrected(self) -> float:
        """Slope without the contribution of the next term: the estimate of p."""
        return self.slope - self.next_order_shift

    def margin(self, z: float = 3.0) -> float:
        """Largest |corrected slope - p| that is explained by noise and by the terms after the next one.

        It is z standard errors of the slope and of its shift, plus `next_term` times the shift for the omitted terms.
        """
        return z * (self.standard_error + self.shift_error) + abs(self.next_order_shift) * self.next_term

    def agrees(self, expected: float, z: float = 3.0) -> bool:
        """Whether the order is `expected` within the margin, and the margin separates neighbouring orders."""
        return self.margin(z) < DECISIVE and abs(self.corrected - expected) <= self.margin(z)

    def __str__(self) -> str:
        shift = f", next term {self.next_order_shift:+.3f}" if self.next_order_shift else ""
        return f"{self.slope:.3f} ± {self.standard_error:.3f}{shift}"


def fit_order(x: ArrayLike, y: ArrayLike, y_error: ArrayLike | None = None, next_order: float | None = None) -> Order:
    """Fit the order p of y = C x^p (1 + a x^q) by least squares of ln y on ln x.

    Parameters
    ----------
    x : (N,) array
        Small parameter, positive; at least three points (four with `next_order`).
    y : (N,) array
        Measured gap, positive.
    y_error : (N,) array, optional
        Standard errors of y. They are the weights of the points and give the standard error of the slope. Without them
        the standard error follows from the scatter about the fit, which for numbers without noise is the error of the
        fitted form.
    next_order : float, optional
        q, the known relative order of the next term. The fit then includes a, and reports the contribution of a x^q
        to the slope: the effect of x not being infinitely small.

    Returns
    -------
    Order
        The slope with its standard error, and the contribution of the next term to the slope.

    Raises
    ------
    InputError
        If the arrays differ in size or are too small, a number is not positive, or q = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from snapdyn.validation import fit_order
    >>> x = np.array([0.4, 0.2, 0.1, 0.05])
    >>> order = fit_order(x, 3 * x**2 * (1 + 0.1 * x), next_order=1.0)
    >>> order.agrees(2.0), order.agrees(1.5)
    (True, False)
    """
    advice = "give as many of x, y and y_error, and leave out points that are not positive"
    sizes = positive_array("x", x, ("N",), advice=advice)
    gaps = positive_array("y", y, sizes.shape, advice=advice)
    errors = None if y_error is None else positive_array("y_error", y_error, sizes.shape, advice=advice)
    whole("the number of points", sizes.size, 3 if next_order is None else 4, advice="give more points")
    next_order = None if next_order is None else number("next_order", next_order)
    if next_order is not None and not 0 < abs(next_order) < MOST_ORDER:
        raise InputError(
            f"expected next_order q with 0 < |q| < {MOST_ORDER}, received {next_order:g}; give the power of the next "
            "term a x^q"
        )
    weight = np.ones_like(gaps) if errors is None else gaps / errors  # 1/(standard error of ln y)
    line = np.vander(np.log(sizes), 2) * weight[:, None]
    v = np.log(gaps) * weight
    slope, constant = _least_squares(line, v)
    design = line if next_order is None else np.column_stack([line, sizes**next_order * weight])
    fitted = _least_squares(design, v)
    variance = 1.0
    if errors is None:
        residual = v - design @ fitted
        variance = float(residual @ residual) / (v.size - design.shape[1])

    def standard_errors(columns: Floats) -> Floats:
        return np.sqrt(variance * np.diag(np.linalg.inv(columns.T @ columns)))

    shift = shift_error = next_term = 0.0
    if next_order is not None:
        per_unit = float(_least_squares(line, design[:, 2])[0])  # contribution of x^q alone to the slope
        a, a_error = float(fitted[2]), float(standard_errors(design)[2])
        shift, shift_error = a * per_unit, a_error * abs(per_unit)
        next_term = abs(a) * float((sizes**next_order).max())
    return Order(
        slope=float(slope),
        standard_error=float(standard_errors(line)[0]),
        next_order_shift=shift,
        shift_error=shift_error,
        next_term=next_term,
        constant=float(np.exp(constant)),
    )


class Fit(NamedTuple):
    """An order that is fitted: the gap against its small parameter, with its standard errors (None: not random).

    `expected` is the order that theory gives, `next_order` that of the next term (None: there is none). `control` names
    a wrong theory whose gaps at the same parameters are `wrong_gap`: their order must differ.
    """

    name: str
    rung: str
    parameter: Floats
    gap: Floats
    error: Floats | None
    expected: float
    next_order: float | None
    control: str = ""
    wrong_gap: Floats | tuple[()] = ()

    @property
    def order(self) -> Order:
        """Fitted order."""
        return fit_order(self.parameter, self.gap, self.error, next_order=self.next_order)

    @property
    def wrong_order(self) -> float:
        """Fitted order of the wrong theory's gaps."""
        return fit_order(self.parameter, self.wrong_gap).slope

    @property
    def agrees(self) -> bool:
        """Whether the fitted order is the expected one, within a margin that separates neighbouring orders."""
        return self.order.agrees(self.expected)


def _least_squares(design: Floats, v: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(design, v, rcond=None)[0])
