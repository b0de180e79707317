"""Ctrl-C, SIGTERM and SIGHUP at awkward moments."""

import signal
import time

import pytest

from snapdyn.commands import main as command_line
from snapdyn.commands.signals import received_signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_that_ends_as_another_error_is_an_interruption(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence, exit code and the handlers of before, also where an import raises an error of its own."""

    def half_imported(*args: object, **options: object) -> int:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as error:
            raise ImportError("cannot load module more than once per process") from error
        return 0

    monkeypatch.setattr(command_line, "app", half_imported)
    before = signal.getsignal(signal.SIGTERM)
    assert command_line.main([]) == code
    said = capsys.readouterr().err
    assert said.startswith("snapdyn: interrupted;" if number == signal.SIGINT else "snapdyn: terminated;")
    assert said.count("\n") == 1
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_error_without_a_signal_stays_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> int:
        raise ImportError("no module")

    monkeypatch.setattr(command_line, "app", broken)
    with pytest.raises(ImportError, match="no module"):
        command_line.main([])


def test_a_signal_inside_a_callback_comes_again() -> None:
    """Assert an interruption where Python cannot raise what came, as in a callback of a compiled library."""

    class Callback:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def work() -> None:
        Callback()
        time.sleep(1.0)

    with received_signals() as received, pytest.raises(KeyboardInterrupt):
        work()
    assert received[0] == signal.SIGTERM
