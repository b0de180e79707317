"""`python -m snapdyn` and the command `snapdyn`: the command line."""

import io
import os
import signal
import sys
from typing import TextIO

from snapdyn.commands.signals import received_signals


class _Output(io.FileIO):
    """Standard output or error; text that cannot be written is lost, and the command goes on to store its result."""

    error: OSError | None = None

    def write(self, data, /):  # type: ignore[no-untyped-def]  # bytes or any other buffer
        """Write bytes, or drop them after an error."""
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:  # a full disk, or a reader such as `head` that has seen enough
                self.error = error
        return len(data)


def _opened(stream: TextIO) -> tuple[TextIO, _Output]:
    """Return a standard stream that raises no error for a full disk or for a character that it cannot encode."""
    stream.flush()
    output = _Output(stream.fileno(), "wb", closefd=False)
    by_line = stream.line_buffering or getattr(stream, "write_through", False)
    buffer = io.BufferedWriter(output)
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=bool(by_line)), output


def _open_standard_streams() -> None:
    """Let closed standard streams lead nowhere: a file would take their number, and libraries write to them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> int:
    """Run the command line; a signal that comes while modules are imported gives no traceback.

    The exit code is 2 when standard output could not be written. If the program that reads the output has ended, the
    exit code is that of the command.
    """
    _open_standard_streams()
    sys.stdout, output = _opened(sys.stdout)
    sys.stderr, _ = _opened(sys.stderr)
    code = _command_line()
    if output.error is None or isinstance(output.error, BrokenPipeError):
        return code
    reason = output.error.strerror
    print(f"snapdyn: expected standard output to be writable, received: {reason}; free space", file=sys.stderr)
    return max(code, 2)


def _command_line() -> int:
    with received_signals() as received:
        try:
            from snapdyn.commands.main import main as command_line

            code = command_line()
            print(end="", flush=True)
            return code
        except BaseException:
            if received:
                return 143 if set(received) - {signal.SIGINT} else 130
            raise


if __name__ == "__main__":
    sys.exit(main())
