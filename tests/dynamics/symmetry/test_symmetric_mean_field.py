"""Equivalent classes in any number, against the mean field of all of them."""

import numpy as np
import pytest

from snapdyn.analytic import (
    largest_ladder_gap,
    single_common_token_orbit,
    transition_time,
    transition_time_with_overlap,
    u_plus,
)
from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    SymmetricMeanField,
    integrate,
    log_times,
    single_common_token,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.symmetry.reduction import reduced
from snapdyn.errors import InputError


def of(classes: SequenceClasses, eta_Y: float, eta_Z: float) -> SymmetricMeanField:
    """The system of equivalent classes that `classes` are."""
    P = classes.P.toarray()
    common = classes.common_tokens()
    distinct = [token for token in np.flatnonzero(P[0]) if token not in common]
    queries = classes.queries.size
    return SymmetricMeanField(
        P[0, common], P[0, distinct], classes.num_classes // queries, classes.vocab_size, eta_Y, eta_Z, queries
    )


TWO = [[0.4, 0.6, 0.0], [0.4, 0.0, 0.6]]
CASES = {
    **{f"K = {K}": single_common_token(K, 3, 0.3, 200) for K in (2, 3, 7, 40)},
    "one distinct token": single_common_token(11, 1, 0.4, 12),
    "V = K": SequenceClasses(TWO, [3, 3], [0, 1], vocab_size=4),
    "one class": SequenceClasses([[0.2, 0.8]], [2], [0], vocab_size=9),
    "no common token": SequenceClasses([[0.2, 0.8, 0.0, 0.0], [0.0, 0.0, 0.2, 0.8]], [4, 4], [0, 1], vocab_size=9),
    "one class per query": SequenceClasses(TWO, [3, 4], [0, 1], vocab_size=9),
    "Syn-Small": syn_small(),
    **{f"Syn-Medium, Q = {Q}": syn_medium(Q) for Q in (1, 3, 10)},
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_mean_field_of_all_classes(name: str) -> None:
    """Assert equal steps, logits and attention of a class and loss, to rounding, against every class by itself."""
    classes, eta_Y, eta_Z = CASES[name], 1.0, 0.7
    times = log_times(0.1, 1e3, 12)
    ours, full = of(classes, eta_Y, eta_Z), MeanField(classes, eta_Y, eta_Z)
    small, run = integrate(ours, times), integrate(full, times, reduce=False)
    common = classes.common_tokens()
    tokens = [*common, *np.setdiff1d(np.flatnonzero(classes.P.toarray()[0]), common)]
    assert small.stats["steps"] == run.stats["steps"]
    # Where the classes of a query share no token, no logit moves: what remains is rounding.
    np.testing.assert_allclose(small.z[:, 0], run.z[:, 0][:, tokens], rtol=0, atol=1e-9 * np.abs(run.z).max() + 1e-13)
    np.testing.assert_allclose(small.attention[:, 0], run.attention[:, 0][:, tokens], rtol=0, atol=1e-9)
    np.testing.assert_allclose(small.loss, run.loss, rtol=1e-9, atol=1e-12)
    assert small.status == "finished"


@pytest.mark.parametrize("name", CASES)
def test_it_has_the_colours_of_the_refinement(name: str) -> None:
    """Assert as many colours and members as the refinement finds."""
    full, ours = MeanField(CASES[name], 1.0, 1.0), of(CASES[name], 1.0, 1.0)
    found = reduced(full)
    number = np.ones(full.size) if found is None else found.quotient.number  # None: no two values are alike
    assert sorted(ours.quotient.number) == sorted(number)
    assert len(set(ours.value_names)) == ours.size


@pytest.mark.parametrize("K", [1, 2, 10**3, 10**6, 10**9])
def test_the_state_does_not_grow_with_the_number_of_classes(K: int) -> None:
    """Assert a state of at most eleven values, kept row sums, and the time of the transition at its law."""
    V, eta_Y = 10**12, 1.0
    if K > 1:
        law = float(transition_time_with_overlap(K, V, eta_Y, 0.09 / (0.09 + 0.29)))
    else:
        law = float(transition_time(K, V, eta_Y))
    system = SymmetricMeanField([0.3], [0.2, 0.5], K, V, eta_Y, 1e-6 / law)  # attention does not move
    assert system.size <= 11
    times = np.linspace(0.5, 1.5, 201) * law
    run = integrate(system, times)
    assert run.status == "finished"
    alpha = np.exp(-run.loss)
    lead = np.log(alpha * (V - 1) / (1 - alpha))
    assert np.interp(1.0, lead * alpha, times) == pytest.approx(law, rel=1e-3)


@pytest.mark.parametrize("K", [10, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("share", [1e-5, 1e-3, 0.05])
def test_the_ladder_gap_follows_its_law_at_any_number_of_classes(K: int, share: float) -> None:
    """Assert the largest gap between the mean field, Eq. (10) and its leading beta, V = 10 K to 10^6 K, slow attention.

    Three independent routes: the integrated mean field, the quadrature of the orbits, and the closed form of the law.
    """
    distinct = np.array([0.4, 0.6]) * (1 - share)
    overlap = share**2 / (share**2 + distinct @ distinct)
    for V in (10 * K, 1000 * K, 10**6 * K):
        end = 2 * float(u_plus(V)) * K
        t, eta_Z = np.geomspace(1e-3 * end, end, 12), 1e-9 / end
        run = integrate(SymmetricMeanField([share], distinct, K, V, 1.0, eta_Z), t, atol=1e-30)
        z = {"mean field": run.z[:, 0, 0]}
        for beta in ("exact", "leading"):
            z[beta] = single_common_token_orbit(t, distinct, share, K, V, 1.0, eta_Z, beta=beta).z_common
        gaps = [
            np.abs(z[coarse] - z[fine]).max() / np.abs(z[fine]).max()
            for fine, coarse in (("mean field", "exact"), ("exact", "leading"))
        ]
        assert max(gaps) == pytest.approx(largest_ladder_gap(t, 1.0, V, K, overlap), rel=1e-4), (V, gaps)


def test_refusals() -> None:
    for arguments, words in (
        (([0.3], [0.2], 5, 100), "to sum to 1, received a sum of 0.5"),
        (([0.3, -0.1], [0.8], 5, 100), "common"),
        (([1.0], [], 5, 100), "at least one"),
        (([0.3], [0.7], 0, 100), "num_classes"),
        (([0.3], [0.7], 101, 100), "vocab_size"),
        (([0.3], [0.7], 2**54, 2**55), "num_classes"),
        (([[0.3]], [0.7], 5, 100), "shape"),
    ):
        with pytest.raises(InputError, match=words):
            SymmetricMeanField(*arguments, 1.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="classes of all queries"):
        SymmetricMeanField([0.3], [0.7], 2**52, 2**53, 1.0, 1.0, num_queries=4)
