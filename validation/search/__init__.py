"""Search for counterexamples to statements about all instances: draw, optimise, simplify, store."""

from snapdyn.validation.search.box import Box
from snapdyn.validation.search.counterexamples import Counterexample, load, store, stored_counterexamples
from snapdyn.validation.search.directed import OUTSIDE, Violation, push
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.search.shrinking import shrink

__all__ = [
    "OUTSIDE",
    "Box",
    "Counterexample",
    "Family",
    "Instance",
    "Violation",
    "load",
    "push",
    "shrink",
    "store",
    "stored_counterexamples",
]
