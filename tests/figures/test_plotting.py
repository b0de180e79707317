"""`plot`: results of every kind in one call, and the methods of trajectories and reports."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sympy
import xarray
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.validation.comparison import compute
from snapdyn.validation.pictures import Map
from tests.helpers import Command


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def classes() -> sd.SequenceClasses:
    return sd.single_common_token(num_classes=3, num_distinct=3, common_probability=0.3, vocab_size=30)


@pytest.fixture(scope="module")
def run(classes: sd.SequenceClasses) -> sd.Trajectory:
    return sd.integrate(sd.MeanField(classes, 1.0, 0.1), [0.0, *sd.log_times(0.1, 1e3, 20)])


@pytest.mark.parametrize(
    ("what", "curves"), [("attention", 4), ("entropy", 3), ("loss", 1), ("relative_gain", 2), ("growth_factor", 4)]
)
def test_quantities_of_a_trajectory(what: str, curves: int, run: sd.Trajectory) -> None:
    """Assert a curve per token or class with the values of the trajectory, labelled axes, and a logarithmic clock."""
    axes = sd.figures.plot(run, what)
    assert len(axes.lines) == curves
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "$t$ (batch-size-1 steps)"
    assert axes.get_ylabel()
    expected = {"entropy": run.entropy()[:, 0], "loss": run.loss}
    if what in expected:
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), expected[what][1:])  # t = 0 has no place there


def test_several_runs_in_one_panel(run: sd.Trajectory) -> None:
    """Assert labels and colours of the caller, and a legend that tells the curves apart."""
    axes = sd.figures.plot(run, "loss", label="slow")
    sd.figures.plot(run, "loss", axes, label="again", color="black")
    for _ in range(3):
        sd.figures.plot(run, "loss", axes)
    sd.figures.plot(run, "entropy", axes, n=0)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["slow", "again", "loss", "loss (2)", "loss (3)", "class 0"]
    assert len({to_hex(line.get_color()) for line in axes.lines}) == 6
    assert to_hex(axes.lines[1].get_color()) == "#000000"
    with pytest.raises(sd.InputError, match="expected no color with 4 curves"):
        sd.figures.plot(run, "attention", color="red")
    with pytest.raises(sd.InputError, match="expected color to be a colour of matplotlib, received 'redd'"):
        sd.figures.plot(run, "loss", color="redd")


def test_a_claim_is_drawn() -> None:
    """Assert that the map and the picture of a claim are drawn with their legends."""
    grid = np.arange(1.0, 4.0)
    found = Map("title", "x", "y", "number", grid, grid, np.arange(9.0).reshape(3, 3) + 1, 4.0)
    assert sd.figures.plot(found).get_title() == "title"
    picture = sd.Picture("t", "z", (sd.Picture.line("theory", [1, 10], [0.0, 0.5]),))
    axes = sd.figures.plot(picture)
    assert axes.get_legend().get_texts()[0].get_text() == "theory"


def test_drawings_keep_the_style(run: sd.Trajectory) -> None:
    """Assert the house's colours and the preset's fonts in a picture that is saved later, outside the style.

    In axes of the caller, what stood there before keeps its font.
    """
    own = Figure().subplots()
    own.set_title("mine", family="monospace")
    assert run.plot("relative_gain", ax=own, n=1, tokens=[5], l0=4) is own
    np.testing.assert_array_equal(own.lines[0].get_ydata(), run.relative_gain(1, 5, 4)[1:])
    assert own.title.get_fontfamily() == ["monospace"]
    assert own.lines[0].get_color() != "C0"
    axes = run.plot("attention", style="icml")
    assert [to_hex(line.get_color()).upper() for line in axes.lines] == ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
    assert axes.xaxis.label.get_fontfamily() == ["STIXGeneral"]
    assert axes.xaxis.label.get_math_fontfamily() == "stix"
    (legend,) = axes.get_figure(root=True).legends
    assert [to_hex(line.get_color()) for line in legend.get_lines()] == [
        to_hex(line.get_color()) for line in axes.lines
    ]


def test_seeds_are_a_median_and_a_band(classes: sd.SequenceClasses) -> None:
    """Assert the median of the runs as a line with a band, and that runs on other times are refused."""
    runs = sd.sgd(classes, 1.0, 0.1, 20, seed=[0, 1, 2])
    axes = sd.figures.plot(runs, "loss")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), np.median([run.loss for run in runs], axis=0))
    assert len(axes.collections) == 1
    with pytest.raises(InputError, match="on the same times"):
        sd.figures.plot([runs[0], sd.sgd(classes, 1.0, 0.1, 10, seed=0)], "loss")


def test_report_ladder_and_comparison(classes: sd.SequenceClasses) -> None:
    """Assert a drawing of each kind of result; a ladder's curves are its gaps, also for times before step 1."""
    report = sd.check(classes, eta_Y=1.0, eta_Z=0.01, only=["lemma13", "figure6", "theorem2a"])
    assert report.plot("margins").get_xlabel().startswith("measured number over its bound")
    with pytest.raises(InputError, match="no options for margins, received 'n'"):
        report.plot("margins", n=0)
    ladder = sd.ladder(classes, 0.1, 0.1, sd.log_times(0.2, 50, 5), seeds=4)
    gaps = sd.figures.plot(ladder, "z")
    assert gaps.get_yscale() == "log"
    figure = gaps.get_figure(root=True)
    explanations = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"explained by the noise of the seeds", "tolerance 0.05"} <= explanations
    comparison = compute(classes, 0.1, 0.1, steps=20, seeds=range(3), observables=["entropy 0"], batch_size=4)
    axes = sd.figures.plot(comparison, "entropy 0")
    assert axes.get_ylabel() == "entropy of attention (nats), class 0"


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("relative_gain", {"l0": -1}, "l0"),
        ("attention", {"tokens": 3}, "expected tokens to be a list of token ids, received 3"),
        ("relative_gain", {"token": [1]}, "an option of relative_gain to be one of n, .*; did you mean 'tokens'"),
        ("loss", {"ax": np.empty(2)}, "expected ax to be an Axes"),
    ],
)
def test_wrong_questions_are_refused(what: str, options: dict[str, object], message: str, run: sd.Trajectory) -> None:
    """Assert one sentence that names what was wrong."""
    with pytest.raises(InputError, match=message):
        sd.figures.plot(run, what, **options)
    assert not pyplot.get_fignums()  # no empty figure is left for a notebook to show


def made(num_classes: int, num_distinct: int, vocab_size: int) -> sd.Trajectory:
    classes = sd.single_common_token(num_classes, num_distinct, 0.3, vocab_size)
    return sd.integrate(sd.MeanField(classes, 1.0, 0.1), [0.0, 1.0, 10.0])


def test_one_class_of_many() -> None:
    """Assert that entropy is drawn for each class or for the chosen one, and that hundreds of curves are refused."""
    run = made(60, 1, 200)
    assert [line.get_label() for line in run.plot("entropy", n=59).lines] == ["class 59"]
    with pytest.raises(InputError, match=r"at most 50 classes .* 60; plot trajectory.of_class\(kind\) .* choose n$"):
        run.plot("entropy")
    assert len(run.of_class(0).plot("entropy").lines) == 1
    with pytest.raises(InputError, match="at least one token of class 0 to draw, received none besides token 1"):
        run.plot("relative_gain")
    wide = made(2, 60, 200)
    with pytest.raises(InputError, match=r"at most 50 tokens for a curve each, received 61; choose tokens=\[...\]"):
        wide.plot("attention")
    assert len(wide.plot("attention", tokens=np.array([0, 60])).lines) == 2


SWEEP = """
[classes]
kind = "single_common_token"
num_classes = 2
num_distinct = 2
common_probability = 0.3
vocab_size = 20
[system]
kind = "MeanField"
[run]
times = [1.0, 10.0]
[sweep]
design = "grid"
observables = ["entropy"]
"system.eta_Y" = [0.1, 1.0]
"system.eta_Z" = [0.1, 1.0]
[phase]
x = "eta_Y"
y = "eta_Z"
variable = "entropy"
width = 4.0
style = "icml"
"""


def test_a_sweep_is_a_phase_diagram(tmp_path: Path, command: Command) -> None:
    """Assert the diagram of a sweep by its file, in its width and style, and by `plot` over its two parameters.

    Unknown options and dimensions are refused; one dimension leaves the other one.
    """
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP, encoding="utf-8")
    command("sweep", file, "--out", tmp_path / "out", "--jobs", 1)
    assert imread(tmp_path / "out" / "sweep.png").shape[1] == 4.0 * 200
    dataset = xarray.load_dataset(tmp_path / "out" / "sweep.nc", engine="h5netcdf")
    axes = sd.figures.plot(dataset, "entropy")
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"$\eta_Y$", r"$\eta_Z$")
    assert sd.figures.plot(dataset, "entropy", y="eta_Y").get_ylabel() == r"$\eta_Y$"
    for options, message in (
        ({"n": 0}, "an option of entropy to be one of x, y, received 'n'"),
        ({"x": "eta_Q"}, "expected x to be one of eta_Y, eta_Z"),
        ({"x": "eta_Y", "y": "eta_Y"}, "two axes of the diagram, received eta_Y twice"),
    ):
        with pytest.raises(InputError, match=message):
            sd.figures.plot(dataset, "entropy", **options)


def test_runs_without_classes_and_other_things() -> None:
    """Assert that B of the reduced system is drawn; one sentence for unknown names, other classes, and no result."""
    reduced = sd.integrate(sd.SingleCommonToken(4, 100, 1.0, 0.2, rho0=2.0), [0.0, 1.0, 10.0])
    np.testing.assert_array_equal(reduced.plot("B").lines[0].get_ydata(), reduced.observable("B").reshape(-1))
    with pytest.raises(InputError, match=r"to be one of .*B.*, received 'nothing'"):
        reduced.plot("nothing")
    with pytest.raises(InputError, match="the same classes"):
        sd.figures.plot([made(2, 2, 20), made(3, 2, 20)], "loss")
    with pytest.raises(InputError, match="expected a Trajectory"):
        sd.figures.plot([1, 2], "loss")


def test_own_systems_have_their_own_clock() -> None:
    """Assert that axes and datasets of a user's system name its clock, and that its comparison is drawn."""
    x = sympy.Symbol("x")
    decay = sd.System.from_sympy("Decay", {x: 1.0}, {x: -x})
    run = sd.integrate(decay, [0.0, 1.0, 2.0])
    rungs = sd.ladder_of(decay, [0.5, 1.0], 0.1)
    for axes in (run.plot("x"), sd.figures.plot(rungs, "state")):
        assert axes.get_xlabel() == "$t$ (clock of Decay)"
    compared = sd.compare(sd.Trace(run.t, observables={"x": run.observable("x")}), decay)
    assert sd.figures.plot(compared, "x").get_ylabel() == "x"
    for time in (run.to_xarray().time, rungs.gaps.t, compared.t):
        assert time.attrs["units"] == "clock of Decay"
