"""Observables in which the rungs of a ladder are compared: of attention, and of the decoder."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import Trajectory
from snapdyn.dynamics.classes import Floats, Ints, SequenceClasses
from snapdyn.dynamics.decoder_speed import class_logits


def attention_observables(run: Trajectory) -> dict[str, Floats]:
    """Observables of a run by name, (N, components) each.

    z (moving logits), attention (entries of P), entropy (classes), relative_gain r_{l0/l|n} of each class's dominant
    distinct token l0 over its other distinct tokens, growth_factor chi_l (moving logits).
    """
    classes = run.require_classes()
    first, second = _dominant_pairs(classes, run.z_initial)
    z, log_P, of_entry = run.z_support, np.log(classes.P.data), classes.z_of_entry
    ratio = log_P[first] - log_P[second] + z[:, of_entry[first]] - z[:, of_entry[second]]
    return {
        "z": z,
        "attention": run.attention_entries,
        "entropy": run.entropy(),
        "relative_gain": np.expm1(2.0 * ratio),
        "growth_factor": np.exp(2.0 * (z - run.z_initial[classes.z_coordinates])),
    }


def decoder_observables(run: Trajectory) -> dict[str, Floats]:
    """Observables of a run with a saved decoder, by name, (N, components) each.

    logits w_n = Y^T f_n (classes x outputs; one column for all outputs that are not the next token of a class), loss
    -ln alpha_n[n] (classes; nats, with the attention of infinitely long sequences), speed gamma_n = w_n[n]
    (1 - alpha_n[n]) (classes), which is Eq. (85) under the modified flow.
    """
    found = class_logits(run.require_classes(), run.attention_entries, *run.require_decoder())
    return {
        "logits": found.logits.reshape(len(found.logits), -1),
        "loss": np.log1p(found.odds),
        "speed": found.speed,
    }


def _dominant_pairs(classes: SequenceClasses, z: Floats) -> tuple[Ints, Ints]:
    """Pairs of entries of P: the dominant distinct token of a class, and each of the class's other distinct tokens."""
    first: list[int] = []
    second: list[int] = []
    weight = np.log(classes.P.data) + z[classes.z_coordinates][classes.z_of_entry]
    distinct = classes.omega_size[classes.P.indices] == 1
    for start, stop in zip(classes.P.indptr[:-1], classes.P.indptr[1:], strict=True):
        of_class = start + np.flatnonzero(distinct[start:stop])
        if of_class.size < 2:
            continue
        dominant = of_class[np.argmax(weight[of_class])]
        others = of_class[of_class != dominant]
        first += [dominant] * others.size
        second += others.tolist()
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
