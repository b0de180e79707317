"""A headless Chromium, driven by its DevTools protocol over the websockets library that marimo brings."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shutil import which
from typing import Any
from urllib.request import urlopen

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := which(name))), None)
STARTED = 60.0  # seconds for the browser to start, on a loaded machine


class Page:
    """One page: `run` evaluates JavaScript, `wait` until it is true, `press` sends keys."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.numbers = socket, count(1)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=STARTED))
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(str(message["params"]["exceptionDetails"]))

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float) -> Any:
        """Value of the script as soon as it is true; fails after some seconds."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(f"(() => {{ const found = {script}; return found?.nodeType ? true : found }})()")):
            assert time.monotonic() < deadline, f"expected {script} to become true; the page says " + str(
                self.run("document.body.innerText.slice(0, 500)")
            )
            time.sleep(0.05)
        return value

    def press(self, key: str) -> None:
        code = {"ArrowRight": 39, "ArrowLeft": 37}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


@contextmanager
def opened(folder: Path, size: str = "1300,1500") -> Iterator[Page]:
    """A new page in a Chromium that keeps its profile in a folder."""
    from websockets.sync.client import connect

    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"]
    with subprocess.Popen(
        [CHROMIUM, *options, f"--user-data-dir={folder}", f"--window-size={size}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as browser:
        try:
            file, deadline = folder / "DevToolsActivePort", time.monotonic() + STARTED
            while not (file.is_file() and "\n" in file.read_text()):
                assert browser.poll() is None, "expected the browser to run"
                assert time.monotonic() < deadline, "expected the browser to start"
                time.sleep(0.05)
            port = file.read_text().split()[0]
            with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=STARTED) as answer:
                page = next(target for target in json.load(answer) if target["type"] == "page")
            with connect(page["webSocketDebuggerUrl"], max_size=None) as socket:
                yield Page(socket)
        finally:
            browser.terminate()
            browser.wait(STARTED)
