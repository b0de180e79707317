"""The drawing shows the curves it is given."""

import numpy as np
import pytest

from snapdyn.explorer.curves import Curves, compute_curves
from snapdyn.explorer.drawing import draw
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
    """Assert data of every line, marks and scale."""
    for curves in two:
        panels = draw(curves).axes
        expected = list(curves.named.values())
        shown = [line.get_xydata() for axes in panels for line in axes.lines if len(line.get_xydata()) > 2]
        assert len(shown) == len(expected)
        for values in expected:
            assert any(np.array_equal(line, np.column_stack([curves.t, values])) for line in shown)
        for axes in panels:
            marks = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2]
            assert marks == list(curves.marks.values())
            assert axes.get_xscale() == "log"
            assert axes.get_xlim() == pytest.approx((curves.t[0], curves.t[-1]))


def test_no_text_covers_another(two: tuple[Curves, Curves]) -> None:
    """Assert that labels and legends do not overlap and stay on the page."""
    for curves in two:
        with house_style({"figure.constrained_layout.use": False}):
            figure = draw(curves)
            figure.draw_without_rendering()
            assert overlaps(figure) == []
