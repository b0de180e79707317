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
        ("conservation", family, {}, "number of axes to be a whole number in 1..2"),
        ("conservation", family(0.1), {"common": [0.1]}, "axis of fixed classes"),
        ("figure6", family, {"common": [0.1]}, "speaks of"),
        ("theorem3", family, {"common": [0.1]}, "received the group"),
    ],
)
def test_bad_input(claim, classes, axes, message) -> None:
    with pytest.raises(sd.InputError, match=message):
        sd.boundary(claim, classes, axes)


def test_more_points_than_the_claim_pays_for_are_refused_before_the_first() -> None:
    """Assert the numbers of a map of a million points, and that `most_evaluations` sets another limit."""
    axes = {"eta_Y": np.geomspace(0.1, 1.0, 1000), "eta_Z": np.geomspace(0.1, 1.0, 1000)}
    with pytest.raises(sd.InputError, match=r"at most 40000 points .* received 1000000; .* most_evaluations=1000000"):
        sd.boundary("lemma13", family(0.1), axes, t_end=10.0)


def test_conditions_are_lines_of_the_map() -> None:
    """Assert that each condition of a claim over a Box is a line where it begins to be met, beside the measured one."""
    conditions = (
        sd.Requirement("small", "x y <= 7", lambda p: p["x"] * p["y"], at_most=7.0),
        sd.Requirement("ordered", "x - y <= 0", lambda p: p["x"] - p["y"], at_most=0.0),
        sd.Requirement("met everywhere", "x >= 0.1", lambda p: p["x"], at_least=0.1),
    )
    product = sd.Property(
        "x y", "arithmetic", lambda p: sd.Measured(p["x"] * p["y"], at_most=20.0),
        sd.Box(x=(1.0, 100.0, "log"), y=(1.0, 100.0, "log")), conditions,
    )  # fmt: skip
    sd.register(sd.Claim("product", "own", "Product", "x y is at most 20.", properties=product))
    axis = np.geomspace(1.0, 100.0, 9)
    found = sd.boundary("product", {}, {"x": axis, "y": axis})
    small, ordered = found.boundaries
    assert (small.label, ordered.label, found.threshold) == ("x y <= 7", "x - y <= 0", 20.0)
    np.testing.assert_allclose(small.x * small.y, 7.0, rtol=1e-9)
    np.testing.assert_allclose(ordered.x, ordered.y, rtol=1e-9)
