"""From settings to curves: the mean field of one class, closed forms, times of the transition, and verdicts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapdyn import analytic
from snapdyn.core.errors import InputError, whole
from snapdyn.dynamics import (
    FiniteLengthMeanField,
    MeanField,
    ModifiedDecoder,
    SymmetricClasses,
    System,
    Trajectory,
    descend,
    integrate,
    log_times,
)
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.finite_length import ExpansionWarning
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
    """Curves of one class over time.

    Attributes
    ----------
    t : (N,) array
        Time in batch-size-1 steps, from t*/100 to 100 t0, equal steps of ln t; with a rule such as Adam, numbers of
        updates from 1 to 40/eta_Y.
    attention : dict of (N,) arrays
        Attention c_n[l] of infinitely long sequences to the "common" tokens, the "dominant" distinct token, and all
        "other" distinct tokens together; they sum to 1.
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


def compute_curves(settings: Settings | OwnSettings, n: int = 0, num_times: int = NUM_TIMES) -> Curves:
    """Integrate the mean field and the modified decoder of the settings, and read class n.

    With a rule such as Adam, make its mean map instead: its updates with the mean gradient.

    Parameters
    ----------
    settings : Settings or OwnSettings
    n : int
        A class with a distinct token. The dominant one is its distinct token of largest probability. Classes of the
        sliders are all alike, and class 0 is read.
    num_times : int
        N, at least 2.

    Returns
    -------
    Curves
        Where the modified decoder does not cover the classes, its curves are NaN, and the note says why. The relative
        gain is that of the dominant token over the next distinct one; NaN where there is none.

    Raises
    ------
    InputError
        The class has no distinct token; finite sequences that are too short for the second-order correction; or a run
        that failed.

    Notes
    -----
    Of classes that are all alike, values that stay equal share one entry of the state, which has 11 entries whatever K
    and V. Finite sequences add the second-order correction of `FiniteLengthMeanField`.

    Examples
    --------
    >>> from snapdyn.explorer.curves import compute_curves
    >>> from snapdyn.explorer.sliders import Settings
    >>> curves = compute_curves(Settings(num_classes=10, vocab_size=1000))
    >>> round(curves.marks["peak"], 2), round(float(curves.gamma.max()), 2)
    (56.4, 4.5)
    """
    num_times = whole("num_times", num_times, 2)
    s, classes = settings, settings.classes
    distinct = classes.distinct_tokens(n)
    if distinct.size == 0:
        raise InputError(f"expected a class with a distinct token, received class {n}, which has none; choose another")
    K, V, prior = classes.num_classes, classes.vocab_size, float(classes.prior[n])
    marks = {kind: float(analytic.transition_time(K, V, s.eta_Y, kind, prior)) for kind in ("start", "peak", "end")}
    t = log_times(marks["peak"] / 100, 100 * marks["end"], num_times)
    system: MeanField = MeanField(classes, s.eta_Y, s.eta_Z)
    if s.seq_len is not None:
        system = FiniteLengthMeanField(classes, s.eta_Y, s.eta_Z, s.seq_len)
    run, note = (_run_of_rule(s, num_times), "") if s.has_rule else _run(system, t)
    one = _of_class(run)
    P = one.require_classes().P[[n]]
    tokens, probability = P.indices, dict(zip(P.indices.tolist(), P.data.tolist(), strict=True))
    dominant, *others = sorted(distinct.tolist(), key=lambda token: -probability[token])
    groups = {
        "common": ~np.isin(tokens, distinct),
        "dominant": tokens == dominant,
        "other": np.isin(tokens, distinct) & (tokens != dominant),
    }
    nothing = np.full(run.t.size, np.nan)
    attention_modified, gamma_modified = dict.fromkeys(groups, nothing), nothing
    if not s.has_rule:  # the theory is that of gradient descent
        try:
            theory, _ = _run(ModifiedDecoder(classes, s.eta_Y, s.eta_Z), t)
            attention_modified = _attention(_of_class(theory), n, groups)
            gamma_modified = np.asarray(analytic.gamma(prior * t, s.eta_Y, V, 1))
        except InputError as error:
            note = f"{note} The modified decoder has no curves here, so its dashed lines are left out: {error}".strip()
    gain = np.array([nothing, nothing])
    if others:
        at_start = (probability[dominant] / probability[others[0]]) ** 2 - 1
        gain = np.array([one.relative_gain(n, dominant, others[0]), at_start * one.growth_factor(n, dominant)])
    return Curves(
        t=run.t,
        attention=_attention(one, n, groups),
        attention_modified=attention_modified,
        gamma=one.observable("speed")[:, n],
        gamma_modified=gamma_modified,
        relative_gain=gain[0],
        relative_gain_theorem3=nothing if s.has_rule else gain[1],
        marks={} if s.has_rule else marks,
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


def _run(system: System, t: Floats) -> tuple[Trajectory, str]:
    """The run of a system, and where it is not valid."""
    # Explicit methods on symmetric classes: "auto" may choose CVODE, which does not run on the quotient.
    alike, with_decoder = isinstance(system.classes, SymmetricClasses), not isinstance(system, ModifiedDecoder)
    method = "compiled" if alike else "auto"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExpansionWarning)
        run = integrate(system, t, method, RTOL, ATOL, save_decoder=with_decoder, reduce=alike or "auto")
    if not run.success:
        raise InputError(f"expected a run to t = {t[-1]:.4g}, received {run.message}; choose slower attention")
    return run, " ".join(str(each.message) for each in caught if issubclass(each.category, ExpansionWarning))


def _run_of_rule(s: Settings | OwnSettings, num_times: int) -> Trajectory:
    """The mean map of the rule of the settings."""
    updates = max(num_times, round(UPDATES_OF_RULE / s.eta_Y))
    record = np.unique(np.geomspace(1, updates, num_times).round().astype(int))
    run = descend(
        MeanField(s.classes, s.eta_Y, s.eta_Z, optimizer=s.rule), updates, 1.0, record=record, save_decoder=True
    )
    if not run.success:
        raise InputError(f"expected a run of {updates} updates, received {run.message}; choose smaller rates")
    return run


def _of_class(run: Trajectory) -> Trajectory:
    """The run as class 0 of symmetric classes sees it, which needs nothing of the size of all classes, else the run."""
    return run.of_class(0) if isinstance(run.classes, SymmetricClasses) else run


def _attention(run: Trajectory, n: int, groups: Mapping[str, NDArray[np.bool_]]) -> dict[str, Floats]:
    """Attention of class n to each group of its tokens, (N,) each."""
    entries = slice(*run.require_classes().P.indptr[n : n + 2])
    return {name: run.attention_entries[:, entries][:, group].sum(axis=1) for name, group in groups.items()}
