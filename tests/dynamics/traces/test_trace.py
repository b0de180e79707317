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


def test_classes_that_no_seed_has() -> None:
    """Assert that a class may be NaN in all seeds, but not in one of two, nor all classes."""
    entropy = np.array([[[0.6, np.nan], [0.5, np.nan]], [[0.6, np.nan], [np.nan, np.nan]]])
    np.testing.assert_array_equal(Trace(STEPS, entropy=entropy).entropy, entropy)
    one = entropy.copy()
    one[0, 1, 1] = 0.3
    with pytest.raises(InputError, match="in all seeds or in none, received none for seed 1, class 1"):
        Trace(STEPS, entropy=one)
    with pytest.raises(InputError, match="received none for seed 0, class 0"):
        Trace(STEPS, entropy=np.full((2, 2), np.nan))
    fitted = Trace(STEPS, np.where([[True], [False]], ATTENTION, np.nan)).for_classes(CLASSES).attention
    assert fitted is not None
    np.testing.assert_array_equal(np.isnan(fitted[0, 0]), [[False] * 4, [True] * 4])


H = [0.6730, 0.6931]  # of the rows of CLASSES, nats: -.4 ln .4 - .6 ln .6, and ln 2


@pytest.mark.parametrize(
    ("steps", "factor", "changes", "is_refused"),
    [
        ([0, 10], 1 / math.log(2), {}, True),
        ([0, 10], 1.0, {}, False),
        ([0, 10], 1.03 / math.log(2), {}, False),
        ([1, 10], 1 / math.log(2), {}, False),  # no start
        ([0, 10], 1 / math.log(2), {1: 0.3}, False),  # one class is no H/ln 2
    ],
)
def test_entropy_in_bits(steps: list[int], factor: float, changes: dict[int, float], is_refused: bool) -> None:
    """Assert that first entropies that are those of P in bits are refused, and no others."""
    first = [changes.get(n, factor * H[n]) for n in range(2)]
    trace = Trace(steps, entropy=[first, [0.5, 0.5]])
    if is_refused:
        with pytest.raises(InputError, match=r"the same in bits.* multiply entropy by ln 2"):
            trace.for_classes(CLASSES)
    else:
        assert trace.for_classes(CLASSES).entropy is not None


def test_entropy_of_a_class_with_one_token_is_no_evidence_of_bits() -> None:
    """Assert that an entropy of 0, and one that the recorded attention confirms, are taken as they are."""
    classes = SequenceClasses([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]], query=[0, 0])
    assert Trace(STEPS, entropy=[[np.nan, 0.0], [0.1, 0.0]]).for_classes(classes).entropy is not None
    p = 0.1791  # another start, whose entropy is H(P_0)/ln 2
    attention = np.array([[[1 - p, p, 0], [0, 0, 1]]] * 2)
    entropy = [[-p * math.log(p) - (1 - p) * math.log(1 - p), 0.0]] * 2
    assert Trace(STEPS, attention, entropy=entropy).for_classes(classes).entropy is not None
    with pytest.raises(InputError, match="in bits"):
        Trace(STEPS, entropy=entropy).for_classes(classes)


def test_observables_of_a_system() -> None:
    """Assert times, one seed and several, and the text; classes are refused."""
    trace = Trace([0.0, 0.5, 2.0], observables={"u": [1.0, -2.0, np.nan], "v": [[3, 4, 5]]})
    assert trace.t.tolist() == [0.0, 0.5, 2.0]
    np.testing.assert_array_equal(trace.observables["u"], [[1.0, -2.0, np.nan]])
    assert (trace.num_seeds, trace.attention, trace.loss, trace.entropy) == (1, None, None, None)
    assert repr(trace) == "Trace(1 seed, 3 steps, t = 0..2, u, v; times of a system; 1 values not recorded)"
    assert Trace([0, 1], observables={"u": np.ones((7, 2))}).num_seeds == 7
    with pytest.raises(InputError, match=r"the observables .*'u', 'v'.*; give the system"):
        trace.for_classes(CLASSES)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"observables": {"u": [1, 2]}, "loss": [1, 2]}, "received loss too"),
        ({"observables": {"u": [1, 2]}, "clock": "sequences"}, "received clock too"),
        ({"observables": {"u": [1, 2, 3]}}, r"u .* shape \(seeds, 2\)"),
        ({"observables": {}}, "received none"),
        ({"observables": {3: [1, 2]}}, "each name of observables"),
    ],
)
def test_wrong_observables_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    """Assert one sentence per fault."""
    with pytest.raises(InputError, match=sentence) as error:
        Trace([0, 1], **arguments)
    assert "\n" not in str(error.value)


def test_the_clock_of_a_schedule() -> None:
    """Assert t as the sum of the multipliers, of numbers and with sequences; from runs; and what is refused."""
    multipliers = np.array([0.0, 0.5, 1.0, 2.0, 0.25])
    sums = [0.0, 0.0, 0.5, 1.5, 3.5, 3.75]
    settings: dict[str, Any] = {"loss": np.ones(6), "schedule": multipliers}
    constant = Trace([0, 1, 5], loss=[1, 1, 1], schedule=32)
    assert constant.t.tolist() == [0.0, 32.0, 160.0]
    assert constant.clock.sentence == "i updates; t = 32 i batch-size-1 steps"
    assert Trace(4 * np.arange(6), clock="sequences", batch_size=4, **settings).t.tolist() == sums
    assert Trace([0, 2], loss=[1, 1], schedule=lambda i: np.where(i < 1, 0.5, 3.0)).t.tolist() == [0.0, 3.5]
    runs = sgd(syn_small(), 0.1, 0.1, 5, seed=[0, 1], schedule=multipliers)
    assert Trace.from_runs(runs).t.tolist() == sums
    with pytest.raises(InputError, match=r"received schedule = .* and None"):
        Trace.from_runs([runs[0], sgd(syn_small(), 0.1, 0.1, 5)])
    with pytest.raises(InputError, match=r"schedule of shape \(6,\) or longer, received \(5,\)"):
        Trace([0, 6], loss=[1, 1], schedule=multipliers)
    with pytest.raises(InputError, match="no schedule with clock='theory'"):
        Trace([0, 5], loss=[1, 1], clock="theory", schedule=multipliers)
