"""Phase diagrams: what is measured, where the theory's lines lie, what is refused."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import snapdyn as sd
from snapdyn.analytic import (
    largest_ladder_gap,
    transition_time,
)
from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    FrozenDecoder,
    MeanField,
    SequenceClasses,
    Trajectory,
    integrate,
    log_times,
    single_common_token,
    syn_small,
)
from snapdyn.experiments.sweep.cells import run_in_process
from snapdyn.experiments.sweep.execution import run_sweep
from snapdyn.figures import FIGURES, plot
from snapdyn.figures.figure_phase import EXCESS, PANELS, SNAPS
from snapdyn.figures.heat_maps import diagram as diagram_of, draw
from snapdyn.figures.phase_theory import ONSET, lines_of, own_lines, theory_of
from snapdyn.validation import ladder, phases
from snapdyn.validation.claims.maps import fall_onset
from snapdyn.validation.grid import design_of
from snapdyn.validation.phases import OBSERVABLES, OF_THEORY
from snapdyn.validation.search.counterexamples import load
from tests.helpers import ROOT


@pytest.mark.parametrize("vocab_size", [4, 10**6])
def test_the_event_is_the_peak_of_gamma(vocab_size: int) -> None:
    """Assert that the event on the loss of the integrated modified flow lies at the closed form of t*."""
    K = min(4, vocab_size)
    system = FrozenDecoder(single_common_token(K, 3, 0.1, vocab_size), 0.7, modified=True)
    t_star = float(transition_time(K, vocab_size, 0.7, kind="peak"))
    run = integrate(system, [2 * t_star], rtol=1e-10, atol=1e-12, events={"it": phases.transition_event(vocab_size)})
    # Local errors of 1e-10 over some hundred steps.
    assert run.events[0].t == pytest.approx(t_star, rel=1e-7)
    # Control: t0' = K ln V/eta_Y is another time.
    assert run.events[0].t != pytest.approx(float(transition_time(K, vocab_size, 0.7, kind="start")), rel=1e-2)


def test_the_crossing_between_saves() -> None:
    """Assert that the crossing is interpolated, and infinite where the run ends before it."""
    V, t_star = 100, float(transition_time(4, 100, 0.7, kind="peak"))
    t = np.linspace(0.5, 2, 200) * t_star
    run = integrate(FrozenDecoder(single_common_token(4, 3, 0.1, V), 0.7, modified=True), t)
    # The chord of a step of 0.75 % of t* is off by the curvature, the square of that.
    assert phases.transition_between(run.t, run.loss, V) == pytest.approx(t_star, rel=1e-4)
    assert phases.transition_between(run.t[:60], run.loss[:60], V) == np.inf


def made(logits: list[list[float]], t: list[float]) -> Trajectory:
    """A run of one class with two distinct tokens of P = 1/2 each."""
    classes = SequenceClasses(np.array([[0.5, 0.5]]), query=[0])
    z = np.array(logits)
    return Trajectory(classes, np.array(t), z, np.zeros((1, 2)), np.ones(len(t)), "made", {})


def test_phases_of_runs_made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert each phase on a run of which it is plain, on both sides of the threshold of snapping."""
    t = [1.0, 10.0, 100.0]
    still, moving = [[0.0, 0.0], [0.4, -0.4], [0.4, -0.4]], [[0.0, 0.0], [0.1, -0.1], [0.2, -0.2]]
    winner = [[0.0, 0.0], [1.0, -1.0], [3.0, -3.0]]
    # Both tokens are distinct, so the larger half of the attention is always a winner's: two more tokens share it.
    assert phases.winner_share(made(winner, t)) == pytest.approx(1 / (1 + np.exp(-6)))
    assert phases.phase(made(winner, t), 5.0) == phases.WINNER
    assert phases.late_speed(made(still, t)) == 0.0
    assert phases.late_speed(made(moving, t)) == pytest.approx(0.981, abs=0.001)  # (f(0.4) - f(0.2))/(f(0.2) - f(0))
    assert np.isnan(phases.late_speed(made(still[:2], [1.0, 9.0])))
    for speed, expected in ((0.09, phases.SNAPPED), (0.11, phases.MOVING)):
        monkeypatch.setattr(phases, "late_speed", lambda run, speed=speed: speed)
        assert phases.phase(made([[0.0, 0.0]] * 3, t), 5.0) == expected
        assert phases.phase(made([[0.0, 0.0]] * 3, t), np.inf) == phases.SCANNING  # nothing snaps before the transition


def test_times_of_theory() -> None:
    """Assert the times at a run's rate; NaN for classes of different weights, and for a run that states no rate."""
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    unequal = SequenceClasses(P, [0, 0], prior=[1.0, 2.0])
    assert np.isnan(list(phases.transition_times(unequal, 1.0).values())).all()
    equal = SequenceClasses(P, [0, 0], vocab_size=9)
    assert phases.transition_times(equal, 2.0)["t_start"] == pytest.approx(np.log(9))
    run = integrate(MeanField(equal, 2.0, 1e-4), [1.0])
    assert phases.theory_time("t_peak", run) == transition_time(2, 9, 2.0)
    run.parameters.pop("eta_Y")
    assert np.isnan(phases.theory_time("t_peak", run))


def test_the_onset_lies_just_below_the_first_falls() -> None:
    """Assert that the earliest falls seen begin at up to 1.2 ONSET, at all ratios of the rates, and texts quote ONSET.

    Controls: half and twice the value are refuted by the same instance.
    """
    classes, times = load("theorem2a-memory").instance.classes, np.geomspace(1, 1e12, 1000)
    onsets = np.array([fall_onset(classes, ratio, times)[1] for ratio in (1.0, 0.3, 0.1, 0.01)])

    def lies_just_below(value: float) -> bool:
        # (eta_Z/eta_Y) (V h)^2 at the onset varies by up to 20 % with the ratio (tests of `fall_onset`).
        return bool(((value < onsets) & (onsets < 1.2 * value)).all())

    assert lies_just_below(ONSET)
    assert not lies_just_below(ONSET / 2)
    assert not lies_just_below(2 * ONSET)
    caption = FIGURES["phase"].caption
    assert f"before (eta_Z/eta_Y)(V h)^2 reaches {ONSET:g}" in caption
    assert caption.endswith(f"only where (eta_Z/eta_Y)(V h)^2 is above {SNAPS:g}.")


def overlap_of(settings: dict[str, Any], **classes: float) -> float:
    """Return rho of the classes of a run file."""
    sections = {name: settings[name] for name in ("classes", "system", "ladder") if name in settings}
    return float(theory_of(sections | {"classes": {**sections.get("classes", {}), **classes}}).rho)


def test_texts_say_at_which_overlap_the_transition_lies_on_t_star() -> None:
    """Assert the overlap that the caption, the page on sweeps and the example quote."""
    example = ROOT / "examples/sweep_vocabulary.toml"
    page = (ROOT / "docs/how_to/sweeps.md").read_text(encoding="utf-8")
    weak = overlap_of(tomllib.loads(example.read_text(encoding="utf-8")))
    assert weak == overlap_of(PANELS["times"].sections)
    for text in (FIGURES["phase"].caption, page, example.read_text(encoding="utf-8")):
        assert f"(rho = {weak:.3f})" in text.replace("(here ", "(")


def test_texts_say_at_which_overlap_the_simple_law_of_gaps_holds() -> None:
    """Assert the overlaps that caption and example quote, and that the simple law holds there and fails beyond."""
    text = (ROOT / "examples/sweep_ladder_gaps.toml").read_text(encoding="utf-8")
    weak, largest = overlap_of(tomllib.loads(text)), overlap_of(PANELS["gaps"].sections, common_probability=0.3)
    assert f"(rho = {weak:.4f})" in text
    assert f"(rho up to {largest:.2f})" in FIGURES["phase"].caption
    t = np.geomspace(1, 1e4, 10)

    def ratio(rho: float) -> np.ndarray:
        simple = np.array([max(V * rho, 1 / (1 + V * rho)) for V in (100, 10**3, 10**5)])
        exact = [[largest_ladder_gap(t, 0.01, V, K, rho) for V in (100, 10**3, 10**5)] for K in (2, 5, 16)]
        return simple / np.array(exact)

    assert np.abs(ratio(weak) - 1).max() < 0.15
    assert ratio(largest).max() > 2
    assert f"at most {EXCESS:g} times this law below {ONSET:g}, and more beyond {10 * ONSET:g}" in (
        FIGURES["phase"].caption
    )


@pytest.mark.long
def test_texts_say_how_far_above_its_line_attention_has_snapped(data: Callable[[str], xarray.Dataset]) -> None:
    """Assert the factor that the caption and the page on sweeps quote, by the diagram."""
    name = "2K(K-1) u_+^2 (eta_Z/eta_Y)/rho0^4 where attention has snapped, smallest"
    factor = next(int(check.value) for check in FIGURES["phase"].numbers(data("phase")) if check.name == name)
    assert f"by a factor of {factor} or more" in FIGURES["phase"].caption
    docs = " ".join((ROOT / "docs" / "how_to" / "sweeps.md").read_text(encoding="utf-8").split())
    assert f"only at {factor} times this value or more" in docs


@pytest.mark.parametrize("panel", ["gaps", "number_gaps", "rate_gaps"])
def test_gaps_are_those_of_the_ladder(panel: str) -> None:
    """Assert cells against the ladder itself, in z; control: the gap from the mean field alone is another one."""
    V = [10, 1000]
    x, y = {
        "gaps": (V, [1e-3, 0.3]),
        "number_gaps": (V, [2, 7]),
        "rate_gaps": ([0.01, 1.0], [1e-4, 0.3]),
    }[panel]
    of_x, of_y = PANELS[panel].places
    sweep = replace(PANELS[panel].sweep(2), design=design_of({of_y: y, of_x: x}, {}))
    values = run_in_process(sweep).largest_gap.values.ravel()
    second = []
    for value, cell in zip(values, sweep.cells(), strict=True):
        run, rates = cell.sections["run"], (cell.sections["system"]["eta_Y"], cell.sections["system"]["eta_Z"])
        times = log_times(run["first"], run["last"], run["count"])
        settings = {name: each for name, each in cell.sections["classes"].items() if name != "kind"}
        gaps = ladder(single_common_token(**settings), *rates, times, seeds=0, max_steps=1).gaps.gap.sel(observable="z")
        # Absolute errors of the ladder's runs, 1e-12, are too large for z of 1e-12 at the slowest rates.
        if rates[1] > 1e-9:
            assert value == pytest.approx(float(gaps.max()), rel=1e-4)
        second.append(float(gaps.sel(rung="leading beta").max()))
    assert not np.allclose(values, second, rtol=1e-2)


def test_largest_gap_needs_one_common_token() -> None:
    """Assert one sentence for a run of other classes."""
    run = integrate(MeanField(syn_small(), 1.0, 0.1), [1.0, 2.0])
    with pytest.raises(InputError, match="expected the mean field of classes as of single_common_token"):
        OBSERVABLES["largest_gap"].values(run)


def test_a_diagram_is_the_sweep_of_its_settings(tmp_path: Path) -> None:
    """Assert the values of a diagram against those that `snapdyn sweep` stores, and NaN where V < K."""
    axes: Any = {"classes.vocab_size": (10, 1000, np.geomspace), "classes.num_classes": (2, 99, np.geomspace)}
    panel = replace(PANELS["times"], places=axes)
    shown = panel.measured("times_", 2)
    np.testing.assert_array_equal(shown, run_sweep(panel.sweep(2), tmp_path, jobs=1).dataset.transition_time)
    assert np.isnan(shown).sum() == 1


SETTINGS = {
    "classes": {"kind": "single_common_token", "num_distinct": 3, "num_classes": 3, "common_probability": 0.2},
    "system": {"kind": "MeanField", "eta_Y": 1.0, "eta_Z": 0.1},
    "run": {"first": 1.0, "last": 50.0},
}


def diagram() -> xarray.Dataset:
    eta_Y, eta_Z = np.geomspace(0.1, 10, 4), np.geomspace(0.01, 1, 3)
    return xarray.Dataset(
        {"entropy": (("eta_Z", "eta_Y", "seed"), np.random.default_rng(0).random((3, 4, 2)))},
        {
            "eta_Y": ("eta_Y", eta_Y, {"parameter": "system.eta_Y"}),
            "eta_Z": ("eta_Z", eta_Z, {"parameter": "system.eta_Z"}),
            "seed": [0, 1],
        },
        {"settings": json.dumps(SETTINGS)},
    )


def test_lines_lie_where_the_theory_says() -> None:
    """Assert that the line t0 = T of the drawn figure lies at eta_Y = K u/T, and moves with the end of the run.

    The order in which a sweep lists its values does not change the cells.
    """
    drawn, cells = {}, []
    for last, rates in ((50.0, [0, 1, 2, 3]), (100.0, [2, 0, 3, 1])):
        data = diagram().assign_attrs(settings=json.dumps(SETTINGS | {"run": {"last": last}})).isel(eta_Y=rates)
        axes = draw(data, "eta_Y", "eta_Z", "entropy").axes[0]
        cells.append(axes.collections[0].get_array())
        # Their vertices are in the coordinates of the logarithmic axes.
        lines = [10.0 ** c.get_paths()[0].vertices for c in axes.collections if type(c).__name__ == "QuadContourSet"]
        drawn[last] = [float(line[:, 0].mean()) for line in lines if np.ptp(line[:, 0]) < 1e-6]
        # The mesh has 200 points over two decades and a half.
        expected = float(transition_time(3, 10, 1.0, kind="end")) / last
        assert any(abs(np.log(x / expected)) < 0.03 for x in drawn[last])
    assert not np.allclose(min(drawn[50.0]), min(drawn[100.0]), rtol=0.1)
    np.testing.assert_array_equal(*cells)


@pytest.mark.parametrize(
    ("kind", "variable", "labels"),
    [
        ("MeanField", "entropy", ["t^*", "t_0", "Vh"]),
        ("SingleCommonToken", "entropy", ["t^*", "t_0"]),
        ("ModifiedDecoder", "phase", ["t^*", "t_0", "2K(K-1)"]),
        ("MeanField", "largest_gap", ["printed", "V\\rho", "Vh"]),
    ],
)
def test_lines_belong_to_what_is_run(kind: str, variable: str, labels: list[str]) -> None:
    """Assert that a decoder's memory is drawn only where there is a decoder of its own."""
    lines = lines_of(variable, theory_of(SETTINGS | {"system": SETTINGS["system"] | {"kind": kind}}))
    assert len(lines) == len(labels)
    for label, part in zip(lines, labels, strict=True):
        assert part in label


@pytest.mark.parametrize(("key", "value"), [("optimizer", "adam"), ("init", "normal")])
def test_no_theory_for_other_descent(key: str, value: Any) -> None:
    """Assert that t* and V h are not known for Adam and a random start, and are for plain descent."""
    sgd = {"eta_Y": 0.1, "eta_Z": 0.1, "steps": 100}
    sections = {"classes": SETTINGS["classes"], "sgd": sgd}
    assert np.isfinite(theory_of(sections).time("peak"))
    assert np.isnan(theory_of(sections | {"sgd": sgd | {key: value}}).time("peak"))
    usual = OF_THEORY[key]
    along = theory_of(sections | {"sgd": sgd | {key: np.array([usual, value], dtype=object)}}).time("peak")
    np.testing.assert_array_equal(np.isfinite(along), [True, False])


@pytest.mark.parametrize(
    ("x", "y", "variable", "message"),
    [
        ("eta_Y", "eta_Z", "entrop", "did you mean 'entropy'"),
        ("eta_Y", "eta_Z", "entropy", "received also last"),
        ("eta_Y", "last", "entropy", "received texts as last"),
    ],
)
def test_bad_names_are_refused(x: str, y: str, variable: str, message: str) -> None:
    """Assert one sentence for names that the dataset does not have, for further dimensions and for texts."""
    with pytest.raises(InputError, match=message):
        plot(diagram().expand_dims(last=["a", "b"]), variable, x=x, y=y)


def test_an_own_observable_brings_its_lines() -> None:
    """Assert that a declared line lies where its function is 0, from swept and from fixed values, and bad ones fail."""
    sections = {"system": {"kind": "Own", "a": 3.0}, "run": {"times": [5.0]}}
    coordinates = {
        "b": ("b", [1.0, 2.0, 4.0], {"parameter": "system.b"}),
        "last": ("last", [10.0, 20.0], {"parameter": "run.last"}),
    }
    data = xarray.Dataset({"q": (("b", "last"), np.ones((3, 2)))}, coordinates, {"settings": json.dumps(sections)})
    lines = {"a b = last": lambda p: p["a"] * p["b"] - p["last"], "b = 3": lambda p: p["b"] - 3.0}
    sd.register(sd.Observable("q", "quantity", "1", lambda run: run.t, lines=lines))
    axes = sd.figures.plot(data, "q", x="b", y="last")
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"a b = last", "b = 3"}
    field = diagram_of(data, "b", "last", "q")
    np.testing.assert_array_equal(own_lines(field)["a b = last"], [[-7.0, -4.0, 2.0], [-17.0, -14.0, -8.0]])
    sd.register(sd.Observable("bad", "quantity", "1", lambda run: run.t, lines={"wrong": lambda p: p["c"]}))
    with pytest.raises(sd.InputError, match=r"line 'wrong' of bad, received KeyError.*'c'; its parameters are .*a"):
        own_lines(diagram_of(data.rename(q="bad"), "b", "last", "bad"))
