"""The notebook in a browser: it opens, shows the plots, and a slider moves the curves."""

import base64
import io
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from socket import socket
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import numpy as np
import pytest
from matplotlib.image import imread

from tests.explorer.browser import CHROMIUM, Page, opened

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not find_spec("marimo"), reason="marimo is not installed (pip install 'snapdyn[explore]')"),
]
PATIENCE = 120.0  # seconds: a first run compiles
IMAGE = "document.querySelector('img[alt^=attention]')"


def answers(address: str) -> bool:
    """Whether a server answers."""
    with suppress(URLError, ConnectionError), urlopen(f"{address}health", timeout=5):
        return True
    return False


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`snapdyn explore` without a browser: its address and its process."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "snapdyn", "explore", "--no-browser", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(f"http://127.0.0.1:{port}/"):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
            assert process.stdout is not None
            shown = next(line for line in process.stdout if "URL: http" in line)
            yield f"http://127.0.0.1:{port}/?{shown.strip().partition('?')[2]}", process
        finally:
            if process.poll() is None:
                process.terminate()


@pytest.fixture(scope="module")
def page(server: tuple[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The open notebook, its picture and its table shown."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with opened(tmp_path_factory.mktemp("browser") / "profile") as browser:
        browser.open(server[0])
        browser.wait(f"{IMAGE}?.naturalWidth", PATIENCE)
        browser.wait("document.querySelector('tbody td code')", PATIENCE)
        yield browser


def picture(page: Page) -> np.ndarray:
    """The picture that the page shows, (height, width, 4)."""
    encoded = page.run(
        f"fetch({IMAGE}.src).then(answer => answer.arrayBuffer())"
        ".then(data => btoa(String.fromCharCode(...new Uint8Array(data))))"
    )
    return np.asarray(imread(io.BytesIO(base64.b64decode(encoded))))


def move(page: Page, number: int, key: str) -> None:
    """Press an arrow key on a slider, and wait for the next picture."""
    before = page.run(f"{IMAGE}.src")
    page.run(
        f"[...document.querySelectorAll('marimo-slider')][{number}].shadowRoot.querySelector('[role=slider]').focus()"
    )
    page.press(key)
    page.wait(f"{IMAGE} && {IMAGE}.src !== {before!r} && {IMAGE}.naturalWidth", PATIENCE)


def value(page: Page, number: int) -> int:
    """Number of the step that a slider shows."""
    return int(page.run(
        f"[...document.querySelectorAll('marimo-slider')][{number}].shadowRoot.querySelector('[role=slider]')"
        ".getAttribute('aria-valuenow')"
    ))  # fmt: skip


@pytest.mark.parametrize("host", ["127.0.0.1", "other.example"])
def test_only_the_printed_address_opens_the_notebook(host: str, server: tuple[str, Any]) -> None:
    """Assert that a page without the token is that of the login, that calls are refused, whatever the Host header."""
    bare = server[0].partition("?")[0]
    with urlopen(Request(bare, headers={"Host": host}), timeout=PATIENCE) as answer:
        assert "/auth/login" in answer.url
    with pytest.raises(HTTPError, match="401"):
        urlopen(Request(f"{bare}api/kernel/instantiate", b"{}", {"Host": host}), timeout=PATIENCE)
    with build_opener(HTTPCookieProcessor()).open(server[0], timeout=PATIENCE) as answer:
        assert "/auth/login" not in answer.url


@pytest.mark.long
def test_the_page_shows_plots_and_verdicts(page: Page) -> None:
    """Assert six sliders, a picture with many colours, eight verdicts, and no fault on the page."""
    assert page.run("document.querySelectorAll('marimo-slider').length") == 6
    shown = picture(page)
    assert shown.shape[:2] == (702, 910)
    assert np.unique(shown.reshape(-1, shown.shape[2]), axis=0).shape[0] > 50
    assert page.run("document.querySelectorAll('tbody td code').length") == 8
    text = page.run("document.body.innerText")
    assert "How a 1-layer transformer learns where to look" in text
    assert "Curves(" not in text
    assert "Traceback" not in text
    assert page.problems == []


@pytest.mark.long
def test_a_slider_moves_the_curves(page: Page) -> None:
    """Assert that eta_Z changes the panel of attention, and that back again is the picture of before."""
    before = picture(page)
    move(page, 5, "ArrowRight")
    after = picture(page)
    top = slice(0, before.shape[0] // 3)
    assert (before[top] != after[top]).any(axis=-1).sum() > 500
    move(page, 5, "ArrowLeft")
    assert np.array_equal(picture(page), before)


def test_an_impossible_setting_is_a_sentence(page: Page) -> None:
    """Assert that V < K shows the refusal in place of the picture, and that the picture comes back."""
    page.run("[...document.querySelectorAll('marimo-slider')][1].shadowRoot.querySelector('[role=slider]').focus()")
    moves = value(page, 1)
    for _ in range(moves):
        page.press("ArrowLeft")
    page.run("[...document.querySelectorAll('marimo-slider')][0].shadowRoot.querySelector('[role=slider]').focus()")
    page.press("ArrowRight")  # K = 15 with V = 10
    sentence = (
        "document.querySelector('p[role=alert]')?.innerText.includes('vocab_size to be a whole number of at least 15')"
    )
    page.wait(sentence, PATIENCE)
    assert page.run(f"{IMAGE} === null")
    page.press("ArrowLeft")
    page.wait(f"{IMAGE}?.naturalWidth", PATIENCE)


def test_sigterm_ends_the_server(server: tuple[str, subprocess.Popen[str]], page: Page) -> None:
    """Assert exit code 143 of `snapdyn explore`, and that nothing answers any more."""
    address, process = server[0].partition("?")[0], server[1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    deadline = time.monotonic() + PATIENCE
    while answers(address):
        assert time.monotonic() < deadline
        time.sleep(0.1)
