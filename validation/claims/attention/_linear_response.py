"""When the movement of attention reverses the growth of distinct tokens: linear response of the mean field.

Only class n writes row l of Y if l is distinct, so Y_l = eta_Y p_n int f_nl(t') a_n(t') dt', a_n = e_n - alpha_n,
and

    z_l' = eta_Z p_n f_nl^2 D_nl,  D_nl = xi_n - int (1 - f_nl(t')/f_nl(t)) m_n(t', t) dt',
    m_n(t', t) = eta_Y p_n a_n(t').a_n(t) >= 0,

where xi_n is that of frozen attention as long as alpha and the attention of the other classes do not change: memory
alone lowers the growth. To first order in the change of attention, and to every order in (eta_Z/eta_Y) (V h)^2, for
every entry (n, j) of P

    D_nj(t) = D0_nj(t) - int_0^t U_n(t') dphi_nj(t'),  phi_nj = z_mj - sum_i f_ni^2 z_mi,  m the query of n,

U_n = int m_n dt', with f, a, U and D0 of the decoder under frozen attention (the original flow (7)). Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.memory import EVALUATIONS, require_affordable
from snapdyn.dynamics.integration.driver import integrate
from snapdyn.dynamics.integration.request import Event, State, log_times
from snapdyn.dynamics.systems.base import System
from snapdyn.validation.claims.decoder._shared import outputs
from snapdyn.validation.claims.language import Floats, Instance, Requirement
from snapdyn.validation.search.instance_runs import kept_on_instance

# Least favourable |D - D_response| over the largest |change of ln f| and D0 that a directed search found is 7.7.
ALLOWANCE = 10.0
# Beyond this change of some ln f the law is not followed. At smaller ones (11) errs by up to 1.47 times the law, as a
# directed search found; by 5 % more than the law at most in random draws.
LARGEST_CHANGE = 1.0
# (eta_Z/eta_Y) (V h)^2 up to which the law was compared with the mean field.
LARGEST_MEMORY = 60.0
# Two tokens of a class whose frequencies differ by less than this factor are not compared.
LIKE = 1.001
PER_E_FOLD = 10  # times per growth of t by a factor e at which the law is looked at
# What memory takes then errs by 0.1 % where it takes half of xi_n, also for V = 1e10.
RTOL, ATOL = 1e-7, 1e-14


@dataclass
class Response:
    """Linear response of the mean field about frozen attention, up to t_end or where the law leaves its range.

    Attributes
    ----------
    whole : bool
        Whether the law was followed up to t_end.
    speed : float
        Smallest xi_n over the size of its terms, frozen attention, over times and classes with distinct tokens.
    lost : float
        Largest memory over xi_n, 1 - D/xi, over times and distinct tokens.
    onset : float
        First time at which memory equals some xi_n, so that a distinct token falls; inf: not up to the end.
    fall : float
        Largest 1 - D/xi + ALLOWANCE times `change`: below 1 no distinct token falls.
    rise : float
        As `fall`, for the rates of common logits: below 1 no common logit rises that would fall with frozen attention.
    lead : float
        As `fall`, for f_na^2 D_na - f_nb^2 D_nb, the rate of the lead of a distinct logit over that of the next token
        of its class that is less frequent by a factor of LIKE or more: below 1 all leads grow.
    change : float
        Largest change of ln f_nj.
    gain_error : float
        Largest error of (11) over 1 + |r(0)|.
    z : (logits,) array
        Change of the logits of classes.z_coordinates at the end.
    """

    whole: bool = True
    speed: float = np.inf
    lost: float = -np.inf
    onset: float = np.inf
    fall: float = -np.inf
    rise: float = -np.inf
    lead: float = -np.inf
    change: float = 0.0
    gain_error: float = 0.0
    z: Floats = field(default_factory=lambda: np.zeros(1))


@kept_on_instance
def response(instance: Instance) -> Response:
    """Linear response of an instance; computed once."""
    return _Law(instance).follow()


class _Law(System):
    """The law on one instance, with P o exp(z(0)) in place of P; momentum mu divides the rates by 1 - mu.

    The state is A (classes, outputs), what memory takes (entries), z (logits) and the path of (11) (entries), each in
    units of its size at t = min(1/eta_Y, t_end), so that one absolute tolerance serves all.
    """

    def __init__(self, instance: Instance) -> None:
        classes = instance.classes
        # One evaluation makes products of A with F and with G.
        work = classes.num_classes**2 * (classes.num_tokens + classes.next_tokens.size + 1)
        require_affordable("linear response of the mean field", EVALUATIONS * work)
        self._work = work
        F, self.G = classes.decoder_inputs(instance.start), instance.gram
        self.n, self.token, self.logit = classes.class_of_entry, classes.P.indices, classes.z_of_entry
        dense = F.toarray()
        self.f = dense[self.n, self.token]
        # A product with a small or a full table is faster dense.
        self.F = F if work > 1e6 and F.nnz < dense.size / 20 else dense
        self.logits = classes.z_coordinates[0].size
        self.distinct = classes.omega_size[self.token] == 1
        ranked = np.lexsort((self.f, self.n))
        ranked = ranked[self.distinct[ranked]]
        rivals = (self.n[ranked[1:]] == self.n[ranked[:-1]]) & (self.f[ranked[1:]] > self.f[ranked[:-1]] * LIKE)
        self.less, self.more = ranked[:-1][rivals], ranked[1:][rivals]
        self.common = np.bincount(self.logit, ~self.distinct, self.logits) > 0
        column, self.multiplicity = outputs(instance)
        self.hit = column[:, None] == np.arange(self.multiplicity.size)
        self.p = classes.prior
        self.eta_Y, self.eta_Z = instance.flow_rates
        self.t_end = instance.t_end
        early = min(1.0, self.eta_Y * self.t_end)  # A grows like t at first, z and the path like t^2, memory like t^3
        sizes = [self.hit.size, self.n.size, self.logits, self.n.size]
        self._ends = np.cumsum(sizes)[:3].tolist()
        self._units = np.repeat(
            [early, self.rate_ratio * early**3, self.rate_ratio * early**2, self.rate_ratio * early**2], sizes
        )
        self._first = classes.P.indptr[:-1]

    def initial_state(self) -> Floats:
        return np.zeros(self._units.size)

    def parts(self, state: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """A, what memory takes, z and the path of (11), from the state."""
        return self._split(state * self._units)

    def _split(self, values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        a, b, c = self._ends
        A = values[..., :a].reshape(*values.shape[:-1], *self.hit.shape)
        return A, values[..., a:b], values[..., b:c], values[..., c:]

    @property
    def multiplications(self) -> float:
        return 2.0 * self._work

    def frozen(self, A: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """a_n/(1 - alpha_n), 1 - alpha_n, U_n, D0 of the entries and the size of its terms, from Y = F^T A."""
        logits = self.G @ A
        weight = np.exp(logits - logits.max(axis=1, keepdims=True)) * self.multiplicity
        others = np.where(self.hit, 0.0, weight)
        miss = others.sum(axis=1)
        # Where no output is left to confuse this class's with, miss is 0 and nothing is learned.
        error = np.where(self.hit, 1.0, -others / np.maximum(miss, 1e-300)[:, None])
        miss = miss / weight.sum(axis=1)
        products = error @ A.T
        own = products.diagonal().copy()
        np.fill_diagonal(products, 0.0)
        # The own term drops out of D0: f_nj/f_nj - f_n.f_n = 0.
        drive = (products @ self.F)[self.n, self.token] / self.f - (products * self.G).sum(axis=1)[self.n]
        size = (np.abs(products) * self.G).sum(axis=1)
        return error, miss, own, drive, size

    def write_rate(self, state: Floats, out: Floats) -> None:
        A, lost, *_ = self.parts(state)
        dA, dlost, dz, dpath = self._split(out)
        error, miss, own, drive, _ = self.frozen(A)
        rate = self.p * miss
        dA[:] = self.eta_Y * rate[:, None] * error / self.multiplicity
        dpath[:] = self.eta_Z * rate[self.n] * (drive - lost)
        dz[:] = np.bincount(self.logit, self.f**2 * dpath, self.logits)
        dlost[:] = own[self.n] * self.ln_f(dz)
        out /= self._units

    def ln_f(self, z: Floats) -> Floats:
        """Change of ln f_nj, first order in z, (..., entries)."""
        at = z[..., self.logit]
        return at - np.add.reduceat(self.f**2 * at, self._first, axis=-1)[..., self.n]

    def left(self, t: Floats, state: State) -> Floats:
        """What is left of the range of the law, 1 at the start: of the change of ln f, and of memory.

        Memory is (eta_Z/eta_Y) U^2, and U_n is about |A_n|, up to a factor of root 2.
        """
        A, _, z, _ = self.parts(state.values)
        change = np.abs(self.ln_f(z)).max(axis=-1)
        memory = self.rate_ratio * (A**2).sum(axis=-1).max(axis=-1)
        return 1.0 - np.maximum(change / LARGEST_CHANGE, memory / LARGEST_MEMORY)

    def follow(self) -> Response:
        """Integrate the law up to t_end or where it leaves its range."""
        first = 1e-3 * min(1 / self.eta_Y, self.t_end)
        times = log_times(first, self.t_end, 2 + int(PER_E_FOLD * np.log(self.t_end / first)))
        leaves = Event(self.left, terminal=True, vectorized=True)
        # Where classes overlap much, an explicit method takes many small steps.
        run = integrate(self, times, "CVODE", RTOL, ATOL, events={"leaves its range": leaves})
        found, before, start = Response(), -np.inf, 0.0
        for t, state in zip(run.t, run.require_state(), strict=True):
            memory = self.record(state, found)
            if before < 1 <= found.lost:
                found.onset = float(start + (t - start) * (1 - before) / (found.lost - before))
            before, start = found.lost, t
            if memory >= LARGEST_MEMORY:
                found.whole = False
                return found
        if run.status == "interrupted":
            raise KeyboardInterrupt
        if not run.success:
            raise RuntimeError(run.message)
        for event in run.events:  # terminal, so at most one
            assert event.state is not None
            self.record(event.state, found)
            found.whole = False
        return found

    def record(self, state: Floats, found: Response) -> float:
        """Update `found` by the state; return (eta_Z/eta_Y) U^2, U about V h."""
        A, lost, z, path = self.parts(state)
        found.z = z
        _, miss, own, drive, size = self.frozen(A)
        found.change = max(found.change, float(np.abs(self.ln_f(z)).max()))
        # An isolated class does not move.
        moving = self.distinct & (size[self.n] > 1e-300)
        share = drive / np.where(moving, size[self.n], 1.0)
        found.speed = min(found.speed, float(share[moving].min(initial=np.inf)))

        def largest_share(part: NDArray[Any], whole: NDArray[Any], mask: NDArray[np.bool_]) -> float:
            return (part[mask] / whole[mask]).max(initial=-np.inf)

        driven = moving & (share > 1e-9)
        lost_share = largest_share(lost, drive, driven)
        found.lost = max(found.lost, lost_share)
        found.fall = max(found.fall, lost_share + ALLOWANCE * found.change)
        behind, lead = ((self.f**2 * by)[self.more] - (self.f**2 * by)[self.less] for by in (lost, drive))
        found.lead = max(found.lead, largest_share(behind, lead, driven[self.more]) + ALLOWANCE * found.change)
        rate = (self.p * miss)[self.n] * self.f**2
        falling, taken_back = (-np.bincount(self.logit, rate * by, self.logits) for by in (drive, lost))
        back = largest_share(taken_back, falling, self.common & (falling > 0))
        found.rise = max(found.rise, back + ALLOWANCE * found.change)
        for n in range(len(self.p)):
            tokens = self.distinct & (self.n == n)
            f, grown = self.f[tokens], path[tokens]
            wrong = 2 * f[:, None] ** 2 * np.abs(grown[:, None] - grown) / (1 + np.abs((f[:, None] / f) ** 2 - 1))
            found.gain_error = max(found.gain_error, float(wrong.max(initial=0.0)))
        return self.rate_ratio * float(own.max()) ** 2


def _within(name: str, instance: Instance) -> float:
    """Number `name` of the response; infinite if the law's range ended before t_end, 0 if it concerns no token."""
    found = response(instance)
    value: float = getattr(found, name)
    if not found.whole and found.change > 0:
        return np.inf
    return value if np.isfinite(value) else 0.0


def gain_memory(instance: Instance) -> float:
    """Error of (11) by the law, over 1 + |r(0)|; infinite beyond the law's range."""
    return _within("gain_error", instance)


def movement(instance: Instance) -> float:
    """Largest change of ln f by the law; infinite if the law's range ended before t_end."""
    found = response(instance)
    return found.change if found.whole else np.inf


def frozen_speed(instance: Instance) -> float:
    """Smallest xi_n over the size of its terms with frozen attention; 1 where no class overlaps another."""
    value = response(instance).speed
    return value if np.isfinite(value) else 1.0


LITTLE_MEMORY, LITTLE_MEMORY_COMMON, LITTLE_MEMORY_LEAD = (
    Requirement(
        "little memory",
        f"by linear response, the share of {rate} that memory takes plus {ALLOWANCE:g} times the largest "
        "|change of ln f| is below 1",
        partial(_within, name),
        at_most=float(np.nextafter(1, 0)),
    )
    for rate, name in (("xi_n", "fall"), ("the common logit's rate", "rise"), ("a logit's lead", "lead"))
)
FROZEN_SPEED = Requirement(
    "positive speed",
    "xi_n > 0 with frozen attention, original flow",
    frozen_speed,
    at_least=0.0,
)
