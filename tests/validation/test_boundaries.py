"""Where a claim holds on a family of classes of one's own."""

import numpy as np
import pytest

import snapdyn as sd


def family(common: float) -> sd.SequenceClasses:
    """Three classes with one common token."""
    return sd.single_common_token(3, 2, common, 50)


def test_two_axes_agree_with_single_checks() -> None:
    axes = {"common": [0.1, 0.3], "eta_Z": [1e-3, 1e-1, 1.0]}
    found = sd.boundary("conservation", family, axes, t_end=50.0)
    assert found.violation.shape == (3, 2)
    single = sd.check(family(0.3), 1.0, 1e-1, 50.0, "conservation").claims[0]
    assert found.violation[1, 1] == single.measured
    assert found.threshold == single.bound
    assert (found.xlabel, found.ylabel) == ("common", "eta_Z")


@pytest.mark.parametrize(
    ("claim", "classes", "axes", "message"),
    [
        ("conservation", family, {}, "one or two axes"),
        ("conservation", family, {"common": [0.3, 0.1]}, "increasing"),
        ("conservation", family(0.1), {"common": [0.1]}, "axis of fixed classes"),
        ("figure6", family, {"common": [0.1]}, "speaks of"),
        ("theorem3", family, {"common": [0.1]}, "received the group"),
    ],
)
def test_bad_input(claim, classes, axes, message) -> None:
    with pytest.raises(sd.InputError, match=message):
        sd.boundary(claim, classes, axes)


def test_parameters_of_another_theory() -> None:
    """Assert a map over two parameters of a Box, the third fixed, and one sentence for an unknown axis."""
    domain = sd.Box(eta=(1e-3, 10.0, "log"), r=(0.1, 0.9), arms=(2, 10))
    product = sd.Property("product", "closed form", lambda p: sd.Measured(p["eta"] * p["arms"], at_most=5.0), domain)
    sd.register(sd.Claim("bandit-limit", "own", "Product", "It is at most 5.", properties=product))
    fixed = {"eta": 0.3, "r": 0.2, "arms": 3}
    found = sd.boundary("bandit-limit", fixed, {"eta": [0.1, 1.0], "arms": [2, 4, 8]})
    assert found.violation.tolist() == [[0.2, 2.0], [0.4, 4.0], [0.8, 8.0]]
    assert (found.threshold, found.quantity) == (5.0, "product")
    with pytest.raises(sd.InputError, match="received eta, r, arms, arm;"):
        sd.boundary("bandit-limit", fixed, {"arm": [1.0, 2.0]})


def test_more_points_than_the_claim_pays_for_are_refused_before_the_first() -> None:
    """Assert the numbers of a map of a million points, and that `most_evaluations` sets another limit."""
    axes = {"eta_Y": np.geomspace(0.1, 1.0, 1000), "eta_Z": np.geomspace(0.1, 1.0, 1000)}
    with pytest.raises(sd.InputError, match=r"at most 40000 points .* received 1000000; .* most_evaluations=1000000"):
        sd.boundary("lemma13", family(0.1), axes, t_end=10.0)
