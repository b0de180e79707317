"""Ctrl-C, SIGTERM, SIGHUP: they raise KeyboardInterrupt, and a list says which came. Nothing slow is imported."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HANGUP = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # Windows has none


@contextmanager
def received_signals() -> Iterator[list[int]]:
    """Let SIGTERM, and SIGHUP of a terminal that is closed, act as Ctrl-C: finished work is stored, workers end.

    Yields
    ------
    list of int
        The signals that have come. While a library is imported, the KeyboardInterrupt can reach the caller as an error
        of another type; if this list holds a signal, such an error is an interruption too.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    def handle_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
        """Raise again an interrupt from a callback of a compiled library, where Python can only print it and go on."""
        if received and issubclass(unraisable.exc_type, KeyboardInterrupt):
            # A moment later: raised in here, it would be lost again.
            again.append(threading.Timer(0.01, _thread.interrupt_main, (received[-1],)))
            again[-1].daemon = True
            again[-1].start()
        else:
            print_unraisable(unraisable)

    again: list[threading.Timer] = []
    print_unraisable = sys.unraisablehook
    # Only the main thread can set handlers; a program that ignores a signal wants that for its commands, too.
    ours = {}
    if threading.current_thread() is threading.main_thread():
        usual_handlers = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
        for number, usual in (usual_handlers | dict.fromkeys(HANGUP, signal.SIG_DFL)).items():
            before = signal.getsignal(number)
            if before == usual or getattr(before, "__qualname__", "") == handle.__qualname__:
                ours[number] = signal.signal(number, handle)
    if ours:
        sys.unraisablehook = handle_unraisable
    try:
        yield received
    finally:
        for timer in again:
            timer.cancel()
        sys.unraisablehook = print_unraisable
        for number, before in ours.items():
            signal.signal(number, before)
