"""Validation: the register of claims, checked rung by rung, each with a verdict and a negative control."""

from snapdyn.validation.findings import FINDINGS
from snapdyn.validation.register import CLAIMS, claim
from snapdyn.validation.results import Check, ClaimResult, Line, Picture, Report
from snapdyn.validation.run import validate

__all__ = ["CLAIMS", "FINDINGS", "Check", "ClaimResult", "Line", "Picture", "Report", "claim", "validate"]
