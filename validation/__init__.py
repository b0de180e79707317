"""Validation: the register of claims, each checked on rungs of the ladder, with a verdict and a negative control."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snapdyn.validation.measured import Evidence, Measured, NoNumber
from snapdyn.validation.pictures import Line, Map, Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import Claim
from snapdyn.validation.register_folder import OURS
from snapdyn.validation.results import ClaimResult, Report
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.statistics import Order, fit_order

if TYPE_CHECKING:
    from snapdyn.validation.boundaries import boundary
    from snapdyn.validation.claims import CLAIMS, claim, load_claims, use_register
    from snapdyn.validation.claims.equations import EquationRow, equation_table, equation_text
    from snapdyn.validation.comparison import compare
    from snapdyn.validation.fitting.estimation import IdentifiabilityWarning, fit
    from snapdyn.validation.fitting.result import Fit
    from snapdyn.validation.instance_checks import InstanceReport, InstanceResult, check
    from snapdyn.validation.rungs.build import ladder, ladder_of
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
    "NoNumber",
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
    "use_register",
    "validate",
]


FINDINGS = OURS.findings

# What is imported when it is first asked for, by module: the claims take as long to import as all the rest.
_LATER = {
    "claims": "CLAIMS claim load_claims use_register",
    "instance_checks": "InstanceReport InstanceResult check",
    "claims.equations": "EquationRow equation_table equation_text",
    "rungs.build": "ladder ladder_of",
    "rungs.gaps": "Break Ladder Rung",
    "verdicts": "validate",
    "fitting.estimation": "IdentifiabilityWarning fit",
    "fitting.result": "Fit",
    "comparison": "compare",
    "boundaries": "boundary",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
