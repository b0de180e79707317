"""Evidence for a claim: measured numbers, counts of the instances tried, and what the report shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from snapdyn.core.errors import InputError, choice, instance, list_of, text, whole
from snapdyn.validation.measured import Measured, Role
from snapdyn.validation.pictures import Map, Picture

# Root of all draws of the register; another one searches the same domains again with other instances.
SEED = 2305
LEVELS = ("quick", "full")


@dataclass
class Evidence:
    """What was measured for a claim, and what the report shows of it; a claim's function may add to it.

    Attributes
    ----------
    checks : list of Measured
        Numbers against their bounds; `holds`, `corrected`, `outside` and `control` add one each.
    conclusion : str
        What was found; if empty, the claim's own conclusion is shown, with its numbers.
    picture : Picture or None
        Picture that shows the claim.
    map : Map or None
        Where the statement holds.
    numbers : dict of str to float
        Measured numbers by the names of cases and properties, which a claim's conclusion may insert.
    tried : int
        Number of instances that met the conditions of the claim's searched properties.
    undecided : int
        Number of instances inside the conditions on which a run failed.
    worst : str
        Smallest margins of the searched properties, and the instances where they occur.
    counterexample : dict or None
        Instance on which a searched property fails, simplified.
    level : "quick" or "full"
        How much to measure.
    seed : int
        Root of the draws of the searches.

    Examples
    --------
    >>> import snapdyn as sd
    >>> evidence = sd.Evidence()
    >>> evidence.holds("relative error", "closed form", 2e-9, at_most=1e-8)
    >>> evidence.control("wrong theory: factor K", "closed form", 0.8, at_most=1e-8)
    >>> [check.as_expected for check in evidence.checks]
    [True, True]
    """

    checks: list[Measured] = field(default_factory=list)
    conclusion: str = ""
    picture: Picture | None = None
    map: Map | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    tried: int = 0
    undecided: int = 0
    worst: str = ""
    counterexample: dict[str, Any] | None = None
    level: str = "quick"
    seed: int = SEED

    def __post_init__(self) -> None:
        self.checks = list_of("checks", self.checks, Measured)
        if any(check.role == "condition" for check in self.checks):
            raise InputError(
                "expected numbers of statements and controls as checks, received a condition; leave it out"
            )
        for name in ("conclusion", "worst"):
            text(name, getattr(self, name))
        for name in ("tried", "seed", "undecided"):
            setattr(self, name, whole(name, getattr(self, name), 0))
        choice("level", self.level, LEVELS)
        for name, kind in (("picture", Picture), ("map", Map), ("counterexample", dict)):
            if getattr(self, name) is not None:
                instance(name, getattr(self, name), kind, "leave it out, or give one")

    def holds(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a number of the statement: `measured` is at most, or at least, a bound.

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
        """Add a number of the corrected statement; arguments as those of `holds`."""
        self._add("corrected", what, rung, measured, at_most, at_least)

    def outside(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a number of the statement where its conditions are not met; arguments as those of `holds`.

        The statement is expected to fail there: then the claim is conditional, and the number shows the boundary.
        """
        self._add("outside", what, rung, measured, at_most, at_least)

    def control(
        self, what: str, rung: str, measured: float, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Add a negative control: a number computed from a wrong theory, which must fail; arguments as for `holds`.

        The number must not follow from the statement's own: such a control could not find an error in the statement's
        number, and the verdict says so (`snapdyn.validation.results.verdict_of`).
        """
        self._add("control", what, rung, measured, at_most, at_least)

    def _add(
        self, role: Role, what: str, rung: str, measured: float, at_most: float | None, at_least: float | None
    ) -> None:
        self.checks.append(Measured(measured, at_most, at_least, name=what, rung=rung, role=role))
