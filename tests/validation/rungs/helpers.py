"""A ladder on a single common token."""

from functools import cache

from snapdyn.dynamics import (
    log_times,
    single_common_token,
)
from snapdyn.validation import Ladder, ladder

K, ETA = 3, 0.05
ETA_Z = ETA / 20
# V = K and slow attention keep the modified decoder near the mean field, so that every rung down to it holds.
CLASSES = single_common_token(K, 4, 0.05, K)
TIMES = log_times(1.0, 4000.0, 25)


@cache
def whole() -> Ladder:
    """The ladder on these classes, every rung."""
    return ladder(CLASSES, ETA, ETA_Z, TIMES, tolerance=0.1, seeds=16, batch_size=4)
