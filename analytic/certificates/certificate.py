"""What a certificate is: a statement, the inequalities that make it up, and false ones that the prover must refute."""

from __future__ import annotations

from dataclasses import dataclass

from snapdyn.analytic.certificates.prover import Inequality, Proof, prove


@dataclass(frozen=True)
class Statement:
    """A statement on a box that interval proofs can certify.

    Parameters
    ----------
    id : str
        Unique name.
    title : str
        One line.
    source : str
        Equation or lemma of arXiv 2305.16380v4; "own" for a result that is not in the paper.
    words : str
        The statement in words, with its conditions.
    latex : str
        The statement as LaTeX mathematics, without delimiters.
    box : mapping of str to (float, float)
        Ranges of the quantities that `words` names.
    reduction : str
        How the statement follows from the inequalities.
    inequalities : tuple of Inequality
        Together they prove the statement.
    wrong : tuple of Inequality
        Plausible but false statements about the same quantities (negative controls).
    """

    id: str
    title: str
    source: str
    words: str
    latex: str
    box: dict[str, tuple[float, float]]
    reduction: str
    inequalities: tuple[Inequality, ...]
    wrong: tuple[Inequality, ...]

    def run(self, max_boxes: int = 100_000) -> Certificate:
        """Prove every inequality of the statement.

        Parameters
        ----------
        max_boxes : int
            Largest number of sub-boxes for each inequality.

        Returns
        -------
        Certificate

        Examples
        --------
        >>> from snapdyn.analytic.certificates import CERTIFICATES
        >>> certificate = CERTIFICATES["gamma-single-maximum"].run()
        >>> certificate.proved, certificate.failing
        (True, None)
        """
        return Certificate(self, tuple(prove(inequality, max_boxes) for inequality in self.inequalities))


@dataclass(frozen=True)
class Certificate:
    """The result of running a statement's proofs.

    Attributes
    ----------
    statement : Statement
        What was to be proved.
    proofs : tuple of Proof
        One result per inequality.
    """

    statement: Statement
    proofs: tuple[Proof, ...]

    @property
    def id(self) -> str:
        """Id of the statement."""
        return self.statement.id

    @property
    def box(self) -> dict[str, tuple[float, float]]:
        """Ranges of the quantities that the statement names."""
        return self.statement.box

    @property
    def proved(self) -> bool:
        """True if every inequality is proved on its whole box."""
        return all(proof.proved for proof in self.proofs)

    @property
    def boxes(self) -> int:
        """Number of sub-boxes, summed over the inequalities."""
        return sum(proof.boxes for proof in self.proofs)

    @property
    def failing(self) -> Proof | None:
        """The first proof that failed; its ``failing`` is the sub-box. None if all are proved."""
        return next((proof for proof in self.proofs if not proof.proved), None)

    def __str__(self) -> str:
        """Return the result in one sentence."""
        if self.failing is not None:
            return f"{self.id}: {self.failing}"
        return f"{self.id}: certified on {self.boxes} sub-boxes of {len(self.proofs)} inequalities"
