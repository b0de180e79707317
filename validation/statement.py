"""The words in which claims are written: instances, their runs, measured numbers, properties, pictures, the claim."""

from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Line, Map, Picture
from snapdyn.validation.properties import Measure, Property, Requirement
from snapdyn.validation.register import Claim, Headline
from snapdyn.validation.rungs.run import (
    DESCENT,
    EXACT,
    FINITE_LENGTH,
    LEADING,
    MEAN_FIELD,
    REDUCED,
    SGD,
    run_on_rung,
    runs_on_rung,
)
from snapdyn.validation.search import Box, Family, Instance, flow, load, turned_back

__all__ = [
    "DESCENT",
    "EXACT",
    "FINITE_LENGTH",
    "LEADING",
    "MEAN_FIELD",
    "REDUCED",
    "SGD",
    "Box",
    "Claim",
    "Family",
    "Headline",
    "Instance",
    "Line",
    "Map",
    "Measure",
    "Measured",
    "Picture",
    "Property",
    "Requirement",
    "flow",
    "load",
    "run_on_rung",
    "runs_on_rung",
    "turned_back",
]
