"""Relative positional bias as a fixed exponent on the prior of attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.extensions._positional_prior_settings import (
    finite_length,
    finite_length_map,
    same_descents,
    sequences_with_positions,
)
from snapdyn.validation.claims.extensions._shared import SAME_PATH, StartedFamily, reweighted, run_error
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, INFINITE_LENGTH, OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD
from snapdyn.validation.search import Instance, flow
from snapdyn.validation.search.flows import noise


def difference(rung: str, reweight: Callable[[SequenceClasses, Floats], SequenceClasses]) -> Callable[
    [Instance], Measured | None
]:  # fmt: skip
    """Largest |(z - z0) - z~|, z from z0, z~ of `reweight(classes, z0)` from 0, over what counts as no difference.

    That is SAME_PATH of the movement, and the error of both runs.
    """

    def measure(instance: Instance) -> Measured | None:
        z0 = instance.start
        if z0 is None or not z0.any():
            return Measured(0.0, at_most=1.0, where="z(0) = 0: no bias to put into P")
        biased = flow(instance, rung)
        other = Instance.of(
            reweight(instance.classes, z0), instance.eta_Y, instance.eta_Z, instance.t_end,
            seq_len=instance.seq_len, momentum=instance.momentum,
        )  # fmt: skip
        plain = flow(other, rung)
        if biased is None or plain is None:
            return None
        query, token = instance.classes.z_coordinates
        gaps = np.abs(biased.z_support - z0[query, token] - plain.z_support)
        i, k = np.unravel_index(np.argmax(gaps), gaps.shape)
        moved = float(np.abs(plain.z_support).max())
        # On one class no logit moves: what remains is the noise of both runs.
        error = run_error(instance, float(np.abs(biased.z).max()) + moved) + 2 * noise(instance, rung)
        allowed = SAME_PATH * moved + error
        return Measured(
            gaps[i, k] / allowed,
            at_most=1.0,
            where=f"token {token[k]}, query {instance.classes.queries[query[k]]} at t = {biased.t[i]:.3g}",
        )

    return measure


def properties() -> Iterator[Property]:
    """Property of the mean field and of the modified decoder."""
    for rung, words in ((MEAN_FIELD, "mean field"), (EXACT, "modified decoder")):
        modified = rung == EXACT
        yield Property(
            "|z - z0 with the bias z0 - z with reweighted P|, over 1e-4 of the largest |z| and the runs' error",
            words,
            difference(rung, reweighted),
            StartedFamily(
                "any classes and bias",
                "any",
                uniform=False,
                num_classes=(1, 6),
                num_common=(0, 3),
                num_distinct=(1, 4),
                vocab_size=(2, 10**9),
                ratio=(1e-3, 1e2),
                horizon=(1e-2, 1e6),
                eta_Y=(1e-6, 1e6),
                shared_next_tokens=not modified,
                start=(0.1, 3.0),
            ),
            conditions=(INFINITE_LENGTH, *((OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION) if modified else ())),
            controls={
                "wrong theory: the bias does not matter": difference(rung, lambda classes, z0: classes),
                "wrong theory: P exp(2 z0), as if squares of attention were reweighted": difference(
                    rung, lambda classes, z0: reweighted(classes, 2 * z0)
                ),
            },
            evaluations=(20, 400),
            directed=False,
        )


@claim(
    "positional-prior",
    source="Section 7 (positional encoding)",
    title="A fixed positional bias acts as a prior on tokens",
    answer="Exact for a bias per token and infinite T; at finite T the difference falls as 1/T.",
    statement="A fixed bias z0 added to the logits, f ~ P exp(z + z0), gives the dynamics of classes whose P is "
    "reweighted by exp(z0): it acts as a prior.",
    latex=r"f_{nl}\propto P(l|n)e^{z_{l}+z^0_{l}}\ \equiv\ \tilde P(l|n)e^{z_l},\quad "
    r"\tilde P(l|n)\propto\sum_ie^{b_i}P(l|n,i)",
    expected="conditional",
    assumptions=(
        "T infinite: with finite T the counts scatter as under P, not as under the reweighted P",
        "a bias b_i of positions acts through sum_i exp(b_i) P(l|n, i): a fixed factor per token and class, which is "
        "1 when tokens do not depend on the position",
    ),
    properties=tuple(properties()),
)
def positional_prior(evidence: Evidence) -> None:
    rng = np.random.default_rng(17)
    steps = same_descents(evidence, rng)
    finite, order = finite_length(evidence, rng)
    trained, references = sequences_with_positions(evidence, rng)
    evidence.conclusion = (
        f"Exact for a bias per token with T infinite: in {evidence.tried} instances to the solver's error, by descent "
        f"and SGD to {steps:.0e}. With finite T the two differ by {finite:.1e} of the largest logit at T - 1 = 500, "
        f"falling as 1/T ({order}). A bias per position averages to sum_i exp(b_i) P(l|n, i): it drops out when tokens "
        "do not depend on their position, and is a prior per class, no row of Z, when classes of one query differ in "
        "how they do."
    )
    evidence.picture = Picture(
        "token",
        "z after SGD on sequences with positions",
        (
            Picture.line("descent on the reweighted P", np.arange(7), references["bias"]),
            Picture.line("SGD with positions", np.arange(7), trained, "simulation"),
            Picture.line("descent on plain frequencies", np.arange(7), references["no bias"], "control"),
        ),
        xscale="linear",
    )
    evidence.maps = [finite_length_map(evidence.full)]
    evidence.seeds = [17, 29]
