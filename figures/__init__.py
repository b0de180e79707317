"""Figures: the paper's and the pictures of the claims, each with its data beside it.

Importing this package loads no plotting library; drawing does.
"""

from snapdyn.figures.claim_pictures import claim_svg
from snapdyn.figures.drawing import DrawnFigure, draw
from snapdyn.figures.register import FIGURES, FigureEntry

__all__ = ["FIGURES", "DrawnFigure", "FigureEntry", "claim_svg", "draw"]
