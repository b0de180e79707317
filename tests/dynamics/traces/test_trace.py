"""Traces: shapes, seeds, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import MeanField, SequenceClasses, Trace, integrate, sgd, syn_small

STEPS = [0, 10]
ATTENTION = np.array([[[0.4, 0.6, 0.0], [0.5, 0.0, 0.5]], [[0.3, 0.7, 0.0], [0.4, 0.0, 0.6]]])
CLASSES = SequenceClasses([[0.4, 0.6, 0, 0], [0.5, 0, 0.5, 0]], query=[0, 0])


def test_one_seed_and_several_have_one_shape() -> None:
    """Assert a leading axis of seeds, and columns of zeros for tokens beyond the last recorded one."""
    one, two = Trace(STEPS, ATTENTION, loss=[1.0, 0.5]), Trace(STEPS, [ATTENTION, ATTENTION])
    assert one.attention is not None
    assert one.attention.shape == (1, 2, 2, 3)
    assert two.num_seeds == 2
    fitted = two.for_classes(CLASSES).attention
    assert fitted is not None
    assert fitted.shape == (2, 2, 2, 4)
    assert (fitted[..., 3] == 0).all()


@pytest.mark.parametrize(
    ("seq_len", "finite", "sentence"),
    [
        (127.0, 127, "sequences of 127 tokens"),
        (math.inf, None, "infinitely long sequences"),
        (None, None, "sequences of unknown length: give seq_len = T-1, or inf if they are infinitely long"),
    ],
)
def test_the_length_of_sequences_is_kept(seq_len: float | None, finite: int | None, sentence: str) -> None:
    """Assert that a number, infinity and an unknown length are told apart, also over the tokens of classes."""
    for trace in (stated := Trace(STEPS, ATTENTION, seq_len=seq_len), stated.for_classes(CLASSES)):
        assert trace.seq_len == seq_len
        assert trace.finite_length == finite
        assert repr(trace).endswith(f"; {sentence})")


def test_runs_of_sgd_become_a_trace() -> None:
    """Assert attention, loss, clock and seeds of runs; an integration, or runs of other rates, are refused."""
    classes = syn_small()
    settings: dict[str, Any] = {"batch_size": 8, "momentum": 0.5, "record": [0, 20]}
    runs = sgd(classes, 0.5, 0.5, steps=20, seed=[3, 4], seq_len=50, **settings)
    trace, other = Trace.from_runs(runs), sgd(classes, 0.5, 0.4, steps=20, **settings)
    assert trace.seq_len == 50
    assert Trace.from_runs(other).seq_len == math.inf
    assert trace.attention is not None
    assert trace.loss is not None
    assert np.array_equal(trace.attention[1], runs[1].attention)
    assert np.array_equal(trace.loss[0], runs[0].loss)
    assert (trace.clock.batch_size, trace.clock.momentum) == (8, 0.5)
    with pytest.raises(InputError, match="runs of sgd"):
        Trace.from_runs(integrate(MeanField(classes, 1.0, 1.0), [1.0]))
    with pytest.raises(InputError, match="differ only in their seeds, received eta_Z = "):
        Trace.from_runs([sgd(classes, 0.5, 0.5, steps=20, **settings), other])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": [0, 10, 10]}, "10 before 10"),
        ({"attention": ATTENTION * 1.01}, "sums to 1 .* received 1.01 at step 0, class 0"),
        ({"attention": ATTENTION[0]}, r"shape \(seeds, 2, classes, tokens\)"),
        ({"loss": [[1.0, 1.0], [1.0, 1.0]]}, "equally many seeds"),
    ],
)
def test_wrong_arrays_are_refused(changes: dict[str, Any], sentence: str) -> None:
    """Assert one sentence per wrong array."""
    with pytest.raises(InputError, match=sentence):
        Trace(**({"steps": STEPS, "attention": ATTENTION} | changes))


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (SequenceClasses([[0.4, 0.6], [0.5, 0.5]], query=[0, 0]), "at most 2 tokens"),
        (SequenceClasses([[0.4, 0, 0.6], [0.5, 0, 0.5]], query=[0, 0]), "class 0 to token 1"),
    ],
)
def test_other_classes_are_refused(classes: SequenceClasses, sentence: str) -> None:
    """Assert that the trace must have the classes and supports of the theory."""
    with pytest.raises(InputError, match=sentence):
        Trace(STEPS, ATTENTION).for_classes(classes)


def test_values_that_were_not_recorded() -> None:
    """Assert that NaN is kept and counted; a seed without any value, a part of attention and inf are refused."""
    trace = Trace([0, 1, 2], loss=[[3.0, np.nan, 2.0], [np.nan, 2.5, 2.0]])
    np.testing.assert_array_equal(trace.loss, [[3.0, np.nan, 2.0], [np.nan, 2.5, 2.0]])
    assert repr(trace).endswith("; 2 values not recorded)")
    with pytest.raises(InputError, match=r"loss at one recorded step or more .* none for seed 1 "):
        Trace([0, 1], loss=[[3.0, 2.0], [np.nan, np.nan]])
    with pytest.raises(InputError, match="all tokens of a class or to none, received 1 blank"):
        Trace([0, 1], attention=[[[0.5, 0.5]], [[0.5, np.nan]]])
    with pytest.raises(InputError, match="received inf"):
        Trace([0, 1], loss=[np.inf, 2.0])
