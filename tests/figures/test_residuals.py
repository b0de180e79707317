"""Theory laid over SGD: the clock, the curves, and what is refused."""

import json
import math
from typing import Any

import numpy as np
import pytest
import sympy

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    System,
    Trace,
    integrate,
    sgd,
    single_common_token,
    syn_small,
)
from snapdyn.figures.residuals import draw
from snapdyn.figures.style import house_style
from snapdyn.validation.comparison import compare, compute

COMMON = "growth_factor 0 0"
OBSERVABLES = ["loss", "entropy 1", COMMON, "relative_gain 0 2 1"]


def small(**changes: Any) -> Any:
    """A comparison of one second: three classes, one common token, infinitely long sequences."""
    arguments: dict[str, Any] = {
        "classes": single_common_token(3, 2, 0.4, 30),
        "eta_Y": 0.02,
        "eta_Z": 0.02,
        "steps": 4000,
        "seeds": range(12),
        "observables": OBSERVABLES,
        "batch_size": 16,
    }
    return compute(**(arguments | changes))


def test_mean_field_lies_inside_the_seeds_and_a_wrong_clock_does_not() -> None:
    """Assert that the mean field is the seed mean within 5 standard errors and a step; at K times the clock it is not.

    A discrete step acts on the state before it, so SGD lags behind the flow by about a step, and remembers it.
    """
    data = small().sel(observable="growth_factor 0 0")
    mean, error = data.sgd.mean("seed").values, data.sgd.std("seed", ddof=1).values / np.sqrt(12)
    t, theory = data.t.values, data.theory.sel(curve="mean_field").values
    step = np.maximum.accumulate(np.abs(theory - np.interp(t - 1, t, theory)))
    allowed = 5 * error + 1.5 * step + 1e-9
    assert (np.abs(theory - mean) <= allowed).all()
    per_round = np.interp(3 * t, t, theory)
    assert (np.abs(per_round - mean) > allowed).any()


@pytest.mark.parametrize(("seq_len", "momentum"), [(None, 0.9), (50, 0.8)])
def test_descent_follows_the_steps_of_the_trace(seq_len: int | None, momentum: float) -> None:
    """Assert that descent with the momentum and length of a trace errs by less than a third of the mean field.

    The trace is the mean of 40 seeds; what remains is its noise and the second order in 1/(T-1).
    """
    classes, record = single_common_token(3, 2, 0.4, 30), np.arange(0, 61, 3)
    runs = sgd(classes, 0.1, 0.2, 60, 64, seq_len, momentum=momentum, seed=range(40), record=record)
    mean = np.mean([run.attention for run in runs], axis=0)
    trace = Trace(record, mean, batch_size=64, momentum=momentum, seq_len=seq_len or math.inf)
    data = compare(trace, classes, 0.1, 0.2, ["attention 0 1"], ["mean_field", "descent"])
    gaps = np.abs(data.theory - data.sgd.mean("seed")).max(("observable", "step"))
    assert float(gaps.sel(curve="descent")) < float(gaps.sel(curve="mean_field")) / 3


SHARED = SequenceClasses([[0.5, 0.5, 0], [0.5, 0, 0.5]], [0, 0], next_token=[1, 1], vocab_size=9)


@pytest.mark.parametrize(
    ("changes", "drawn"),
    [
        ({}, True),
        ({"curves": [], "optimizer": "adam"}, False),
        ({"curves": [], "init": "uniform"}, False),
        ({"classes": SHARED}, False),
    ],
)
def test_transition_times_stand_only_where_their_theory_applies(changes: dict[str, Any], drawn: bool) -> None:
    """Assert that t* and its kin are drawn for SGD from zero on uniform classes, and not where h is not theirs."""
    data = small(**({"seeds": [0], "steps": 3000, "observables": ["loss"]} | changes))
    assert bool(times := json.loads(data.attrs["transition_times"])) is drawn
    assert set(times) == ({"start", "peak", "end"} if drawn else set())
    with house_style():
        figure = draw(data)
    assert bool(figure.axes[0].texts) is drawn
    named = "Adam" if changes.get("optimizer") == "adam" else "SGD"
    assert f"{named} step" in figure.get_supxlabel()
    assert any(named in text.get_text() for text in figure.legends[0].get_texts())


CLASSES = SequenceClasses([[0.3, 0.7, 0.0], [0.5, 0.0, 0.5]], query=[0, 0], vocab_size=10)


def traced(seeds: int = 3, **parts: Any) -> Trace:
    """A trace of SGD with momentum, of several seeds."""
    record = np.arange(0, 201, 10)
    runs = sgd(CLASSES, 0.05, 0.05, 200, batch_size=64, momentum=0.5, seed=range(seeds), record=record)
    return Trace(record, [run.attention for run in runs], batch_size=64, momentum=0.5, **parts)


def test_theory_lies_over_a_trace_on_its_clock() -> None:
    """Assert what `compute` gives for the same runs: attention, entropy and gains, time, and transition times."""
    observables = ["attention 0 0", "entropy 1", "relative_gain 0 1 0"]
    between = compare(traced(), CLASSES, 0.05, 0.05, observables)
    record = np.arange(0, 201, 10)
    assert between.sizes["step"] > 100
    dataset = between.sel(step=record)
    expected = compute(CLASSES, 0.05, 0.05, 200, range(3), observables, record=record, batch_size=64, momentum=0.5)
    assert np.allclose(dataset.sgd, expected.sgd, rtol=1e-10)
    assert np.allclose(dataset.theory, expected.theory, rtol=1e-10)
    assert np.array_equal(dataset.t, expected.t)
    assert between.sgd.notnull().any(["seed", "observable"]).sum() == record.size
    assert dataset.attrs["transition_times"] == expected.attrs["transition_times"]
    gap = np.abs(dataset.theory.isel(curve=0) - dataset.sgd.median("seed")).max("step")
    wrong = compare(Trace(record, traced().attention, batch_size=64), CLASSES, 0.05, 0.05, observables)
    assert (np.abs(wrong.theory.isel(curve=0) - wrong.sgd.median("seed")).max("step") > 5 * gap).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "adam", "curves": ["mean_field"]}, "curves of Adam.*mean_map, flow"),
        ({"init": "uniform"}, "leave curves empty"),
        ({"classes": syn_small(), "observables": OBSERVABLES[:1], "curves": ["closed_form"]}, "one common token"),
        ({"residual": True, "curves": ["modified_decoder"]}, "mean_field with the residual"),
        ({"curves": ["finite_length"]}, "seq_len with the curve finite_length"),
        ({"curves": ["finite_length"], "seq_len": 1}, "seq_len of at least .*leave finite_length out"),
        ({"observables": ["attention 9 0"]}, "class to be a whole number in 0..2"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, Any], message: str) -> None:
    """Assert one sentence for unknown curves, missing seeds, theory where there is none, wrong observables."""
    with pytest.raises(InputError, match=message):
        small(**({"steps": 5, "seeds": [0]} | changes))


def test_what_a_trace_does_not_have_is_refused() -> None:
    """Assert one sentence for observables that are not those of attention, and for descent between updates."""
    trace = traced()
    for observable, words in (("loss", "trace with attention"), (COMMON, "growth_factor"), ("entropy 5", r"0\.\.1")):
        with pytest.raises(InputError, match=words):
            compare(trace, CLASSES, 0.05, 0.05, [observable])
    between = Trace([0.5, 1.5], trace.attention[0, :2], seq_len=math.inf)
    with pytest.raises(InputError, match="records at whole updates for the curves descent"):
        compare(between, CLASSES, 1.0, 1.0, ["attention 0 1"], ["descent"])


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_trace_is_drawn_with_its_label_and_marks(seeds: int) -> None:
    """Assert the legend, the axis and the marks of transition times; a band for several seeds only."""
    with house_style():
        figure = draw(compare(traced(seeds), CLASSES, 0.05, 0.05))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("trace, 3 seeds, 10-90 %" in labels) == (seeds == 3)
    assert ("trace" in labels) == (seeds == 1)
    assert any("$t^*$" in text.get_text() for text in figure.axes[0].texts)
    assert "trace step" in figure.get_supxlabel()


def test_a_curve_that_would_not_end_is_refused_with_its_number_of_evaluations() -> None:
    """Assert the limit that was set, where attention is 1e12 times as fast as the decoder."""
    run = sgd(syn_small(), 0.5, 0.5, steps=20, seed=[0, 1], batch_size=32, record=range(0, 21, 10))
    with pytest.raises(InputError, match="stopped after 2000 evaluations"):
        compare(Trace.from_runs(run), syn_small(), 1.0, 1e12, most_evaluations=2000)


def test_compare_takes_the_schedule() -> None:
    """Assert that runs of SGD on the expectation lie on the curve of descent, and near the flow at the integral.

    Without the schedule the flow is 5 % or more of the fall of the loss away.
    """
    classes, multipliers = syn_small(), np.linspace(0.0, 1.0, 200)
    run = sgd(classes, 0.1, 0.1, 200, batch_size=None, record=range(0, 201, 20), schedule=multipliers)
    trace = Trace.from_runs(run)
    data = compare(trace, classes, 0.1, 0.1, ["loss"], curves=["mean_field", "descent"])
    fall = float(run.loss[0] - run.loss[-1])
    data = data.sel(step=trace.steps)
    flow, steps = np.abs(data.theory.values[:, 0] - run.loss).max(axis=1)
    assert steps < 1e-12
    assert flow < 0.01 * fall
    without = integrate(MeanField(classes, 0.1, 0.1), trace.steps)
    assert np.abs(without.loss - run.loss).max() > 0.05 * fall
    again = compute(
        classes, 0.1, 0.1, 200, [0], ["loss"], ["mean_field", "descent"], batch_size=None, record=range(0, 201, 20),
        schedule=lambda i: i / 199,
    )  # fmt: skip
    np.testing.assert_allclose(again.theory, data.theory, rtol=1e-9)
    np.testing.assert_allclose(again.t, trace.t, rtol=1e-12)


def test_an_own_system_lies_over_a_trace_of_its_observables() -> None:
    """Assert u' = -k u and its square over noise, between the records too, against exponentials."""
    u, k = sympy.symbols("u k")
    decay = System.from_sympy("Decay", {u: 1.0}, {u: -k * u}, {k: 0.7}, observables={"square": u**2})
    times = np.linspace(0.0, 4.0, 5)
    values = np.exp(-0.7 * times) + 0.01 * np.random.default_rng(0).normal(size=(3, 5))
    data = compare(Trace(times, observables={"u": values, "square": values**2}), decay)
    assert data.observable.values.tolist() == ["u", "square"]
    np.testing.assert_allclose(data.theory.values[0, 0], np.exp(-0.7 * data.step.values), rtol=1e-6)
    np.testing.assert_allclose(data.theory.values[0, 1], np.exp(-1.4 * data.step.values), rtol=1e-6)
    assert data.sizes["step"] > 100
    np.testing.assert_array_equal(data.sel(step=times).sgd[:, 0], values)
    assert "Decay" in [text.get_text() for text in draw(data).legends[0].get_texts()]
    with pytest.raises(InputError, match="trace of observables of Decay, received one of a training run"):
        compare(Trace(times, loss=values), decay)
