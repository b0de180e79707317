"""Figures: the paper's and the pictures of the claims, each with its data beside it.

Importing this package loads no plotting library; drawing does.
"""

from snapdyn.figures.claim_pictures import claim_svg
from snapdyn.figures.declaration import FigureEntry
from snapdyn.figures.gallery import FIGURES, compute, draw, write
from snapdyn.figures.output import DrawnFigure
from snapdyn.figures.plotting import plot
from snapdyn.figures.style import house_style, new_figure

__all__ = [
    "FIGURES",
    "DrawnFigure",
    "FigureEntry",
    "claim_svg",
    "compute",
    "draw",
    "house_style",
    "new_figure",
    "plot",
    "write",
]
