"""From settings to curves: the mean field of one class, closed forms, times of the transition, and verdicts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from snapdyn import analytic
from snapdyn.core.errors import InputError, whole
from snapdyn.dynamics import FiniteLengthMeanField, MeanField, Trajectory, descend, integrate, log_times
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.observables import speed_of_kind
from snapdyn.dynamics.systems.finite_length import ExpansionWarning
from snapdyn.dynamics.trajectories.run_parts import numbers_of_outputs
from snapdyn.explorer.sliders import OwnSettings, Settings
from snapdyn.validation import InstanceReport, check

NUM_TIMES = 120
RTOL, ATOL = 1e-6, 1e-9  # errors far below the width of a line
# Statements that take 0.1 s together for 20 classes and 2 s for 100, whatever the rates.
QUICK_CLAIMS = (
    "theorem1-form", "theorem1a", "assumption2", "theorem4", "theorem5", "lemma9", "lemma12", "corollary1",
)  # fmt: skip
QUICK_CLAIMS_OF_RULES = ("theorem2a", "theorem2b", "conservation", "adam-gain", "sign-equal", "adam-winner")
UPDATES_OF_RULE = 40.0  # times eta_Y
MOST_CLASSES_AT_ONCE, MOST_CLASSES_CHECKED = 20, 100  # of verdicts after every move, and of any verdicts


@dataclass(frozen=True)
class Curves:
    """Curves of one class over time; all classes are alike.

    Attributes
    ----------
    t : (N,) array
        Time in batch-size-1 steps, from t*/100 to 100 t0, equal steps of ln t; with a rule such as Adam, numbers of
        updates from 1 to 40/eta_Y.
    attention : dict of (N,) arrays
        Attention c_n[l] of infinitely long sequences to the "common" token, the "dominant" distinct token, and all
        19 "other" distinct tokens together; they sum to 1.
    attention_modified : dict of (N,) arrays
        Attention to the same tokens under the modified decoder, Eq. (10) of Theorem 1 with the exact beta.
    gamma : (N,) array
        Speed gamma_n = w_n[n] (1 - alpha_n[n]) measured on the run, w_n = Y^T f_n.
    gamma_modified : (N,) array
        Closed form of the speed under the modified decoder, Eq. (85).
    relative_gain : (N,) array
        r(t) of the dominant distinct token over another distinct token, f_1^2/f_2^2 - 1.
    relative_gain_theorem3 : (N,) array
        r(0) chi_1(t), Eq. (11), with the growth factor chi_1 of the same run.
    marks : dict of float
        Times of the transition, batch-size-1 steps: "start" K ln V/eta_Y (t0'), "peak" of gamma (t*), "end" t0. With a
        rule such as Adam there are none, and the curves of theory are NaN: they are those of gradient descent.
    note : str
        Where a run with finite sequences is not valid, in one sentence; empty otherwise.
    evaluations : int
        Evaluations of the right-hand side.
    """

    t: Floats
    attention: Mapping[str, Floats]
    attention_modified: Mapping[str, Floats]
    gamma: Floats
    gamma_modified: Floats
    relative_gain: Floats
    relative_gain_theorem3: Floats
    marks: Mapping[str, float]
    note: str = ""
    evaluations: int = 0

    @property
    def named(self) -> dict[str, Floats]:
        """All curves by name: the token, "gamma" or "gain"; the theory's curve of each has " theory" after the name."""
        return {
            **self.attention,
            "gamma": self.gamma,
            "gain": self.relative_gain,
            **{f"{token} theory": values for token, values in self.attention_modified.items()},
            "gamma theory": self.gamma_modified,
            "gain theory": self.relative_gain_theorem3,
        }


def compute_curves(settings: Settings, num_times: int = NUM_TIMES) -> Curves:
    """Integrate the mean field of the settings, reduced by symmetry, and evaluate the closed forms at the same times.

    With a rule such as Adam, make its mean map instead: its updates with the mean gradient.

    Parameters
    ----------
    settings : Settings
    num_times : int
        N, at least 2.

    Returns
    -------
    Curves

    Raises
    ------
    InputError
        Finite sequences that are too short for the second-order correction, or a run that failed.

    Notes
    -----
    Values that stay equal share one entry of the state, which has 11 entries whatever K and V. Finite sequences add the
    second-order correction of `FiniteLengthMeanField`.

    Examples
    --------
    >>> from snapdyn.explorer.curves import compute_curves
    >>> from snapdyn.explorer.sliders import Settings
    >>> curves = compute_curves(Settings(num_classes=10, vocab_size=1000))
    >>> round(curves.marks["peak"], 2), round(float(curves.gamma.max()), 2)
    (56.4, 4.5)
    """
    num_times = whole("num_times", num_times, 2)
    s = settings
    K, V = s.num_classes, s.vocab_size
    marks = {kind: float(analytic.transition_time(K, V, s.eta_Y, kind)) for kind in ("start", "peak", "end")}
    if s.has_rule:
        run, note = _run_of_rule(s, num_times), ""
        t, marks = run.t, {}
    else:
        t = log_times(marks["peak"] / 100, 100 * marks["end"], num_times)
        run, note = _run(s, t)
    one = run.of_class(0)
    dominant, other = s.distinct_probabilities
    orbit = analytic.single_common_token_orbit(
        t, one.require_classes().P.data[1:], s.common_probability, K, V, s.eta_Y, s.eta_Z
    )
    entries, decoder = one.attention_entries, one.require_decoder()
    shown = np.nan if s.has_rule else 1.0  # the theory is that of gradient descent
    return Curves(
        t=t,
        attention=_attention(one, one.z_support),
        attention_modified=_attention(one, shown * np.column_stack([orbit.z_common, orbit.z_distinct])),
        gamma=speed_of_kind(entries, decoder.Y, numbers_of_outputs(s.classes, 0))[:, 0],
        gamma_modified=shown * np.asarray(analytic.gamma(t, s.eta_Y, V, K)),
        relative_gain=one.relative_gain(0, 1, 2),
        relative_gain_theorem3=shown
        * np.asarray(analytic.relative_gain((dominant / other) ** 2 - 1, one.z_support[:, 1])),
        marks=marks,
        note=note,
        evaluations=int(run.stats["evaluations"]),
    )


def verdicts(settings: Settings | OwnSettings, every: bool = False) -> InstanceReport:
    """`sd.check` on the classes and rates of the settings, up to t = 100 t0.

    Parameters
    ----------
    settings : Settings or OwnSettings
    every : bool
        All statements of the register, which takes seconds (K = 10) to minutes (K = 100); default `QUICK_CLAIMS`.

    Returns
    -------
    InstanceReport

    Raises
    ------
    InputError
        More than 100 classes, for which the register takes hours.

    Examples
    --------
    >>> from snapdyn.explorer.curves import verdicts
    >>> from snapdyn.explorer.sliders import Settings
    >>> verdicts(Settings(num_classes=3, vocab_size=100))["lemma9"].status
    'holds'
    """
    s = settings
    if s.num_classes > MOST_CLASSES_CHECKED:
        raise InputError(
            f"expected at most {MOST_CLASSES_CHECKED} classes to check statements on, received {s.num_classes}; choose "
            "fewer classes here, or call sd.check with only the statements that you need"
        )
    only = None if every else QUICK_CLAIMS_OF_RULES if s.has_rule else QUICK_CLAIMS
    return check(s.classes, s.eta_Y, s.eta_Z, only=only, seq_len=s.seq_len, optimizer=s.rule)


def _run(s: Settings, t: Floats) -> tuple[Trajectory, str]:
    """The mean field of the settings, and where it is not valid."""
    # Explicit methods: "auto" may choose CVODE, which does not run on the quotient.
    system = MeanField(s.classes, s.eta_Y, s.eta_Z)
    if s.seq_len is not None:
        system = FiniteLengthMeanField(s.classes, s.eta_Y, s.eta_Z, s.seq_len)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExpansionWarning)
        run = integrate(system, t, "compiled", save_decoder=True, reduce=True, rtol=RTOL, atol=ATOL)
    if not run.success:
        raise InputError(f"expected a run to t = {t[-1]:.4g}, received {run.message}; choose slower attention")
    return run, " ".join(str(each.message) for each in caught if issubclass(each.category, ExpansionWarning))


def _run_of_rule(s: Settings, num_times: int) -> Trajectory:
    """The mean map of the rule of the settings."""
    updates = max(num_times, round(UPDATES_OF_RULE / s.eta_Y))
    record = np.unique(np.geomspace(1, updates, num_times).round().astype(int))
    run = descend(
        MeanField(s.classes, s.eta_Y, s.eta_Z, optimizer=s.rule), updates, 1.0, record=record, save_decoder=True
    )
    if not run.success:
        raise InputError(f"expected a run of {updates} updates, received {run.message}; choose smaller rates")
    return run


def _attention(one: Trajectory, z: Floats) -> dict[str, Floats]:
    """Attention of one class from the logits z (N, 1 + NUM_DISTINCT) of its tokens, (N,) each."""
    entries = one.require_classes().attention_from_support(z)
    return {"common": entries[:, 0], "dominant": entries[:, 1], "other": entries[:, 2:].sum(axis=1)}
