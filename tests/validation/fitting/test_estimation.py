"""Fits: traces of SGD are described, those of Adam are not, and intervals contain the truth as often as they say."""

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    ModifiedDecoder,
    SequenceClasses,
    Trace,
    read_trace,
    sgd,
    single_common_token,
)
from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.plotting import plot
from snapdyn.validation import Fit, IdentifiabilityWarning, fit
from tests.helpers import ROOT
from tests.validation.fitting.own_sgd import Training, attention_of_runs

CLASSES = SequenceClasses([[0.3, 0.7, 0.0], [0.5, 0.0, 0.5]], query=[0, 0], prior=[0.35, 0.65])
ETA_Y, ETA_Z = 0.04, 0.08
RECORD = np.linspace(125, 1000, 8).astype(int)
STILL = np.repeat(CLASSES.P.toarray()[None], RECORD.size, axis=0)
TORCH = SequenceClasses([[0.3, 0.45, 0.25, 0, 0], [0.4, 0, 0, 0.4, 0.2]], query=[0, 0], vocab_size=20)


def ensemble(runs: int, batch_size: int, seed: int = 0, classes: SequenceClasses = CLASSES) -> Floats:
    """Attention (runs, N, S, M) of SGD on infinite sequences by a program of its own, many seeds at once."""
    P, query, V = classes.P.toarray(), classes.query, classes.vocab_size
    training = Training(P, query, classes.prior, V, ETA_Y, ETA_Z, 0.0, batch_size, math.inf, RECORD)
    return attention_of_runs(training, runs, seed)


def covers(result: Fit, truth: dict[str, float]) -> list[bool]:
    """Whether the 90 % intervals contain the truth."""
    intervals = result.interval(0.9)
    return [intervals[name][0] <= value <= intervals[name][1] for name, value in truth.items()]


@pytest.mark.slow
def test_intervals_contain_the_truth_as_often_as_they_say() -> None:
    """Assert that of 20 intervals of 90 % at least 69.9 % contain each rate: 3 binomial standard deviations.

    Estimates of the flow alone, without the correction for finite steps, fail the same criterion for eta_Z. The test
    of the residuals rejects at most 4 of 20 at the level 0.05 (expected: 1, and 3 standard deviations).
    """
    truth, covered, rejected, uncorrected = {"eta_Y": ETA_Y, "eta_Z": ETA_Z}, [], 0, []
    for attention in ensemble(20, batch_size=2000):
        result = fit(Trace(RECORD, attention, batch_size=2000, seq_len=math.inf), CLASSES, **truth)
        covered.append(covers(result, truth))
        rejected += not result.describes
        lowest, highest = (end + result.finite_step_bias["eta_Z"] for end in result.interval(0.9)["eta_Z"])
        uncorrected.append(lowest <= ETA_Z <= highest)
    share = np.mean(covered, axis=0)
    assert (share > 0.9 - 3 * np.sqrt(0.09 / 20)).all(), share
    assert rejected <= 4
    assert np.mean(uncorrected) < 0.9 - 3 * np.sqrt(0.09 / 20)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::snapdyn.validation.IdentifiabilityWarning")
@pytest.mark.parametrize(
    ("eta", "batch_size", "said"), [(0.005, 1, "not testable"), (0.02, 64, "this theory describes")]
)
def test_sgd_is_described_and_adam_is_not(eta: float, batch_size: int, said: str) -> None:
    """Assert the verdict of the residual test on runs of both optimisers at the same settings.

    A single run of batch size 1 at the small rate has too much noise for a test. Nor does Eq. (10) with the modified
    decoder describe SGD, whatever its rates (finding F4).
    """
    record = np.unique(np.geomspace(40, 1200, 25).astype(int))
    sgd_trace, adam_trace = (
        Trace(
            record,
            sgd(TORCH, eta, eta, 1200, batch_size=batch_size, optimizer=optimizer, record=record).attention,
            batch_size=batch_size,
            seq_len=math.inf,
        )
        for optimizer in ("sgd", "adam")
    )
    result = fit(sgd_trace, TORCH)
    assert result.sentence.startswith(said)
    assert abs(result.estimates["eta_Y"] / eta - 1) < 0.1
    assert not fit(adam_trace, TORCH).describes
    if batch_size == 64:
        assert not fit(adam_trace, TORCH, errors="simulation").describes
        assert not fit(sgd_trace, TORCH, system=ModifiedDecoder, eta_Y=eta, eta_Z=eta).describes


@pytest.mark.slow
def test_the_trace_of_the_documentation() -> None:
    """Assert that the PyTorch trace gives back its rates, and that the wrong clock (no momentum) is rejected."""
    path = ROOT / "examples" / "trace_torch.npz"
    result = fit(read_trace(path, batch_size=64, momentum=0.5, seq_len=math.inf), TORCH)
    assert result.describes
    assert result.num_seeds == 4
    for name, value in (("eta_Y", 0.05), ("eta_Z", 0.1)):
        assert abs(result.estimates[name] - value) < 3 * result.standard_errors[name]
    assert "t = [i - 0.5" in result.clock
    assert not fit(read_trace(path, batch_size=64, seq_len=math.inf), TORCH).describes


THREE = SequenceClasses(
    [[0.3, 0.4, 0.3, 0, 0, 0, 0], [0.3, 0, 0, 0.5, 0.2, 0, 0], [0.3, 0, 0, 0, 0, 0.35, 0.35]],
    query=[0, 0, 0],
    vocab_size=30,
)


@pytest.mark.long
def test_short_sequences_of_unknown_length_are_not_described() -> None:
    """Assert that the theory of infinite length is rejected, and that the length and the rates of 100 tokens are named.

    Sequences of 100 tokens, batches of 4. One warning names the unknown length.
    """
    record = np.unique(np.geomspace(5, 400, 24).astype(int))
    runs = sgd(THREE, 0.3, 0.05, 400, batch_size=4, seq_len=100, seed=range(16), record=record)
    trace = Trace(record, [run.attention for run in runs], batch_size=4, seq_len=None)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        result = fit(trace, THREE)
    assert not result.describes
    assert result.sentence.startswith("this theory does not describe this trace")
    (said,) = [sentence for sentence in result.warnings if "length of the sequences is unknown" in sentence]
    assert sum(str(each.message) == said for each in raised) == 1
    assert "those of 100 describe the trace best, with eta_Y = 0.29" in said
    assert "eta_Z = 0.0497; the trace does not tell them from 300" in said


@pytest.mark.slow
def test_what_early_curves_fix_is_told() -> None:
    """Assert that early curves, which fix eta_Y eta_Z alone, name the product and what would fix the rest."""
    training = Training(TORCH.P.toarray(), TORCH.query, TORCH.prior, 20, 0.05, 0.1, 0.0, 8, math.inf, np.arange(2, 13))
    trace = Trace(training.record, attention_of_runs(training, 1, 3), batch_size=8, seq_len=math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        result = fit(trace, TORCH)
    assert any("eta_Y is not determined" in sentence for sentence in result.warnings)
    assert any("the trace does not tell these estimates from eta_Y" in sentence for sentence in result.warnings)
    assert not result.describes
    (best, error), (_, other) = result.combinations
    assert best.startswith("eta_Y eta_Z")
    assert error < 0.05
    assert other > 0.5
    assert "records up to 10 times as late would divide the largest standard error by" in str(result)
    lower, upper = result.interval(0.9)["eta_Y"]
    assert lower < 0.05 < upper
    values, rises = result.profile("eta_Y")
    assert rises[values.size // 2] == 0.0
    assert (rises >= -1e-6).all()
    assert plot(result).get_ylabel() == "rise of the weighted squares"


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Ten seeds of SGD, classes of one common token."""
    runs = sgd(single_common_token(2, 2, 0.3), 0.04, 0.08, 1000, batch_size=100, seed=range(10), record=RECORD)
    return Trace.from_runs(runs)


@pytest.mark.slow
def test_other_free_parameters(trace: Trace) -> None:
    """Assert the clock with a rate fixed, the common probability from other classes, and the entropy alone."""
    classes = single_common_token(2, 2, 0.3)
    clock = fit(trace, classes, free=("eta_Y", "clock"), eta_Z=0.16)
    assert abs(clock.estimates["clock"] - 0.5) < 0.02
    assert abs(clock.estimates["eta_Y"] / 0.08 - 1) < 0.05
    free = ("eta_Y", "eta_Z", "common_probability")
    common = fit(trace, single_common_token(2, 2, 0.4), free=free, eta_Y=0.04, eta_Z=0.08)
    assert abs(common.estimates["common_probability"] - 0.3) < 0.005
    entropy = fit(trace, classes, quantity="entropy", eta_Y=0.04, eta_Z=0.08)
    assert abs(entropy.estimates["eta_Z"] / 0.08 - 1) < 0.05


@pytest.mark.slow
def test_what_is_not_determined_is_said() -> None:
    """Assert the warning for the loss alone, on which the rate of attention has hardly an effect."""
    classes = single_common_token(2, 2, 0.3)
    run = sgd(classes, 0.04, 0.004, 500, batch_size=4, record=np.arange(0, 501, 25))
    trace = Trace(run.t, loss=run.loss, batch_size=4, seq_len=math.inf)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        result = fit(trace, classes, eta_Y=0.04, eta_Z=0.004)
    assert [str(each.message) for each in raised if each.category is IdentifiabilityWarning] == [
        sentence for sentence in result.warnings if "wider than needed" not in sentence
    ]
    assert abs(result.estimates["eta_Y"] / 0.04 - 1) < 0.2
    assert any("eta_Z is not determined" in sentence for sentence in result.warnings), result.warnings


def test_ctrl_c_ends_a_fit_with_momentum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Ctrl-C while the mean path is made leaves `fit`, and is not taken for steps that diverge."""

    def interrupted(*arguments: Any, **options: Any) -> Any:
        return SimpleNamespace(status="interrupted", success=False, message="interrupted")

    monkeypatch.setattr("snapdyn.dynamics.traces.noise.descend", interrupted)
    trace = Trace(RECORD, ensemble(1, 8), batch_size=8, momentum=0.5, seq_len=math.inf)
    with pytest.raises(KeyboardInterrupt):
        fit(trace, CLASSES, errors="noise")


@pytest.mark.long
def test_short_sequences_are_simulated() -> None:
    """Assert eta_Y within 10 % for sequences of 20 tokens, where the expansion in the length is 15 % too low."""
    P = np.array([[0.3, 0.5, 0.2, 0, 0], [0.3, 0, 0, 0.4, 0.3]])
    query, prior = np.zeros(2, int), np.full(2, 0.5)
    training = Training(P, query, prior, 30, 0.2, 0.1, 0.0, 32, 20, np.arange(20, 401, 20))
    trace = Trace(training.record, attention_of_runs(training, 4, 1), batch_size=32, seq_len=20)
    classes = SequenceClasses(P, query, vocab_size=30)
    assert abs(fit(trace, classes).estimates["eta_Y"] / 0.2 - 1) < 0.1
    with pytest.warns(IdentifiabilityWarning, match="no runs were simulated"):
        by_noise = fit(trace, classes, errors="noise")
    assert by_noise.estimates["eta_Y"] < 0.18


def test_a_start_far_off_is_told(trace: Trace) -> None:
    """Assert the limit of the search for a start 100 times too low, and the clock found from no start at all."""
    classes = single_common_token(2, 2, 0.3)
    with pytest.warns(IdentifiabilityWarning, match="if a start was given, give another one"):
        fit(trace, classes, eta_Y=0.0004, eta_Z=0.0008, errors="seeds")
    found = fit(trace, classes, free="clock", eta_Y=0.4, eta_Z=0.8, errors="noise")
    assert abs(found.estimates["clock"] / 0.1 - 1) < 0.02


@pytest.mark.parametrize("mu", [0.8, 0.99])
def test_momentum_does_not_bias_the_estimates(mu: float) -> None:
    """Assert rates to 1e-6 from descent with velocity and without noise, where the flow errs by 2 to 40 %."""
    P, prior = np.array([[0.35, 0.4, 0.25, 0, 0], [0.15, 0, 0, 0.6, 0.25]]), np.array([0.4, 0.6])
    record = np.arange(10, 601, 30)
    training = Training(P, np.zeros(2, int), prior, 30, 0.02, 0.03, mu, math.inf, math.inf, record)
    (curves,) = attention_of_runs(training, 1, 0)
    trace = Trace(record, attention=curves, clock="updates", batch_size=5000, momentum=mu, seq_len=math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        found = fit(trace, SequenceClasses(P, [0, 0], prior=prior, vocab_size=30), errors="noise")
    assert found.estimates == pytest.approx({"eta_Y": 0.02, "eta_Z": 0.03}, rel=1e-6)
    assert abs(found.finite_step_bias["eta_Z"]) > 0.02 * 0.03


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"free": ("eta_Y", "eta_Z", "clock")}, "exactly degenerate"),
        ({"free": ("eta_Y",)}, "eta_Z free or given"),
        ({"free": ("eta_Y", "eta_Z", "common_probability")}, "the same probability of common tokens"),
        ({"common_probability": 0.3}, "only where it is free"),
        ({"system": ModifiedDecoder, "errors": "simulation"}, "another theory .ModifiedDecoder. or clock"),
        ({"trace": Trace(RECORD, [STILL] * 8), "errors": "seeds"}, "seeds that differ, received 8 equal ones"),
        ({"trace": Trace(RECORD, STILL, seq_len=5), "system": ModifiedDecoder}, "math.inf for ModifiedDecoder"),
        ({"trace": Trace([1, 2, 3, 4], [[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]] * 4)}, "attention above 0"),
        (
            {"trace": Trace(RECORD, np.ones((8, 1, 1))), "classes": SequenceClasses([[1.0]], query=[0], vocab_size=3)},
            "expected attention that changes over the records",
        ),
        ({"trace": Trace(RECORD, loss=1.0 / RECORD, seq_len=20)}, "errors='seeds' for a fit of the loss at finite"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    """Assert one sentence per wrong argument, before anything is integrated."""
    with pytest.raises(InputError, match=sentence):
        fit(**({"trace": Trace(RECORD, STILL), "classes": CLASSES} | arguments))


NARROW = SequenceClasses([[0.8, 0.15, 0.05, 0, 0], [0.8, 0, 0, 0.12, 0.08]], query=[0, 0], vocab_size=50304)


@pytest.mark.filterwarnings("ignore::snapdyn.validation.IdentifiabilityWarning")
@pytest.mark.parametrize(
    ("steps", "power", "scale"),
    [([0, 1, 2, 4, 7, 14, 26, 50], None, 100), (range(250, 2250, 250), 0.5, 50), (range(0, 400, 50), 0.3, 1)],
)
def test_a_loss_that_no_rates_give_gets_an_answer(steps: Any, power: float | None, scale: float) -> None:
    """Assert that power laws from ln V to 4.4 are not described, also where flow or noise fail at the best rates."""
    start, step = math.log(50304), np.array(steps, dtype=float)
    if power is None:  # loss = start (1 + step/scale)^-b, 4.4 at the end
        loss = start * (1 + step / scale) ** (math.log(4.4 / start) / math.log1p(step[-1] / scale))
    else:
        fall = (1 + step / scale) ** -power
        loss = 4.4 + (start - 4.4) * (fall - fall[-1]) / (1 - fall[-1])
    result = fit(Trace(step, loss=loss, batch_size=480, seq_len=math.inf), NARROW)
    assert not result.describes
    assert result.sentence.startswith("this theory does not describe")
    assert np.isfinite(result.residuals).all()


@pytest.mark.slow
def test_a_record_that_a_seed_lacks_is_left_out() -> None:
    """Assert that blanks of single seeds give the same fit as the trace without these steps, and no NaN."""
    attention = ensemble(4, batch_size=2000)
    blank = attention.copy()
    blank[1, 2], blank[3, 5, 0] = np.nan, np.nan  # a whole record, and one class
    kept = np.delete(np.arange(RECORD.size), [2, 5])
    options: dict[str, Any] = {"batch_size": 2000, "seq_len": math.inf}
    with_blanks = fit(Trace(RECORD, blank, **options), CLASSES, eta_Y=ETA_Y, eta_Z=ETA_Z)
    without = fit(Trace(RECORD[kept], attention[:, kept], **options), CLASSES, eta_Y=ETA_Y, eta_Z=ETA_Z)
    assert with_blanks.estimates == without.estimates
    assert with_blanks.standard_errors == without.standard_errors
    assert with_blanks.p_value == without.p_value
    np.testing.assert_array_equal(with_blanks.t, without.t)
    every = fit(Trace(RECORD, attention, **options), CLASSES, eta_Y=ETA_Y, eta_Z=ETA_Z)
    assert every.estimates != without.estimates
    blank[2, ::2] = np.nan
    with pytest.raises(InputError, match="number of records of attention of every seed after t = 0"):
        fit(Trace(RECORD, blank, **options), CLASSES)
