"""Search for counterexamples to statements about all instances: domains, instances, runs, simpler ones."""

from snapdyn.validation.search.box import Box
from snapdyn.validation.search.counterexamples import Counterexample, load, shrink, stored_counterexamples
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance

__all__ = ["Box", "Counterexample", "Family", "Instance", "load", "shrink", "stored_counterexamples"]
