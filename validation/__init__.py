"""Validation: the register of claims, checked rung by rung, each with a verdict and a negative control."""

from snapdyn.validation.equations import EquationRow, equation_table, equation_text
from snapdyn.validation.findings import FINDINGS
from snapdyn.validation.register import CLAIMS, Evidence, claim, load_claims
from snapdyn.validation.results import Check, ClaimResult, Line, Map, Picture, Report
from snapdyn.validation.run import validate
from snapdyn.validation.rungs.gaps import Break, Ladder, Rung
from snapdyn.validation.rungs.runs import ladder
from snapdyn.validation.statistics import Order, fit_order

__all__ = [
    "CLAIMS",
    "FINDINGS",
    "Break",
    "Check",
    "ClaimResult",
    "EquationRow",
    "Evidence",
    "Ladder",
    "Line",
    "Map",
    "Order",
    "Picture",
    "Report",
    "Rung",
    "claim",
    "equation_table",
    "equation_text",
    "fit_order",
    "ladder",
    "load_claims",
    "validate",
]
