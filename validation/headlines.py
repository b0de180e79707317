"""Headlines: what is printed and what is right, side by side, for the findings that matter most."""

from __future__ import annotations

from dataclasses import dataclass

from snapdyn.errors import text, whole


@dataclass(frozen=True)
class Headline:
    r"""A finding for the first screen of the report: print and recomputation as formulas.

    The sentence above the formulas is the claim's `answer`. How far the two are apart is measured:
    `Evidence.difference`.

    Attributes
    ----------
    rank : int
        Place among the headlines, from 1.
    printed : str
        What the paper prints, as LaTeX.
    recomputed : str
        What holds instead, as LaTeX.

    Raises
    ------
    InputError
        A formula that is no text, or a rank that is no whole number from 1.

    Examples
    --------
    >>> from snapdyn.validation.headlines import Headline
    >>> Headline(1, r"\gamma=O(1/t)", r"\gamma=O(\ln(t)/t)").rank
    1
    """

    rank: int
    printed: str
    recomputed: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", whole("rank", self.rank, 1))
        text("printed", self.printed)
        text("recomputed", self.recomputed)
