"""Systems of ordinary differential equations that `integrate` solves, one per file."""

from snapdyn.core.registry import Registry
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder
from snapdyn.dynamics.systems.own.symbolic import from_sympy
from snapdyn.dynamics.systems.own.user_function import from_function
from snapdyn.dynamics.systems.rule_flow import RuleFlow
from snapdyn.dynamics.systems.single_common_token import SingleCommonToken

__all__ = ["SYSTEMS"]

System.from_sympy = staticmethod(from_sympy)
System.from_function = staticmethod(from_function)
MeanField.of_rule = RuleFlow

SYSTEMS: Registry[type[System]] = Registry(
    "system",
    lambda system: system.__name__,
    [MeanField, FiniteLengthMeanField, FrozenDecoder, ModifiedDecoder, SingleCommonToken],
    lambda given: given if isinstance(given, type) else type(given),
)
"""Systems that run files and sweeps can name; `SYSTEMS.add` adds a user's system."""
