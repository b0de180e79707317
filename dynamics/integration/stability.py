"""Whether training stays on the path of a reduced run: the growth of a difference between classes of one kind.

A reduced run keeps those values equal that a permutation exchanges. Training does not: its noise, and rounding in a
full run, make classes of one kind differ, and on an unstable path the difference grows. To measure the growth at any
number of classes, one query of each type is set apart, and in it one class of each kind. This splits the kinds into
finer kinds of exchangeable classes, with a smaller group of permutations. In the quotient by these finer kinds, a
difference v changes along the path y of the run by

    v' = J(y) v - (v . J(y) v) v,   g' = v . J(y) v,

with J the Jacobian of the mean field of the finer kinds at the values that y gives them: |v| stays 1, and exp(g) is the
growth. v(0) is drawn at random, with mean 0 over values that are equal along y. J v is a central difference of the
right-hand side.
"""

from __future__ import annotations

import math

import numpy as np

from snapdyn.core.errors import InputError, positive
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.kinds import NONE, Kinds, Members
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.kernels.law import WORK_ROWS, mean_field
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.quotient import KindsQuotient, quotient_of
from snapdyn.dynamics.systems.reduction import reduced

STEP = 1e-6  # of the central difference, relative to the state
SAVES = 200
MOST_EVALUATIONS = 30_000  # two seconds; the runs of the tests take up to 3,000


class Difference(System):
    """A difference between classes of one kind along the path of a reduced mean field.

    The state is [values of the run, direction v of the difference in the values of the finer kinds, g].

    Parameters
    ----------
    small : MeanField
        The reduced system.
    """

    def __init__(self, small: MeanField) -> None:
        assert small.quotient is not None
        self.small, self.eta_Y, self.eta_Z = small, small.eta_Y, small.eta_Z
        kinds, parent = split(small.quotient.kinds)
        self.quotient = quotient_of(kinds, small.classes.vocab_size, small.residual)
        self.parent = _parents(small.quotient, self.quotient, parent)
        work = scratch(WORK_ROWS, self.quotient.width)
        self._arguments = (self.quotient.lists, np.array([small.eta_Y, small.eta_Z]), work)
        self.parameters = small.parameters

    def initial_state(self) -> Floats:
        v, copies = np.random.default_rng(0).normal(size=self.parent.size), self.quotient.lists.copies
        total = np.bincount(self.parent, copies)
        v -= (np.bincount(self.parent, copies * v) / total)[self.parent]
        return np.concatenate([self.small.initial_state(), v / np.linalg.norm(v), [0.0]])

    def write_rate(self, state: Floats, out: Floats) -> None:
        size = self.small.size
        y, v = state[:size][self.parent], state[size:-1]
        self.small.write_rate(state[:size], out[:size])
        step = STEP * (1.0 + np.abs(y).max())
        rates = np.empty((2, v.size))
        for rate, sign in zip(rates, (1.0, -1.0), strict=True):
            mean_field(y + sign * step * v, rate, *self._arguments)
        change = (rates[0] - rates[1]) / (2.0 * step)
        out[-1] = v @ change
        out[size:-1] = change - out[-1] * v


def growth_of_differences(system: MeanField, t_end: float) -> float:
    """Largest growth of a difference between classes that a reduced run keeps equal.

    Parameters
    ----------
    system : MeanField
    t_end : float
        End of the run, in batch-size-1 steps.

    Returns
    -------
    float
        Largest ratio, up to `t_end`, of the norm of the difference in z and Y to its norm at the start, at most 1e299;
        1 where no two classes can be exchanged. Above 1e4, the noise of training makes a run leave the path of the
        reduced run. The growth times 1e-16 is the numerical error of the logits of a full run on this path. These two
        statements were measured for eta_Z/eta_Y from 0.005 to 6. Where eta_Z is far above eta_Y, a difference in Y
        changes z faster by the factor eta_Z/eta_Y: the growth is large on stable paths too, and full runs err by more
        (3e-6 in z at a ratio of 1e12).

    Raises
    ------
    InputError
        Another system, or a time that is not positive.
    RuntimeError
        The difference could not be integrated.

    Notes
    -----
    The derivation, at the head of this module, is not from the paper. Where a full run leaves the path, it differs from
    the reduced run by this growth times rounding (verified in the tests).

    Examples
    --------
    >>> import snapdyn as sd
    >>> round(sd.dynamics.growth_of_differences(sd.MeanField(sd.syn_medium(10), 1.0, 1.0), 1e4), 1)
    2.2
    """
    if type(system) is not MeanField:
        raise InputError(f"expected a MeanField, received {type(system).__name__}; no other system is examined")
    end = positive("t_end", t_end)
    small = reduced(system)
    if not isinstance(small, MeanField) or small.quotient is None or (small.quotient.kinds.number == 1).all():
        return 1.0
    times = np.geomspace(1e-3 * min(small.time_scale, end), end, SAVES)
    run = whole_run(Difference(small), times, method="DOP853", rtol=1e-5, atol=1e-7, most_evaluations=MOST_EVALUATIONS)
    assert run.state is not None
    return math.exp(min(690.0, float(run.state[:, -1].max(initial=0.0))))


def split(kinds: Kinds) -> tuple[Kinds, Ints]:
    """The finer kinds that result when one query of each type, and in it one class of each kind, is set apart.

    Returns
    -------
    Kinds, array of int
        The finer kinds, and the index of the kind that each of them was part of.
    """
    per_query, query_type, parent, num_queries, of_type = [], [], [], [], []
    for t, Q in enumerate(kinds.num_queries):
        members = np.flatnonzero(kinds.query_type == t)
        if Q > 1:
            num_queries.append(Q - 1)
            of_type.append(t)
            for c in members:
                per_query.append(kinds.per_query[c])
                query_type.append(len(num_queries) - 1)
                parent.append(c)
        num_queries.append(1)
        of_type.append(t)
        for c in members:
            for number in (kinds.per_query[c] - 1, 1):
                if number:
                    per_query.append(number)
                    query_type.append(len(num_queries) - 1)
                    parent.append(c)

    def no_members() -> Members:
        raise NotImplementedError(
            "the difference of two runs exists for the reduced kinds only; it cannot be expanded to all classes"
        )

    left = Kinds(
        per_query=np.array(per_query),
        query_type=np.array(query_type),
        num_queries=np.array(num_queries),
        prior=kinds.prior[parent],
        shared=kinds.shared[parent],
        like_shared=kinds.like_shared,
        shared_start=kinds.shared_start[of_type],
        own=[kinds.own[c] for c in parent],
        members=no_members,
    )
    return left, np.array(parent)


def _parents(whole: KindsQuotient, left: KindsQuotient, parent: Ints) -> Ints:
    """Index of the value of the quotient `whole` that each value of the finer quotient `left` was part of."""
    kinds, was = left.kinds, whole.kinds
    values = np.full(left.size, NONE)
    type_was = np.empty(kinds.num_queries.size, np.int64)
    type_was[kinds.query_type] = was.query_type[parent]
    has = kinds.slot_of_shared >= 0
    values[kinds.slot_of_shared[has]] = was.slot_of_shared[type_was][has]
    columns = np.append(parent, was.number.size)
    places = np.concatenate([columns, was.number.size + 1 + parent])
    for c, p in enumerate(parent):
        mine = np.arange(kinds.first_own[c], kinds.first_own[c + 1])
        theirs = np.arange(was.first_own[p], was.first_own[p + 1])
        values[mine] = theirs
        rows, rows_were = left.y_own[mine - kinds.first_own[0]], whole.y_own[theirs - was.first_own[0]]
        _hand_down(values, rows, rows_were[:, np.append(0, 1 + places)])
    _hand_down(values, left.y_shared, whole.y_shared[:, columns])
    _hand_down(values, left.y_query, whole.y_query[type_was][:, places])
    return values


def _hand_down(values: Ints, left: Ints, whole: Ints) -> None:
    found = left >= 0
    values[left[found]] = whole[found]
