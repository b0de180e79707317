"""`snapdyn equations`: the displayed equations of the paper."""

from __future__ import annotations

from snapdyn.commands.options import Register
from snapdyn.commands.terminal import DONE, show


def equations(register: Register = None) -> int:
    """List every displayed equation of the paper, with what recomputes it and its recorded verdict.

    `snapdyn report` shows the table as measured in that run.

    Example: snapdyn equations
    """
    from snapdyn.validation.claims.equations import equation_text

    show(equation_text(), end="")
    return DONE
