"""After a rejection: what may be stated wrongly with the trace, by fits of the few alternatives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.finite_length import ExpansionWarning, FiniteLengthMeanField
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.validation.fitting.answer import Answer, Minimum, answer_of, least, minima_of, square_of
from snapdyn.validation.fitting.bootstrap import LEVEL
from snapdyn.validation.fitting.problem import Problem, records_of, starts_of
from snapdyn.validation.fitting.theories import ClassTheory

MOMENTA, LENGTHS = (0.0, 0.5, 0.9), (10, 30, 100, 300, math.inf)
MOST_SWAPPED = 5  # classes whose order is tried
MOST_JUDGED = 3  # alternatives that are simulated, the closest first
START_TOLERANCE = 0.1  # distance of the start, as a share of the change, above which it is named


def after_rejection(problem: Problem, answer: Answer) -> list[str]:
    """What may be stated wrongly with a trace that is not described, or whose length is unknown."""
    theory = problem.theory
    if not isinstance(theory, ClassTheory) or (answer.test.p_value >= LEVEL and problem.knows_length):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExpansionWarning)
        return [*_wrong_start(problem, answer), *_closest_alternative(problem, answer)]


def _wrong_start(problem: Problem, answer: Answer) -> list[str]:
    """A sentence on a trace that does not start where the theory does."""
    if problem.at_zero is None:
        return []
    start = problem.theory.start(answer.x)
    changed = np.abs(problem.mean - problem.at_zero[problem.records.column]).max()
    off = np.abs(problem.at_zero - start).max() / max(changed, np.abs(answer.expected - start).max())
    if off <= START_TOLERANCE:
        return []
    return [
        f"the trace starts {off:.2g} times the change away from the start of this theory; check the probabilities P, "
        "the vocabulary and the start of the training (z_initial)"
    ]


def _closest_alternative(problem: Problem, answer: Answer) -> list[str]:
    """A sentence on the alternative that comes closest, after a fit of it that is judged as the first one."""
    nothing, tried = np.zeros_like(answer.expected), {}
    for words, other in _alternatives(problem, answer):
        try:
            near = answer.x if other.starts is problem.starts else minima_of(other)[0].x
            x, _ = least(other, 1.0 / answer.test.s, nothing, near)
            residuals = other.mean - other.records.flat(other.theory.curves(x))
        except (InputError, RuntimeError):
            continue
        tried[words] = square_of(residuals / answer.test.s), other, x
    if not tried:
        return []
    listed = f"(tried: {', '.join(tried)})"
    own = square_of((problem.mean - problem.records.flat(answer.expected)) / answer.test.s)
    closer = sorted((words for words in tried if tried[words][0] < own), key=lambda words: tried[words][0])
    said: list[str] = []
    for words in closer[:MOST_JUDGED]:
        square, other, x = tried[words]
        try:
            found = answer_of(other, [Minimum(square, x, False)], None)
        except RuntimeError:  # of runs that diverge
            continue
        p = f"p = {found.test.p_value:.2g}, {other.theory.in_words(found.x)}"
        if found.test.p_value >= LEVEL:
            return [f"with {words} the theory describes the trace ({p}) {listed}"]
        said = said or [f"with {words} the theory comes closest, and is rejected too ({p}) {listed}"]
    return said or [f"no alternative comes closer {listed}"]


def _alternatives(problem: Problem, answer: Answer) -> Iterator[tuple[str, Problem]]:
    """What may be stated wrongly with a trace: length, rule, momentum, schedule, unit of entropy, order of classes."""
    theory = problem.theory
    assert isinstance(theory, ClassTheory)
    multiplier = theory.clock.multiplier

    def searched(other: Problem) -> Problem:
        """The problem with starts of its own: its rates are far from those of the rejected fit."""
        given = theory.values(answer.x)
        kept = {name: value for name, value in given.items() if name in theory.fixed or name not in ("eta_Y", "eta_Z")}
        return replace(other, starts=starts_of(other, kept))

    if (
        theory.system in (MeanField, FiniteLengthMeanField)
        and "common_probability" not in theory.free
        and not theory.clock.has_rule
    ):
        for length in LENGTHS:
            finite = None if math.isinf(length) else int(length)
            if finite != theory.seq_len:
                system = MeanField if finite is None else FiniteLengthMeanField
                words = "infinitely long sequences" if finite is None else f"sequences of {finite} tokens"
                yield words, replace(problem, theory=replace(theory, system=system, seq_len=finite))
    if theory.knows_steps and problem.knows_length and theory.system in (MeanField, FiniteLengthMeanField):
        rule, words = ("sgd", "gradient descent") if theory.clock.has_rule else ("adam", "Adam")
        system = FiniteLengthMeanField if theory.clock.has_rule and theory.seq_len else MeanField
        changed = {
            "optimizer": rule,
            "momentum": 0.0,
            "schedule": theory.clock.schedule if multiplier is None else None,
        }
        yield words, searched(_with_clock(replace(problem, theory=replace(theory, system=system)), **changed))
    if theory.knows_steps and problem.knows_length and not theory.clock.has_rule:
        for momentum in MOMENTA:
            if momentum != theory.clock.momentum:
                yield f"momentum {momentum:g}", _with_clock(problem, momentum=momentum)
        if multiplier is None:
            yield "constant rates", _with_clock(problem, schedule=None)
        else:
            last = int(theory.updates[-1])
            falling = {
                "rates that fall linearly to 0": np.linspace(1.0, 0.0, last + 1)[:-1],
                "rates that fall to 0 as a cosine": 0.5 + 0.5 * np.cos(np.pi * np.arange(last) / last),
            }
            for words, multipliers in falling.items():
                yield words, _with_clock(problem, schedule=multiplier * multipliers)
    if theory.quantity in ("loss", "entropy"):
        yield "bits in place of nats", searched(_with_values(problem, problem.values * math.log(2.0)))
    columns = problem.values.shape[2]
    if theory.quantity == "entropy" and columns <= MOST_SWAPPED:
        for a, b in combinations(range(columns), 2):
            order = np.arange(columns)
            order[[a, b]] = b, a
            yield f"classes {a} and {b} exchanged", searched(_with_values(problem, problem.values[:, :, order]))


def _with_values(problem: Problem, values: Floats) -> Problem:
    """The problem with other recorded values."""
    return replace(problem, values=values, records=records_of(values, problem.theory.t))


def _with_clock(problem: Problem, **changed: Any) -> Problem:
    """The problem with another momentum, rule or schedule of the trace."""
    theory = problem.theory
    assert isinstance(theory, ClassTheory)
    clock = replace(theory.clock, **changed)
    t = clock.to_time(theory.updates * clock.sequences_per_step)
    return _with_values(replace(problem, theory=replace(theory, clock=clock, t=t)), problem.values)
