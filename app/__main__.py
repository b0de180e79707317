"""`python -m snapdyn` and the command `snapdyn`: the command line."""

import signal
import sys

from snapdyn.commands.signals import received_signals


def main() -> int:
    """Run the command line; a signal while it is being imported gives no traceback."""
    with received_signals() as received:
        try:
            from snapdyn.commands.main import main as command_line

            return command_line()
        except BaseException:
            if received:
                return 143 if signal.SIGTERM in received else 130
            raise


if __name__ == "__main__":
    sys.exit(main())
