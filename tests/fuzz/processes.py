"""Trials in a process of their own, which may crash, or run on in a library where no signal of Python reaches it."""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np

from snapdyn.core.errors import InputError
from tests.fuzz.conftest import LARGE, SEED

Trial = Callable[[np.random.Generator], str]


def refusal(error: InputError) -> str:
    """How a trial ended that raised InputError."""
    return "refused" if str(error).isprintable() else "several lines"


def endings_of(trial: Trial, small: int, large: int, limit: float) -> Counter[str]:
    """Count how trials ended: as they say, "ended at the limit" (seconds), "crashed", or an exception.

    There are `small` trials in `make test`, `large` ones in `make fuzz`. After a crash or a trial beyond the limit the
    next process goes on with the next trial. Trial i draws from (SEED, i).
    """
    context, count = multiprocessing.get_context("fork"), large if LARGE else small
    ended: Counter[str] = Counter()
    while (first := ended.total()) < count:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_make_trials, args=(trial, range(first, count), sender))
        process.start()
        sender.close()
        try:
            while ended.total() < count:
                if not receiver.poll(limit):
                    ended["ended at the limit"] += 1
                    break
                ended[receiver.recv()] += 1
        except EOFError:
            ended["crashed"] += 1
        process.kill()
        process.join()
        receiver.close()
    print(*(f"{number:,} {how}" for how, number in ended.most_common()), sep=", ")
    return ended


def _make_trials(trial: Trial, numbers: range, sender: Connection) -> None:
    for number in numbers:
        try:
            ending = trial(np.random.default_rng([SEED, number]))
        except Exception as error:
            ending = type(error).__name__
        sender.send(ending)
