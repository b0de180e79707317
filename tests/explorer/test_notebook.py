"""The notebook: its cells show plots and verdicts that follow the controls; its server keeps others out, and ends."""

import importlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from socket import socket
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest

from tests.helpers import EXAMPLES

pytestmark = pytest.mark.skipif(
    not find_spec("marimo"), reason="marimo is not installed (pip install 'snapdyn[explore]')"
)
PATIENCE = 120.0  # seconds: a first run compiles


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
            shown = next(line for line in process.stdout if "URL: http" in line)
            yield f"http://127.0.0.1:{port}/?{shown.strip().partition('?')[2]}", process
        finally:
            if process.poll() is None:
                process.terminate()


@pytest.mark.long
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


def shown(**chosen: Any) -> str:
    """What the cells of the notebook show, as HTML, with these values of the controls and defaults of the others."""
    notebook = importlib.import_module("snapdyn.explorer.notebook")
    values = {"num_classes": 10, "vocab_size": 1000, "common_probability": 0.3, "eta_Y": 1.0, "eta_Z": 0.5}
    values |= {"shown_class": 0, "seq_len": 10_000, "infinite": True, "optimizer": "sgd"}
    values |= {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8} | chosen
    controls = {name: SimpleNamespace(value=value) for name, value in values.items()}
    outputs, _ = notebook.app.run(defs=controls | {"get_overlap": lambda: 0.6, "set_overlap": print})
    return "".join(output.text for output in outputs if output is not None)


def picture(text: str) -> str:
    """The picture in what is shown."""
    (found,) = re.findall(r"data:image/png;base64,([\w+/=]+)", text)
    return found


@pytest.mark.slow
def test_plots_and_verdicts_follow_the_controls() -> None:
    """Assert a picture that eta_Z changes and that comes back, eight verdicts, and no refusal."""
    before, other, again = (shown(eta_Z=eta_Z) for eta_Z in (0.5, 1.0, 0.5))
    assert picture(before) == picture(again) != picture(other)
    assert before.count("<tr>") >= 8
    assert "alert" not in before
    adam = shown(optimizer="adam", eta_Y=0.01, eta_Z=0.01)
    assert picture(adam) not in (picture(before), picture(other))
    assert "it requires gradient descent" in adam


@pytest.mark.slow
def test_own_classes_follow_the_class_and_the_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert the classes of a run file in place of the sliders for symmetric ones."""
    monkeypatch.setattr("marimo.cli_args", lambda: {"file": str(EXAMPLES / "check_own_classes.toml")})
    first, other, faster = shown(shown_class=0), shown(shown_class=2), shown(shown_class=0, eta_Z=1.0)
    assert len({picture(text) for text in (first, other, faster)}) == 3
    assert "4 classes, 9 contextual tokens" in first
    assert "it requires one query (Q = 1; here 2)" in first


@pytest.mark.slow
def test_an_impossible_setting_is_a_sentence() -> None:
    """Assert that V < K shows the refusal in place of the picture."""
    text = shown(num_classes=15, vocab_size=10)
    assert "vocab_size to be a whole number of at least 15" in text
    assert "data:image" not in text


@pytest.mark.long
def test_sigterm_ends_the_server(server: tuple[str, subprocess.Popen[str]]) -> None:
    """Assert exit code 143 of `snapdyn explore`, and that nothing answers any more."""
    address, process = server[0].partition("?")[0], server[1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    deadline = time.monotonic() + PATIENCE
    while answers(address):
        assert time.monotonic() < deadline
        time.sleep(0.1)
