"""Attacks with seeded random damage: a small number of trials in `make test`, a large one in `make fuzz`."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, seed, settings

LARGE = os.environ.get("SNAPDYN_FUZZ") == "large"
SEED = int(os.environ.get("SNAPDYN_FUZZ_SEED", "0"))


def searched(small: int, large: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property that hypothesis searches with `small` examples in `make test`, with `large` ones in `make fuzz`.

    `pytest --hypothesis-show-statistics` shows how often the trials ended how.
    """
    chosen = settings(
        deadline=None, database=None, derandomize=not LARGE, max_examples=large if LARGE else small,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    return lambda test: chosen(seed(SEED)(test) if LARGE else test)
