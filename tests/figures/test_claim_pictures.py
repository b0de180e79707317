"""The picture and the maps of a claim as SVG text."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.contour import ContourSet

from snapdyn.figures import claim_svg, new_figure
from snapdyn.figures.claim_pictures import map_svg
from snapdyn.figures.heat_maps import cell_edges, draw_map, drawable
from snapdyn.validation.pictures import Map, Picture

SVG = "{http://www.w3.org/2000/svg}"
TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 1e6, 5000)])
KINDS = ("theory", "simulation", "printed", "control", "bound")


def picture(**changes: object) -> Picture:
    lines = tuple(Picture.line(f"line {kind}", TIMES, i + np.log1p(TIMES), kind) for i, kind in enumerate(KINDS))
    return Picture("t (batch-size-1 steps)", r"growth <B> & $\gamma$", lines, verticals=(("t0", 182.0),), **changes)  # type: ignore[arg-type]


def curve_styles(svg: str) -> list[str]:
    """Styles of the drawn curves: the clipped paths that are neither grid lines nor vertical marks."""
    paths = ElementTree.fromstring(svg).iter(f"{SVG}path")
    return [p.attrib["style"] for p in paths if "clip-path" in p.attrib and p.attrib["d"].count("L") > 1]


def words_of(root: ElementTree.Element) -> set[str]:
    return {"".join(text.itertext()).strip() for text in root.iter(f"{SVG}text")}


def test_labels_are_words_and_mathematics() -> None:
    """Assert labels that are readable as text, mathematics typeset, and markup characters as written."""
    svg = claim_svg(picture())
    root = ElementTree.fromstring(svg)
    assert {f"line {kind}" for kind in KINDS} <= words_of(root)
    assert "t0" not in svg  # which is typeset: t with the index 0
    assert root.attrib["aria-label"].startswith(r"growth <B> & $\gamma$ against t (batch-size-1 steps)")


def test_numbers_in_texts_keep_their_digits() -> None:
    """Assert that ticks and labels with decimals are written as they are, while places are in tenths of a point."""
    svg = map_svg(Map("map", "x", "y", "q", [0.02, 0.05], [1.0, 1.25], [[1e-3, 1.0], [1.0, 1e-3]], 0.015))
    assert {"0.02", "0.05", "measured: 0.015"} <= words_of(ElementTree.fromstring(svg))


def test_kinds_of_line_differ_without_colour() -> None:
    """Assert that every kind has its own dashes and width once the colour is taken away."""
    styles = curve_styles(claim_svg(picture()))
    assert len(styles) == len(KINDS)
    colourless = [
        ";".join(p for p in style.split(";") if p.strip().startswith(("stroke-dash", "stroke-width")))
        for style in styles
    ]
    # Theory and control are both solid; the control is thinner.
    assert len(set(colourless)) == len(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize(("xscale", "yscale"), [("linear", "symlog"), ("log", "log")])
def test_values_without_a_place_are_left_out(xscale: str, yscale: str) -> None:
    """Assert that empty lines and values no axis can show are drawn as gaps, without a warning; also no line at all."""
    odd = (([], []), ([0.0, -1.0], [0.0, -1.0]), ([3.0, 1.0, 2.0, 4.0], [1e-300, -1e300, np.nan, np.inf]))
    for lines in ((), *((Picture.line("values", x, y),) for x, y in odd)):
        shown = Picture("x", "y", lines, xscale, yscale)  # type: ignore[arg-type]
        assert ElementTree.fromstring(claim_svg(shown)).tag.endswith("svg")


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_a_line_of_many_points_is_small(scale: str) -> None:
    """Assert that a hundred thousand points, also of a simulation with its markers, make a picture of a few kB."""
    x = np.linspace(0, 1e5, 100_001)
    lines = (Picture.line("a", x, np.sqrt(x)), Picture.line("b", x, np.exp(-x / 1e4), "simulation"))
    svg = claim_svg(Picture("t", "y", lines, xscale=scale))
    assert len(svg) < 40_000
    assert svg.count("<use") < 100


GRID_X, GRID_Y = np.geomspace(1e-3, 1e2, 6), np.geomspace(0.03, 10, 5)


def a_map(**changes: object) -> Map:
    found = Map(
        "where <it> holds",
        "eta_Z/eta_Y",
        "|lambda_1| K",
        "share missed",
        GRID_X,
        GRID_Y,
        np.outer(GRID_Y, GRID_X),
        0.1,
        (
            Picture.line("printed condition", GRID_X[[0, -1]], [1.0, 1.0], "printed"),
            Picture.line("fitted law", 0.1 / GRID_Y, GRID_Y, "theory"),
        ),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_words_of_a_map() -> None:
    """Assert readable words, and the threshold in the legend."""
    root = ElementTree.fromstring(map_svg(a_map()))
    words = {"where <it> holds", "share missed", "printed condition", "fitted law", "measured: 0.1"}
    assert words <= words_of(root)
    assert root.attrib["aria-label"] == "where <it> holds: share missed over eta_Z/eta_Y and |lambda_1| K"


@pytest.mark.parametrize("svg", [claim_svg(picture()), map_svg(a_map())], ids=["picture", "map"])
def test_svg_is_one_small_element_that_fills_its_place(svg: str) -> None:
    """Assert well-formed XML, a view box without size, no rules or names that leak into the page, and below 60 kB."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert "viewBox" in root.attrib
    assert not {"width", "height"} & set(root.attrib)
    assert "<style" not in svg
    assert "axes_1" not in svg
    assert len(svg) < 60_000


@pytest.mark.parametrize(("xscale", "yscale", "scale"), [("log", "log", "log"), ("linear", "log", "linear")])
def test_threshold_is_where_the_violation_crosses_it(xscale: str, yscale: str, scale: str) -> None:
    """Assert that the threshold line of x y follows y = threshold/x, which is straight on logarithmic scales."""
    shown = a_map(xscale=xscale, yscale=yscale, scale=scale)
    if xscale == "linear":  # violation x alone: the line is vertical and straight on any scale
        shown = replace(shown, violation=np.tile(GRID_X, (5, 1)))
    axes = new_figure(4.0, 3.0).subplots()
    draw_map(axes, shown)
    ((line,),) = [lines.get_paths() for lines in axes.collections if isinstance(lines, ContourSet)]
    places = line.vertices  # on the scale of the axes
    place = places.sum(axis=1) if xscale == "log" else places[:, 0]
    np.testing.assert_allclose(place, -1.0 if xscale == "log" else 0.1, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "value"), [("linear", 0.0), ("log", -1.0), ("log", np.nan)])
def test_maps_without_contrast_are_drawn(scale: str, value: float) -> None:
    """Assert that constant, missing and negative violations are drawn, without a warning and a threshold line."""
    svg = map_svg(a_map(violation=np.full((5, 6), value), scale=scale))
    assert "measured:" not in svg
    assert ("no such instance" in svg) == (not np.isfinite(value))  # a legend for cells without an instance


def test_edges_lie_halfway_between_points() -> None:
    """Assert the edges of cells on both scales, and of a single point."""
    np.testing.assert_allclose(cell_edges(np.array([1.0, 3.0, 5.0]), "linear"), [0.0, 2.0, 4.0, 6.0])
    np.testing.assert_allclose(cell_edges(np.array([1.0, 100.0]), "log"), [0.1, 10.0, 1000.0])
    assert cell_edges(np.array([2.0]), "linear").tolist() == [1.5, 2.5]


@pytest.mark.parametrize("label", [r"$\href{http://x}{y}$", r"$\frac{1}$", "<script>alert(1)</script>"])
def test_labels_that_are_no_mathematics_are_shown_as_written(label: str) -> None:
    """Assert a picture, without a script and without a link."""
    svg = claim_svg(Picture(label, "z", (Picture.line(label, [1, 10], [0.0, 0.5]),), verticals=((label, 2.0),)))
    assert "<script" not in svg
    assert 'href="http' not in svg
    assert drawable("$x^2$") == "$x^2$"
