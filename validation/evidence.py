"""Evidence for a claim: checks, conclusion, pictures, collected by the claim's function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from snapdyn.errors import InputError, choice, instance, list_of, shown, text, whole
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Check, Role
from snapdyn.validation.pictures import Map, Picture

# Root of all draws of the register; another one searches the same domains again with other instances.
SEED = 2305
LEVELS = ("quick", "full")
# Rung of interval proofs.
CERTIFIED = "interval proof"


@dataclass
class Evidence:
    """What a claim's function measures: checks, with at least one negative control, and what to show of them.

    Attributes
    ----------
    checks : list of Check
        `holds`, `corrected`, `outside` and `control` add one each.
    conclusion : str
        One sentence with the numbers.
    difference : str
        For a claim with a headline: how far print and recomputation are apart, with the measured numbers.
    picture : Picture or None
        Picture that shows the claim.
    conditions : list of Condition
        Assumptions as evaluated on an instance.
    maps : list of Map
        Where the statement holds.
    seeds : list of int
        Seeds of everything random, besides `seed`.
    tried : int
        Number of instances that met the conditions of the claim's searched properties.
    level : "quick" or "full"
        How much to measure.
    seed : int
        Root of the draws of the searches.
    undecided : int
        Number of instances inside the conditions on which a run failed.
    worst : str
        Smallest margins of the searched properties, and where.
    counterexample : dict or None
        Instance on which a searched property fails, simplified.

    Examples
    --------
    >>> import snapdyn as sd
    >>> evidence = sd.Evidence()
    >>> evidence.holds("relative error", "closed form", 2e-9, at_most=1e-8)
    >>> evidence.control("wrong theory: factor K", "closed form", 0.8, at_most=1e-8)
    >>> [check.as_expected for check in evidence.checks]
    [True, True]
    """

    checks: list[Check] = field(default_factory=list)
    conclusion: str = ""
    picture: Picture | None = None
    conditions: list[Condition] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    tried: int = 0
    level: str = "quick"
    seed: int = SEED
    undecided: int = 0
    worst: str = ""
    counterexample: dict[str, Any] | None = None
    difference: str = ""

    def __post_init__(self) -> None:
        kinds = {"checks": Check, "conditions": Condition, "maps": Map, "seeds": int}
        for name, kind in kinds.items():
            setattr(self, name, list_of(name, getattr(self, name), kind))
        for name in ("conclusion", "worst", "difference"):
            text(name, getattr(self, name))
        for name in ("tried", "seed", "undecided"):
            setattr(self, name, whole(name, getattr(self, name), 0))
        choice("level", self.level, LEVELS)
        if self.picture is not None:
            instance("picture", self.picture, Picture, "give a snapdyn.Picture, or None")
        if self.counterexample is not None:
            instance("counterexample", self.counterexample, dict, "give Instance.to_dict(), or None")

    @property
    def full(self) -> bool:
        """Whether the level is "full"."""
        return self.level == "full"

    def holds(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a check of the statement: `measured` is at most, or at least, a bound.

        Parameters
        ----------
        what : str
            What is measured, with the settings.
        rung : str
            Where on the ladder: "closed form", "modified decoder", "mean field", "descent", "SGD", ...
        measured : float
            The measured number.
        at_most : float, optional
            Largest allowed number; give it or `at_least`.
        at_least : float, optional
            Smallest allowed number.

        Raises
        ------
        InputError
            Not exactly one bound is given.
        """
        self._add("statement", what, rung, measured, at_most, at_least)

    def corrected(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a check of the corrected statement; arguments as those of `holds`."""
        self._add("corrected", what, rung, measured, at_most, at_least)

    def outside(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a check of the statement where its conditions are not met; arguments as those of `holds`.

        It is expected to fail: then the claim is conditional, and the check shows the boundary.
        """
        self._add("outside", what, rung, measured, at_most, at_least)

    def control(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a negative control: a number computed from a wrong theory, which must fail; arguments as for `holds`.

        The number must not follow from the statement's own number: such a control could not find an error in it, and
        the verdict says so (`snapdyn.validation.verdicts.verdict_of`).
        """
        self._add("control", what, rung, measured, at_most, at_least)

    def proved(self, *derivations: str, corrected: bool = False) -> None:
        """Add the check that sympy leaves no residual of `derivations` (ids of `snapdyn.analytic.symbolic`).

        Parameters
        ----------
        *derivations : str
            Ids of derivations.
        corrected : bool
            Whether they show the corrected statement.
        """
        from snapdyn.validation.symbolic_checks import residuals

        derivations = tuple(text("the id of a derivation", id_) for id_ in derivations)
        name = f"residuals sympy cannot bring to zero ({', '.join(derivations)})"
        self._add("corrected" if corrected else "statement", name, "symbolic", residuals(*derivations), 0, None)

    def certified(self, *certificates: str, corrected: bool = False) -> None:
        """Add interval proofs (ids of `snapdyn.analytic.certificates`), and their false inequalities as controls.

        Parameters
        ----------
        *certificates : str
            Ids of certificates.
        corrected : bool
            Whether they show the corrected statement.
        """
        from snapdyn.analytic.certificates import CERTIFICATES, prove

        for id_ in certificates:
            choice("the id of a certificate", id_, CERTIFICATES)
            statement = CERTIFICATES[id_]
            found = statement.run()
            left = sum(not proof.proved for proof in found.proofs)
            place = f"; {found.failing}" if found.failing else f", {found.boxes} sub-boxes"
            name = f"inequalities that the interval proof {id_} leaves open{place}"
            self._add("corrected" if corrected else "statement", name, CERTIFIED, left, 0, None)
            for wrong in statement.wrong:
                proof = prove(wrong)
                self._add("control", f"false inequality: {proof}", CERTIFIED, not proof.proved, 0, None)

    def misprint(self, derivation: str, what: str) -> None:
        """Add the control that the printed right-hand side of a derivation leaves a residual in sympy."""
        from snapdyn.validation.symbolic_checks import printed_residuals

        self._add("control", what, "symbolic", printed_residuals(derivation), 0, None)

    def _add(
        self, role: Role, what: str, rung: str, measured: float, at_most: float | None, at_least: float | None
    ) -> None:
        text("what is checked", what)
        if (at_most is None) == (at_least is None):
            raise InputError(
                f"expected at_most or at_least for the check {shown(what)}, received both or none; give one"
            )
        relation: Literal["<=", ">="] = "<=" if at_least is None else ">="
        bound = at_most if at_least is None else at_least
        self.checks.append(Check(what, rung, measured, bound, relation, role))  # type: ignore[arg-type]
