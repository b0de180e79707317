"""`python -m snapdyn` and the command `snapdyn`: the command line."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is being imported gives no traceback."""
    try:
        from snapdyn.commands.main import main as command_line

        return command_line()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
