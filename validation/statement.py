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
    flow,
    run_on_rung,
    runs_on_rung,
    turned_back,
)
from snapdyn.validation.search.box import Box
from snapdyn.validation.search.counterexamples import load
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance

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
