"""Traces of Adam: their clock, curves over them, and fits."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import snapdyn as sd
from tests.validation.fitting.helpers import TWO_CLASSES, classes_of, trace_of
from tests.validation.fitting.own_sgd import Training, attention_of_runs

ETA = 0.01, 0.015
TRAINING = replace(
    TWO_CLASSES,
    eta_Y=ETA[0],
    eta_Z=ETA[1],
    batch_size=32,
    record=np.unique(np.linspace(20, 300, 16).astype(int)),
    betas=(0.9, 0.999),
)
CLASSES = classes_of(TRAINING)


def adam_trace(attention: np.ndarray, training: Training = TRAINING, **changes: object) -> sd.Trace:
    """The trace of runs of Adam."""
    return trace_of(training, attention, **({"optimizer": "adam"} | changes))


def test_time_counts_updates() -> None:
    """Assert that t counts the updates of Adam, with sequences divided by the batch, and momentum stays SGD's clock."""
    trace = sd.Trace([0, 320, 640], loss=[3.0, 2.0, 1.0], clock="sequences", batch_size=32, optimizer="adam")
    assert trace.t.tolist() == [0, 10, 20]
    assert "updates of Adam" in trace.clock.sentence
    same = [
        sd.Trace([0, 10], loss=[3.0, 2.0], **settings).t[1]
        for settings in ({"momentum": 0.9}, {"optimizer": sd.GradientDescent(0.9)})
    ]
    assert same[0] == same[1] > 10


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"optimizer": "adam", "momentum": 0.5}, "momentum"),
        ({"optimizer": "adam", "clock": "theory"}, "clock"),
        ({"optimizer": {"name": "adam", "beta3": 0.5}}, "beta3"),
        ({"optimizer": {"beta2": 0.5}}, "optimizer"),
    ],
)
def test_a_clock_that_no_rule_has_is_refused(settings: dict[str, object], said: str) -> None:
    """Assert one sentence on settings that do not belong to a rule."""
    with pytest.raises(sd.InputError, match=said):
        sd.Trace([0, 10], loss=[3.0, 2.0], **settings)


def test_mean_map_is_the_mean_of_training() -> None:
    """Assert that the mean map lies within 4 standard errors, and 2e-3 for terms of order 1/B, of a program's mean.

    The map of another memory, and the curves of gradient descent, are rejected.
    """
    values = attention_of_runs(TRAINING, 400, 5)
    mean, error = values.mean(axis=0), 4 * values.std(axis=0) / 20 + 2e-3
    found = [
        sd.compare(
            adam_trace(values[:2], optimizer=rule), CLASSES, *ETA, observables=["attention 1 3"], curves=["mean_map"]
        )
        for rule in (sd.Adam(), sd.Adam(beta2=0.9))
    ]
    off = [
        np.abs(each.theory.sel(step=TRAINING.record).values[0, 0] - mean[:, 1, 3]) / error[:, 1, 3] for each in found
    ]
    assert off[0].max() < 1 < off[1].max()
    with pytest.raises(sd.InputError, match="mean_map"):
        sd.compare(adam_trace(values[:2]), CLASSES, *ETA, curves=["mean_field"])


def test_fit_finds_the_rates_and_tells_adam_from_gradient_descent() -> None:
    """Assert intervals that contain the rates of an own program, and a rejection of SGD that names Adam."""
    trace = adam_trace(attention_of_runs(TRAINING, 1, 2)[0])
    fit = sd.fit(trace, CLASSES)
    assert fit.describes is True
    for name, eta in zip(("eta_Y", "eta_Z"), ETA, strict=True):
        assert abs(fit.estimates[name] - eta) < 4 * fit.standard_errors[name] < 0.1 * eta
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.IdentifiabilityWarning)
        wrong = sd.fit(trace, CLASSES, optimizer="sgd")
    assert wrong.describes is False
    assert any("with Adam the theory describes the trace" in sentence for sentence in wrong.warnings)


@pytest.mark.slow
def test_fit_at_finite_length() -> None:
    """Assert intervals that contain the rates where sequences are finite."""
    training = replace(TRAINING, seq_len=64)
    trace = adam_trace(attention_of_runs(training, 4, 4), training)
    fit = sd.fit(trace, CLASSES, eta_Y=ETA[0], eta_Z=ETA[1])
    for name, eta in zip(("eta_Y", "eta_Z"), ETA, strict=True):
        assert abs(fit.estimates[name] - eta) < 4 * fit.standard_errors[name]
    assert fit.describes is True
