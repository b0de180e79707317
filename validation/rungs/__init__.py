"""The ladder of approximations: its rungs on one clock, and the gaps between them."""

from snapdyn.validation.rungs.build import ladder
from snapdyn.validation.rungs.gaps import Break, Ladder, Rung

__all__ = ["Break", "Ladder", "Rung", "ladder"]
