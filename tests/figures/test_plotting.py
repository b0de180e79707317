"""`plot`: results of every kind in one call, and the methods of trajectories and reports."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import snapdyn as sd
from snapdyn.errors import InputError
from snapdyn.validation.comparison import IndexedObservable, compute


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
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), expected[what])


def test_the_methods_are_those_of_plot(run: sd.Trajectory) -> None:
    """Assert that trajectory.plot draws into given axes what `plot` draws, and returns them."""
    ax = Figure().subplots()
    assert run.plot("relative_gain", ax=ax, n=1, tokens=[5], l0=4) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), run.relative_gain(1, 5, 4))


def test_seeds_are_a_median_and_a_band(classes: sd.SequenceClasses) -> None:
    """Assert the median of the runs as a line with a band, and that runs on other times are refused."""
    runs = sd.sgd(classes, 1.0, 0.1, 20, seed=[0, 1, 2])
    axes = sd.figures.plot(runs, "loss")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), np.median([run.loss for run in runs], axis=0))
    assert len(axes.collections) == 1
    with pytest.raises(InputError, match="on the same times"):
        sd.figures.plot([runs[0], sd.sgd(classes, 1.0, 0.1, 10, seed=0)], "loss")


def test_report_ladder_and_comparison(classes: sd.SequenceClasses) -> None:
    """Assert a drawing of each kind of result; a ladder's curves are its gaps."""
    report = sd.check(classes, eta_Y=1.0, eta_Z=0.01, only=["lemma13", "figure6", "theorem2a"])
    assert report.plot("margins").get_xlabel().startswith("measured number over its bound")
    ladder = sd.ladder(classes, 0.1, 0.1, sd.log_times(1, 50, 5), seeds=4)
    assert sd.figures.plot(ladder, "z").get_yscale() == "log"
    comparison = compute(
        classes, 0.1, 0.1, steps=20, seeds=range(3), observables=[IndexedObservable("entropy", (0,))], batch_size=4
    )
    axes = sd.figures.plot(comparison, "entropy 0")
    assert axes.get_ylabel() == "entropy of attention (nats), class 0"


def test_a_sweep_is_a_phase_diagram(tmp_path: Path) -> None:
    """Assert that the dataset of a sweep is drawn over its two parameters."""
    from snapdyn.commands.main import main

    (tmp_path / "sweep.toml").write_text(
        '[classes]\nkind = "single_common_token"\nnum_classes = 2\nnum_distinct = 2\ncommon_probability = 0.3\n'
        'vocab_size = 20\n[system]\nkind = "MeanField"\n[run]\ntimes = [1.0, 10.0]\n[sweep]\ndesign = "grid"\n'
        'observables = ["entropy"]\n"system.eta_Y" = [0.1, 1.0]\n"system.eta_Z" = [0.1, 1.0]\n',
        encoding="utf-8",
    )
    assert main(["sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    import xarray

    dataset = xarray.load_dataset(next((tmp_path / "out").glob("*.nc")), engine="h5netcdf")
    axes = sd.figures.plot(dataset, "entropy")
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"$\eta_Y$", r"$\eta_Z$")


def test_an_own_system_is_drawn_by_the_names_of_its_values() -> None:
    """Assert the values of a system without classes, and the known names where another is asked for."""

    class Decay(sd.System):
        value_names = ("x",)

        def __init__(self) -> None:
            self.parameters = {"rate": 1.0}

        def initial_state(self) -> np.ndarray:
            return np.array([1.0])

        def write_rate(self, state: np.ndarray, out: np.ndarray) -> None:
            out[:] = -state

    run = sd.integrate(Decay(), [0.0, 1.0, 2.0])
    assert run.plot("x").get_ylabel() == "x"
    with pytest.raises(InputError, match="expected what to be one of x"):
        run.plot("y")


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("atention", {}, "did you mean 'attention'"),
        ("attention", {"n": 7}, "class"),
        ("relative_gain", {"l0": -1}, "l0"),
        ("attention", {"tokens": [1.5]}, "a token"),
    ],
)
def test_wrong_questions_are_refused(what: str, options: dict[str, object], message: str, run: sd.Trajectory) -> None:
    """Assert one sentence that names what was wrong."""
    with pytest.raises(InputError, match=message):
        sd.figures.plot(run, what, **options)


def test_other_things_are_refused() -> None:
    """Assert that what is no result is named."""
    with pytest.raises(InputError, match="expected a Trajectory"):
        sd.figures.plot([1, 2], "loss")


def test_the_interactive_mode_of_a_notebook_stays_on(tmp_path: Path) -> None:
    """Assert that a backend which turns interactive mode on when it is loaded, as that of notebooks, is not undone."""
    (tmp_path / "notebook.py").write_text(
        "from matplotlib.backends.backend_agg import *\nimport matplotlib\nmatplotlib.interactive(True)\n"
    )
    program = (
        "import snapdyn as sd, matplotlib\n"
        "classes = sd.single_common_token(2, 2, 0.3, 20)\n"
        "sd.figures.plot(sd.integrate(sd.MeanField(classes, 1.0, 0.1), [0.0, 1.0]), 'entropy')\n"
        "assert matplotlib.is_interactive()"
    )
    settings = {**os.environ, "MPLBACKEND": "module://notebook", "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=settings, check=True)
