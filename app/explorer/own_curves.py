"""Curves of one class of the user's own, at the rates of the sliders."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.core.errors import InputError
from snapdyn.dynamics import MeanField, ModifiedDecoder, Trajectory, integrate, log_times
from snapdyn.dynamics.classes.table import Floats
from snapdyn.explorer.curves import ATOL, NUM_TIMES, RTOL, Curves
from snapdyn.explorer.sliders import OwnSettings


def curves_of_class(settings: OwnSettings, n: int) -> Curves:
    """Curves of class n, from t*/100 to 100 t0 of this class.

    Parameters
    ----------
    settings : OwnSettings
    n : int
        A class with a distinct token. The dominant one is its distinct token of largest probability.

    Returns
    -------
    Curves
        Where the modified decoder does not cover the classes, its curves are NaN, and the note says why. The relative
        gain is that of the dominant token over the next distinct one; NaN where there is none.

    Raises
    ------
    InputError
        The class has no distinct token, or the run failed.

    Examples
    --------
    >>> import snapdyn as sd
    >>> from snapdyn.explorer.own_curves import curves_of_class
    >>> from snapdyn.explorer.sliders import OwnSettings
    >>> curves = curves_of_class(OwnSettings(sd.syn_small(), eta_Y=1.0, eta_Z=0.5), 0)
    >>> round(curves.marks["peak"], 2), round(float(curves.attention["dominant"][-1]), 2)
    (6.55, 0.12)
    """
    classes, eta_Y, eta_Z = settings.classes, settings.eta_Y, settings.eta_Z
    distinct = classes.distinct_tokens(n)
    if distinct.size == 0:
        raise InputError(f"expected a class with a distinct token, received class {n}, which has none; choose another")
    K, V, prior = classes.num_classes, classes.vocab_size, float(classes.prior[n])
    marks = {kind: float(analytic.transition_time(K, V, eta_Y, kind, prior)) for kind in ("start", "peak", "end")}
    t = log_times(marks["peak"] / 100, 100 * marks["end"], NUM_TIMES)
    run = integrate(MeanField(classes, eta_Y, eta_Z), t, rtol=RTOL, atol=ATOL, save_decoder=True)
    if not run.success:
        raise InputError(f"expected a run to t = {t[-1]:.4g}, received {run.message}; choose slower attention")
    probability = classes.P[n].toarray().ravel()
    ranked = distinct[np.argsort(-probability[distinct], kind="stable")]
    dominant, gain = int(ranked[0]), np.full((2, t.size), np.nan)
    if ranked.size > 1:
        second = int(ranked[1])
        at_start = (probability[dominant] / probability[second]) ** 2 - 1
        gain = np.array([run.relative_gain(n, dominant, second), at_start * run.growth_factor(n, dominant)])
    try:
        theory = _attention(integrate(ModifiedDecoder(classes, eta_Y, eta_Z), t, rtol=RTOL, atol=ATOL), n, dominant)
        speed, note = np.asarray(analytic.gamma(prior * t, eta_Y, V, 1)), ""
    except InputError as error:
        speed = np.full(t.size, np.nan)
        theory = dict.fromkeys(("common", "dominant", "other"), speed)
        note = f"The modified decoder does not cover these classes, so its dashed lines are left out: {error}"
    return Curves(
        t=t,
        attention=_attention(run, n, dominant),
        attention_modified=theory,
        gamma=run.observable("speed")[:, n],
        gamma_modified=speed,
        relative_gain=gain[0],
        relative_gain_theorem3=gain[1],
        marks=marks,
        note=note,
        evaluations=int(run.stats["evaluations"]),
    )


def _attention(run: Trajectory, n: int, dominant: int) -> dict[str, Floats]:
    """Attention of class n to its common tokens, the dominant token, and its other distinct tokens, (N,) each."""
    classes = run.require_classes()
    entries = slice(*classes.P.indptr[n : n + 2])
    attention, tokens = run.attention_entries[:, entries], classes.P.indices[entries]
    is_common, is_dominant = classes.omega_size[tokens] > 1, tokens == dominant
    return {
        "common": attention[:, is_common].sum(axis=1),
        "dominant": attention[:, is_dominant].sum(axis=1),
        "other": attention[:, ~is_common & ~is_dominant].sum(axis=1),
    }
