"""What systems of the same classes share."""

import copy
import pickle

import numpy as np
import pytest

from snapdyn.dynamics import (
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    integrate,
    syn_medium,
)
from snapdyn.dynamics.classes.kinds import recognised
from snapdyn.dynamics.classes.table import Kept
from snapdyn.dynamics.symmetry import reduction
from snapdyn.dynamics.symmetry.reduction import reduced

BUILDERS = {
    "MeanField": lambda classes, rate, start: MeanField(classes, 1.0, rate, start),
    "MeanField, residual": lambda classes, rate, start: MeanField(classes, 1.0, rate, start, residual=True),
    "FrozenDecoder": lambda classes, rate, start: FrozenDecoder(classes, rate, z_initial=start),
    "ModifiedDecoder": lambda classes, rate, start: ModifiedDecoder(classes, 1.0, rate, z_initial=start),
    "FiniteLengthMeanField": lambda classes, rate, start: FiniteLengthMeanField(classes, 1.0, rate, 1000, start),
}


def like_classes() -> SequenceClasses:
    """Syn-Medium with three queries, whose symmetries have to be found."""
    classes = syn_medium(3)
    return SequenceClasses(classes.P, classes.query, classes.next_token, vocab_size=classes.vocab_size)


def starts(classes: SequenceClasses) -> list[np.ndarray | None]:
    """No start, and three others."""
    one = np.zeros((classes.queries.size, classes.num_tokens))
    one[:, 0] = 0.25
    other = np.zeros_like(one)
    other[0, 0] = 0.25
    return [None, one, 2.0 * one, other]


@pytest.mark.parametrize("name", BUILDERS)
def test_shared_searches_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one search for all rates of each start, and the values of runs that share nothing."""
    searches = []
    monkeypatch.setattr(reduction, "recognised", lambda *each: searches.append(1) or recognised(*each))
    shared, counts, times = like_classes(), [], [1.0, 30.0]
    for start in starts(shared):
        for rate in (0.5, 1.0):
            run = integrate(BUILDERS[name](shared, rate, start), times, reduce=True)
            counts.append(len(searches))
            assert run.stats["state_size"] < run.stats["full_state_size"] or name == "FrozenDecoder"
            alone = integrate(BUILDERS[name](like_classes(), rate, start), times, reduce=True)
            searches.pop()
            assert np.array_equal(run.z if name != "FrozenDecoder" else run.loss,
                                  alone.z if name != "FrozenDecoder" else alone.loss)  # fmt: skip
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_start_of_minus_zero_is_zero() -> None:
    """Assert the layout of zeros."""
    classes = like_classes()
    z = np.zeros((3, classes.num_tokens))
    z[:, ::2] = -0.0
    with_sign = MeanField(like_classes(), 1.0, 1.0, z)
    assert with_sign.size == MeanField(classes, 1.0, 1.0).size
    z[0, 0] = 1.0
    mixed = MeanField(classes, 1.0, 1.0, z)
    assert mixed.size == MeanField(classes, 1.0, 1.0, z + 0.0).size
    assert mixed.initial_state().sum() == 1.0


def test_zeros_are_shared_and_read_only() -> None:
    """Assert that a write to the zeros of one system cannot reach another one."""
    classes = like_classes()
    one, other = MeanField(classes, 1.0, 1.0), MeanField(classes, 1.0, 2.0)
    assert one.z_initial is other.z_initial
    with pytest.raises(ValueError, match="read-only"):
        one.z_initial[0, 0] = 1.0


def test_copies_keep_nothing() -> None:
    """Assert that pickles and deep copies of classes carry no layouts, and that the search is made again for them."""
    classes = like_classes()
    assert reduced(MeanField(classes, 1.0, 1.0)) is not None
    kinds: list[Kept] = [pickle.loads(pickle.dumps(classes)).kept, copy.deepcopy(classes).kept]
    for kept in kinds:
        assert kept.get_or_make(("layout", False), b"", lambda: None) is None
    assert classes.kept.get_or_make(("layout", False), b"", lambda: None) is not None
