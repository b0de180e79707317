"""The drawing shows the curves it is given."""

import numpy as np
import pytest

from snapdyn.explorer.curves import Curves, compute_curves
from snapdyn.explorer.drawing import MARKS, TOKENS, Picture
from snapdyn.explorer.sliders import Settings
from snapdyn.figures import house_style
from tests.text_boxes import overlaps


@pytest.fixture(scope="module")
def two() -> tuple[Curves, Curves]:
    """Curves of two settings."""
    return (
        compute_curves(Settings(num_classes=3, vocab_size=50, eta_Z=1.0)),
        compute_curves(Settings(num_classes=100, vocab_size=10**6, eta_Y=0.01, eta_Z=0.01)),
    )


def test_lines_are_the_curves(two: tuple[Curves, Curves]) -> None:
    """Assert data of every line, marks and scale, also after another setting was shown."""
    picture = Picture()
    for curves in (*two, two[0]):
        picture.show(curves)
        shown = {key: line.get_xydata() for key, line in picture.lines.items()}
        expected = dict(curves.attention)
        expected |= {f"{token} theory": curves.attention_modified[token] for token in TOKENS}
        expected |= {
            "gamma": curves.gamma, "gamma theory": curves.gamma_modified,
            "gain": curves.relative_gain, "gain theory": curves.relative_gain_theorem3,
        }  # fmt: skip
        assert shown.keys() == expected.keys()
        for key, values in expected.items():
            assert np.array_equal(shown[key], np.column_stack([curves.t, values])), key
        for name in MARKS:
            assert [line.get_xdata()[0] for line in picture.marks[name]] == [curves.marks[name]] * 3
        for axes in picture.panels:
            assert axes.get_xscale() == "log"
            assert axes.get_xlim() == pytest.approx((curves.t[0], curves.t[-1]))


def test_no_text_covers_another(two: tuple[Curves, Curves]) -> None:
    """Assert that labels and legends do not overlap and stay on the page."""
    picture = Picture()
    for curves in two:
        with house_style():
            picture.show(curves).draw_without_rendering()
            assert overlaps(picture.figure) == []
