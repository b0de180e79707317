"""Validity maps of the conditional claims: measured violation over two quantities, with the printed conditions."""

from snapdyn.validation.maps.common_logit import common_logit_maps
from snapdyn.validation.maps.fallen_tokens import common_rise_map, distinct_fall_map, slow_attention_map
from snapdyn.validation.maps.momentum import momentum_map
from snapdyn.validation.maps.rates_and_correlation import ratio_correlation_map

__all__ = [
    "common_logit_maps",
    "common_rise_map",
    "distinct_fall_map",
    "momentum_map",
    "ratio_correlation_map",
    "slow_attention_map",
]
