"""The ladder of approximations: its rungs on one clock, and the gaps between them."""

from snapdyn.validation.rungs.build import ladder
from snapdyn.validation.rungs.gaps import Break, Ladder, Rung
from snapdyn.validation.rungs.theories import FittedOrder, TheoryLadder, ladder_of

__all__ = ["Break", "FittedOrder", "Ladder", "Rung", "TheoryLadder", "ladder", "ladder_of"]
