"""Validity maps of the conditional claims: measured violation over two quantities, with the printed conditions."""

from snapdyn.validation.maps.common_logit import common_logit_maps
from snapdyn.validation.maps.fallen_tokens import distinct_fall_map, slow_attention_map
from snapdyn.validation.maps.momentum import momentum_map

__all__ = [
    "common_logit_maps",
    "distinct_fall_map",
    "momentum_map",
    "slow_attention_map",
]
