"""What a fit of sequence classes estimates, and the quantities that it compares."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError, choice, list_of, positive
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.dynamics.trajectories.trajectory import Trajectory

QUANTITIES = ("attention", "entropy", "loss")
# Numbers with at least so many digits are taken as they are; how many numbers are read to find out.
MOST_DIGITS, MOST_READ, SEED = 10, 4000, 5
FREE = ("eta_Y", "eta_Z", "clock", "common_probability")


def checked_free(free: Any) -> tuple[str, ...]:
    names = (free,) if isinstance(free, str) else tuple(free) if isinstance(free, (list, tuple)) else ()
    for name in names:
        choice("each entry of free", name, FREE)
    list_of("free", names, str, at_least=1, different=True)
    if {"eta_Y", "eta_Z", "clock"} <= set(names):
        raise InputError(
            "expected at most two of eta_Y, eta_Z and clock free, received all three, which are exactly degenerate: "
            "rates twice as large and a clock half as fast give the same trace; fix one of them"
        )
    return names


def fixed_and_start(
    names: tuple[str, ...],
    eta_Y: float | None,
    eta_Z: float | None,
    classes: SequenceClasses,
) -> tuple[dict[str, float], dict[str, float]]:
    """Values of the parameters that are not free, and the starts that are given or need no search."""
    fixed: dict[str, float] = {}
    start: dict[str, float] = {}
    for name, value in (("eta_Y", eta_Y), ("eta_Z", eta_Z)):
        if value is not None:
            (start if name in names else fixed)[name] = positive(name, value)
        elif name not in names:
            raise InputError(f"expected {name} free or given, received neither; add it to free, or give {name}=...")
    if "clock" in names:
        start["clock"] = 1.0
    if "common_probability" in names:
        share = common_share(classes)
        if (share <= 0).any() or (share >= 1).any():
            raise InputError(
                "expected common and distinct tokens in every class where common_probability is free, received class "
                f"{int(((share <= 0) | (share >= 1)).argmax())} with tokens of one kind; leave it out of free"
            )
        if np.ptp(share) > 1e-6:
            raise InputError(
                "expected the same probability of common tokens in every class where common_probability is free, "
                f"received {share.min():.4g} to {share.max():.4g}; leave it out of free"
            )
        start["common_probability"] = float(share.mean())
    return fixed, start


def chosen_quantity(trace: Trace, quantity: str | None) -> str:
    """Return the quantity to fit: the one asked for, or the first that the trace has."""
    has = [name for name in QUANTITIES if getattr(trace, name) is not None]
    if quantity is None:
        return has[0]
    choice("quantity", quantity, QUANTITIES)
    if quantity not in has:
        raise InputError(f"expected a trace with {quantity}, received one with {', '.join(has)}; fit one of these")
    return quantity


def centred(classes: SequenceClasses, entries: Floats) -> Floats:
    """Values on the entries of P, (..., nnz), minus their mean over each class."""
    starts, lengths = classes.P.indptr[:-1], np.diff(classes.P.indptr)
    means = np.add.reduceat(entries, starts, axis=-1) / lengths
    return entries - np.repeat(means, lengths, axis=-1)


def of_trace(trace: Trace, classes: SequenceClasses, quantity: str) -> Floats:
    """Observations (R, N, m): ln attention minus its mean over each class, entropy or loss; NaN if not recorded.

    ln c_n[l] is ln P(l|n) + z_l minus a number that depends only on the class, so the centred logarithm is linear in z.
    """
    values: Floats = getattr(trace, quantity)
    if quantity != "attention":
        return values.reshape(*values.shape[:2], -1)
    c = values[..., classes.class_of_entry, classes.P.indices]
    if (c <= 0).any():
        seed, step, entry = np.unravel_index(np.nan_to_num(c, nan=1.0).argmin(), c.shape)
        raise InputError(
            f"expected attention above 0 to every token of a class, received {c[seed, step, entry]:g} for class "
            f"{classes.class_of_entry[entry]}, token {classes.P.indices[entry]}; write more digits, or fit quantity="
            "'entropy'"
        )
    return centred(classes, np.log(c))


class Digits(NamedTuple):
    """With how many digits a trace was written: `decimals` after the point, `significant` ones, or in 32 bits."""

    decimals: int | None
    significant: int | None
    single: bool

    @classmethod
    def of(cls, values: Floats) -> Digits:
        """The digits of recorded values, from the first few thousand of them."""
        values = values[np.isfinite(values) & (values != 0)][:MOST_READ]
        numbers = [Decimal(repr(float(value))).normalize().as_tuple() for value in values]
        decimals = max((-int(number.exponent) for number in numbers), default=MOST_DIGITS)
        significant = max((len(number.digits) for number in numbers), default=MOST_DIGITS)
        if decimals < MOST_DIGITS:
            return cls(max(decimals, 0), None, False)
        if significant < MOST_DIGITS:
            return cls(None, significant, False)
        return cls(None, None, bool((values.astype(np.float32) == values).all()))

    def unit(self, values: Floats) -> Floats:
        """The last digit of values as a trace with these digits has them; 0 where it has all."""
        if self.decimals is not None:
            return np.full_like(values, 10.0**-self.decimals)
        size = np.maximum(np.abs(values), np.finfo(float).tiny)
        if self.significant is not None:
            return 10.0 ** (np.floor(np.log10(size)) + 1 - self.significant)
        return 2.0 ** (np.floor(np.log2(size)) - 23) if self.single else np.zeros_like(values)


def of_run(run: Trajectory, quantity: str) -> Floats:
    """Observations of a trajectory, as `of_trace` computes them, (N, m)."""
    return _observed(run, quantity, OBSERVABLES[quantity].values_on_support(run))


def rounding(run: Trajectory, quantity: str, digits: Digits, draws: int) -> Floats:
    """What rounding to the digits of a trace adds to the observations, drawn at random, (draws, N, m)."""
    values = OBSERVABLES[quantity].values_on_support(run)
    unit, rng = digits.unit(values), np.random.default_rng(SEED)
    if not unit.any():
        return np.zeros((1, 1, 1))
    moved = (np.maximum(values + unit * rng.uniform(-0.5, 0.5, values.shape), 0.1 * unit) for _ in range(draws))
    return np.array([_observed(run, quantity, each) for each in moved]) - _observed(run, quantity, values)


def _observed(run: Trajectory, quantity: str, values: Floats) -> Floats:
    values = centred(run.require_classes(), np.log(values)) if quantity == "attention" else values
    return values.reshape(len(values), -1)


def value_name(classes: SequenceClasses, quantity: str, column: int) -> str:
    """The name of a column of the observations."""
    if quantity == "attention":
        return f"attention of class {classes.class_of_entry[column]} to token {classes.P.indices[column]}"
    return f"entropy of class {column}" if quantity == "entropy" else quantity


def common_share(classes: SequenceClasses) -> Floats:
    """Probability of all common tokens in each class, (S,)."""
    return np.add.reduceat(np.where(_common(classes), classes.P.data, 0.0), classes.P.indptr[:-1])


def _common(classes: SequenceClasses) -> NDArray[np.bool_]:
    """Whether the token of an entry of P is a common one."""
    return classes.omega_size[classes.P.indices] > 1


def with_common_probability(classes: SequenceClasses, share: float) -> SequenceClasses:
    """Return the classes with another probability of common tokens, the same in every class."""
    before = common_share(classes)[classes.class_of_entry]
    P = classes.P.copy()
    P.data = classes.P.data * np.where(_common(classes), share / before, (1.0 - share) / (1.0 - before))
    return SequenceClasses(P, classes.query, classes.next_token, classes.prior, classes.vocab_size)
