"""The static page: its numbers are the curves, it needs nothing else, and its sliders move the lines."""

import base64
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.explorer.curves import ORDER, QUICK_CLAIMS, compute_curves, verdicts
from snapdyn.explorer.settings import Settings, overlap_steps
from snapdyn.explorer.static_page import CURVES, POINTS, Grid, build_static_page
from tests.explorer.browser import CHROMIUM, opened

SMALL = Grid((3, 10), (100, 10**6), (0.3, 0.4), (2, 9), (10.0,), (None, 1000))
LARGEST_PAGE = 2_000_000  # bytes


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small grid."""
    return build_static_page(tmp_path_factory.mktemp("static") / "explorer.html", SMALL)


@pytest.fixture(scope="module")
def data(page: Path) -> Any:
    """What the script of the page reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


def test_numbers_are_the_curves(data: Any) -> None:
    """Assert every curve of every setting within half a step of its 65535, in the order that the script uses."""
    steps = np.frombuffer(base64.b64decode(data["numbers"]), "<u2").reshape(*SMALL.shape(), len(CURVES), POINTS)
    limits = np.frombuffer(base64.b64decode(data["limits"]), "<f4").reshape(*SMALL.shape(), len(CURVES), 2)
    for at in product(*(range(length) for length in SMALL.shape())):
        K, V, p, step, ratio, seq_len = (values[i] for values, i in zip(vars(SMALL).values(), at, strict=True))
        assert data["overlaps"][at[2]][at[3]] == overlap_steps(p)[step]
        curves = compute_curves(Settings(K, V, p, overlap_steps(p)[step], 1.0, ratio, seq_len), POINTS)
        expected = {
            "common": curves.attention["common"], "dominant": curves.attention["dominant"],
            "common theory": curves.attention_modified["common"],
            "dominant theory": curves.attention_modified["dominant"], "gamma": curves.gamma,
            "gamma theory": curves.gamma_modified, "gain": curves.relative_gain,
            "gain theory": curves.relative_gain_theorem3,
        }  # fmt: skip
        for number, name in enumerate(data["curves"]):
            low, high = limits[(*at, number)].astype(float)
            shown = low + (high - low) * steps[(*at, number)] / 65535
            rounding = 1e-7 * np.abs(expected[name]).max()  # of the limits, in float32
            assert np.abs(shown - expected[name]).max() <= 0.51 * (high - low) / 65535 + rounding, (at, name)
        assert data["marks"][f"{K},{V}"] == [curves.marks[name] for name in ("start", "peak", "end")]


def test_verdicts_are_those_of_check(data: Any) -> None:
    """Assert the answers of the first and the last setting with infinite sequences, and the claims they belong to."""
    assert {claim["id"] for claim in data["claims"]} == set(QUICK_CLAIMS)
    settings = [each for each in SMALL if each.seq_len is None]
    assert len(data["verdicts"]) == len(settings)
    for number in (0, -1):
        report = verdicts(settings[number])
        assert [ORDER[int(digit)] for digit in data["verdicts"][number]] == [each.status for each in report.claims]
    assert len(set(data["verdicts"])) > 1


def test_the_page_needs_nothing_else(page: Path) -> None:
    """Assert that the page refers to no other file: its one address is a link to the paper."""
    text = page.read_text()
    assert set(re.findall(r"https?://[^\"'<> ]+", text)) == {"https://arxiv.org/abs/2305.16380"}
    assert not re.search(r"<(link|img|iframe)\b|<script src|@import|url\(", text)


def test_same_page_again(page: Path, tmp_path: Path) -> None:
    """Assert the same bytes for the same grid."""
    assert build_static_page(tmp_path / "again.html", SMALL).read_bytes() == page.read_bytes()


def test_default_grid_fits(page: Path) -> None:
    """Assert that every setting of the default grid is possible, and that its page stays below 2 MB.

    Settings are checked when they are made; the size is that of the small page with as many numbers.
    """
    settings = list(Grid())
    assert len(settings) == np.prod(Grid().shape())
    per_setting = (2 * POINTS + 8) * len(CURVES) * 4 / 3 + len(QUICK_CLAIMS) + 4
    assert page.stat().st_size + per_setting * len(settings) < LARGEST_PAGE


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_sliders_move_the_lines(page: Path, data: Any, tmp_path: Path) -> None:
    """Assert in a browser: three plots, each slider changes a line, and the lines are those of the stored numbers."""
    pytest.importorskip("websockets", reason="the browser is driven through websockets, which marimo brings")
    with opened(tmp_path / "profile", "1200,1100") as browser:
        browser.open(page.as_uri())
        browser.wait("document.querySelector('#gain path.curve')", 30)
        shown = "[...document.querySelectorAll('path.curve')].map(line => line.getAttribute('d')).join('|')"
        for slider in ("num_classes", "common_probability", "overlap", "seq_len"):
            before = browser.run(shown)
            browser.run(f"document.getElementById('{slider}').focus()")
            at = browser.run(f"document.getElementById('{slider}').value")
            browser.press("ArrowRight" if at == "0" else "ArrowLeft")
            assert browser.run(f"document.getElementById('{slider}').value") != at, slider
            assert browser.run(shown) != before, slider
        before = browser.run("[document.getElementById('peak').textContent, " + shown + "]")
        browser.run("document.getElementById('eta_Y').focus()")
        browser.press("ArrowLeft")
        after = browser.run("[document.getElementById('peak').textContent, " + shown + "]")
        assert before[1] == after[1]  # only the unit of time has changed
        assert float(after[0].replace(",", "")) == pytest.approx(10 * float(before[0].replace(",", "")), rel=0.01)
        # The first line of attention, as stored: 170 units of height less margins for 0..1 (see static.js).
        common = browser.run("curve(index(), 'common')")
        drawn = browser.run("document.querySelector('#attention path.c0:not(.theory)').getAttribute('d')")
        heights = [float(point.split()[1]) for point in drawn[1:].split("L")]
        assert heights == pytest.approx([148 - 142 * value for value in common], abs=0.01)
        assert browser.run("document.querySelectorAll('#verdicts li').length") == len(QUICK_CLAIMS)
        assert browser.run("document.querySelectorAll('#attention path.mark').length") == 3
        assert browser.problems == []
        browser.picture(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 20_000
