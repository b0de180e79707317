"""Validation: the register of claims, checked rung by rung, each with a verdict and a negative control."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snapdyn.validation.evidence import Evidence
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Line, Map, Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import FINDINGS, Claim
from snapdyn.validation.results import ClaimResult, Report
from snapdyn.validation.search import Box, Family, Instance
from snapdyn.validation.statistics import Order, fit_order

if TYPE_CHECKING:
    from snapdyn.validation.boundaries import boundary
    from snapdyn.validation.claims import CLAIMS, claim, load_claims
    from snapdyn.validation.comparison import compare
    from snapdyn.validation.equations import EquationRow, equation_table, equation_text
    from snapdyn.validation.fitting.estimation import IdentifiabilityWarning, fit
    from snapdyn.validation.fitting.result import Fit
    from snapdyn.validation.instance_checks import InstanceReport, InstanceResult, check
    from snapdyn.validation.rungs import ladder, ladder_of
    from snapdyn.validation.rungs.gaps import Break, Ladder, Rung
    from snapdyn.validation.verdicts import validate

__all__ = [
    "CLAIMS",
    "FINDINGS",
    "Box",
    "Break",
    "Claim",
    "ClaimResult",
    "EquationRow",
    "Evidence",
    "Family",
    "Fit",
    "IdentifiabilityWarning",
    "Instance",
    "InstanceReport",
    "InstanceResult",
    "Ladder",
    "Line",
    "Map",
    "Measured",
    "Order",
    "Picture",
    "Property",
    "Report",
    "Requirement",
    "Rung",
    "boundary",
    "check",
    "claim",
    "compare",
    "equation_table",
    "equation_text",
    "fit",
    "fit_order",
    "ladder",
    "ladder_of",
    "load_claims",
    "validate",
]


# What is imported when it is first asked for: the claims take as long to import as all the rest.
_LATER = {
    **dict.fromkeys(("CLAIMS", "claim", "load_claims"), "snapdyn.validation.claims"),
    **dict.fromkeys(("InstanceReport", "InstanceResult", "check"), "snapdyn.validation.instance_checks"),
    **dict.fromkeys(("EquationRow", "equation_table", "equation_text"), "snapdyn.validation.equations"),
    **dict.fromkeys(("ladder", "ladder_of"), "snapdyn.validation.rungs"),
    **dict.fromkeys(("Break", "Ladder", "Rung"), "snapdyn.validation.rungs.gaps"),
    "validate": "snapdyn.validation.verdicts",
    **dict.fromkeys(("IdentifiabilityWarning", "fit"), "snapdyn.validation.fitting.estimation"),
    "Fit": "snapdyn.validation.fitting.result",
    "compare": "snapdyn.validation.comparison",
    "boundary": "snapdyn.validation.boundaries",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
