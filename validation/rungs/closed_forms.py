"""The lower rungs as trajectories: orbit, reduced system and closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import integrate
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.single_common_token import SingleCommonToken
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.errors import InputError


class NotApplicable(InputError):
    """A rung does not exist for these classes, or was not requested."""


def applicable(system: Callable[..., System], *arguments: Any, **options: Any) -> System:
    """Build a system; raise NotApplicable where it is not defined for its classes."""
    try:
        return system(*arguments, **options)
    except InputError as error:
        raise NotApplicable(str(error)) from error


class SingleCommonProfile(NamedTuple):
    """Profile shared by symmetric classes: distinct probabilities (d,) falling, and the common token's.

    `position` (nz,) says for every logit of classes.z_coordinates which distinct probability is its token's, -1
    for the common token.
    """

    distinct_probabilities: Floats
    common_probability: float
    position: NDArray[np.int64]


def single_common_profile(classes: SequenceClasses) -> SingleCommonProfile | None:
    """Profile of classes of one query with one common token and equal profiles; None for other classes."""
    K = classes.num_classes
    common = classes.common_tokens()
    symmetric = (
        classes.queries.size == 1
        and classes.next_tokens.size == K >= 2
        and common.size == 1
        and np.ptp(classes.prior) == 0
        and all(common[0] in classes.support(n) for n in range(K))
    )
    if not symmetric:
        return None
    P = classes.P.toarray()
    position = np.full(classes.num_tokens, -1)
    profiles = []
    for n in range(K):
        tokens = classes.distinct_tokens(n)
        tokens = tokens[np.argsort(-P[n, tokens], kind="stable")]
        position[tokens] = np.arange(tokens.size)
        profiles.append(np.append(P[n, tokens], P[n, common[0]]))
    if any(p.shape != profiles[0].shape or not np.allclose(p, profiles[0], rtol=1e-12, atol=0) for p in profiles):
        return None
    return SingleCommonProfile(profiles[0][:-1], float(profiles[0][-1]), position[classes.z_coordinates[1]])


def modified_logits(classes: SequenceClasses, t: Floats, rate: float, prefactor: float = 1.0) -> Floats:
    """w_n = prefactor (V-1) h(p_n t) zeta_n (Lemmas 5, 6) with h at `rate`, for next tokens that are all different.

    Returns
    -------
    (N, S, C) array
        Outputs: the next tokens in increasing order and, if V > S, one column for any other output.
    """
    S, V = classes.num_classes, classes.vocab_size
    zeta = np.full((S, S + (V > S)), -1.0 / (V - 1))
    zeta[np.arange(S), classes.next_index] = 1.0
    h = analytic.h(np.multiply.outer(t, classes.prior), rate, V)
    return np.asarray(prefactor * (V - 1) * h[:, :, None] * zeta)


def decoder_of_logits(classes: SequenceClasses, t: Floats, W: Floats) -> Trajectory:
    """Trajectory with attention frozen at z = 0 and Y = F G^-1 W, the decoder in the span of F with the logits W."""
    f = classes.decoder_inputs().toarray()
    rows, outputs = FrozenDecoder(classes, 1.0).decoder_ids()
    z, unknown = np.zeros((t.size, classes.z_coordinates[0].size)), np.full(t.size, np.nan)
    return Trajectory(
        classes, t, z, classes.check_z(None), unknown, "closed form", {},
        Y=f.T @ np.linalg.solve(f @ f.T, W), decoder_rows=rows, decoder_outputs=outputs,
    )  # fmt: skip


def initial_rho0(profile: SingleCommonProfile) -> float:
    """rho0 = |c_n|/c_n(common token) at the start."""
    norm = np.hypot(profile.common_probability, np.linalg.norm(profile.distinct_probabilities))
    return float(norm / profile.common_probability)


def orbit_trajectory(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, t: Floats, beta: str = "leading"
) -> Trajectory:
    """Trajectory of the orbit of Section 6 (derived in `analytic.orbit`)."""
    profile, K, V = _profile(classes), classes.num_classes, classes.vocab_size
    orbit = analytic.single_common_token_orbit(
        t, profile.distinct_probabilities, profile.common_probability, K, V, eta_Y, eta_Z, beta
    )
    return _trajectory(classes, profile, eta_Y, t, orbit.z_common, orbit.z_distinct, "orbit")


def reduced_trajectory(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, t: Floats, form: str = "consistent", **options: Any
) -> Trajectory:
    """Trajectory of Eq. (13), integrated numerically; `form` is "consistent" or "printed"."""
    profile, K, V = _profile(classes), classes.num_classes, classes.vocab_size
    run = integrate(SingleCommonToken(K, V, eta_Y, eta_Z, initial_rho0(profile), form), t, **options)
    if not run.success:
        return run
    z_distinct = _distinct_logits(profile, run.extra["B"][:, 0])
    return _trajectory(classes, profile, eta_Y, t, run.z_support[:, 0], z_distinct, "single common token")


def closed_form_trajectory(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    t: Floats,
    form: str = "consistent",
    branch: str = "attention",
) -> Trajectory:
    """Trajectory of the closed form of Eq. (13), or of h of Lemma 6 (branch "decoder", attention frozen at z = 0)."""
    if branch == "decoder":
        applicable(FrozenDecoder, classes, eta_Y, modified=True)
        return decoder_of_logits(classes, t, modified_logits(classes, t, eta_Y))
    profile = _profile(classes)
    arguments = t, eta_Y, eta_Z, classes.vocab_size, classes.num_classes, initial_rho0(profile)
    z_common = np.asarray(analytic.common_token_logit(*arguments, form=form))
    z_distinct = _distinct_logits(profile, np.asarray(analytic.growth_exponent(*arguments, form=form)))
    return _trajectory(classes, profile, eta_Y, t, z_common, z_distinct, "closed form")


def _profile(classes: SequenceClasses) -> SingleCommonProfile:
    profile = single_common_profile(classes)
    if profile is None:
        raise NotApplicable(
            "expected classes of one query with one common token, one profile and one weight, received other classes"
        )
    return profile


def _trajectory(
    classes: SequenceClasses,
    profile: SingleCommonProfile,
    eta_Y: float,
    t: Floats,
    z_common: Floats,
    z_distinct: Floats,
    name: str,
) -> Trajectory:
    """Trajectory with the logits of the common token (N,) and of the distinct tokens (N, d)."""
    V = classes.vocab_size
    z = np.where(profile.position < 0, z_common[:, None], z_distinct[:, profile.position])
    u = V * np.asarray(analytic.h(t / classes.num_classes, eta_Y, V))
    return Trajectory(classes, t, z, classes.check_z(None), np.log1p((V - 1) * np.exp(-u)), name, {})


def _distinct_logits(profile: SingleCommonProfile, B: Floats) -> Floats:
    """Logits of the distinct tokens (N, d) for a growth exponent B (N,) at constant rho0.

    z_l' = f_l^2 B' (98) with f_l = f_l(0) exp(z_l), so exp(-2 z_l) = 1 - 2 f_l(0)^2 B. The logits are NaN after the
    right side reaches 0 (without the approximation the norm of c~ has grown by then).
    """
    f0 = profile.distinct_probabilities / (profile.common_probability * initial_rho0(profile))
    left = 1.0 - 2.0 * f0**2 * B[:, None]
    return np.asarray(-0.5 * np.log(np.where(left > 0, left, np.nan)))
