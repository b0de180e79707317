"""The ladder of approximations: its rungs on one clock, and the gaps between them."""

from snapdyn.validation.rungs.build import ladder
from snapdyn.validation.rungs.gaps import Break, Ladder, Rung
from snapdyn.validation.rungs.theories import ladder_of
from snapdyn.validation.rungs.theory_ladder import FittedOrder, TheoryLadder

__all__ = ["Break", "FittedOrder", "Ladder", "Rung", "TheoryLadder", "ladder", "ladder_of"]
