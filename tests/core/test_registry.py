"""Registries and the plugins of installed packages, which run only when they are named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

PLUGIN = """
import sympy
import snapdyn as sd

print("imported")
u = sympy.Symbol("u")
decay = sd.System.from_sympy("PluginDecay", {u: 1.0}, {u: -u}, observables={"square": u**2})
wrong = sd.System.from_sympy("OtherName", {u: 1.0}, {u: -u})

"""
FURTHER = """
import xarray
import snapdyn as sd
from snapdyn.figures.style import new_figure

print("imported further entries")
observable = sd.Observable("plugin_final", "state at the end", "1", lambda run: run.state[-1, 0], dims=())


@sd.claim("plugin-claim", source="own", title="one is two", statement="1 = 2.", expected="holds")
def claim(evidence):
    evidence.holds("difference", "arithmetic", 1.0, at_most=0.5)
    evidence.control("wrong theory: 1 = 3", "arithmetic", 2.0, at_most=0.5)


def draw(data):
    figure = new_figure(2.0, 2.0)
    figure.subplots().plot(data.x, data.y)
    return figure


figure = sd.FigureEntry(
    "plugin-line", "A line", "y = x.", lambda level: xarray.Dataset({"y": ("x", [0.0, 1.0])}, {"x": [0.0, 1.0]}), draw,
    (sd.Property("y = x", "data", lambda data: sd.Measured(float(abs(data.y - data.x).max()), at_most=1e-9)),),
)
"""
POINTS = """[snapdyn.systems]
PluginDecay = mytheory:decay
Wrong = mytheory:wrong
Broken = nowhere_at_all:x

[snapdyn.observables]
plugin_final = myentries:observable
broken_observable = nowhere_at_all:x

[snapdyn.claims]
plugin-claim = myentries
broken-claim = nowhere_at_all:x

[snapdyn.figures]
plugin-line = myentries:figure
broken-figure = nowhere_at_all:x
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with an installed package, as pip leaves it."""
    (tmp_path / "mytheory.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "myentries.py").write_text(FURTHER, encoding="utf-8")
    info = tmp_path / "snapdyn_mytheory-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: snapdyn-mytheory\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    return tmp_path


def run(folder: Path, program: str) -> str:
    """Output of a program that has the package."""
    code = f"import sys; sys.path.append({str(folder)!r})\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
from pathlib import Path

import snapdyn as sd
from snapdyn.commands.options import systems_and_observables
from snapdyn.core.registry import plugin_versions
from snapdyn.experiments.run_files import read_simulation
from snapdyn.experiments.sweep.files import read_sweep
from snapdyn.validation.claims import chosen_claims

listed = "PluginDecay" in systems_and_observables()
chosen_claims(None)
times = "[run]\\nfirst = 0.1\\nlast = 1.0\\n"
ours = '[classes]\\nkind = "syn_small"\\n[system]\\nkind = "MeanField"\\neta_Y = 1.0\\neta_Z = 1.0\\n'
theirs = '[system]\\nkind = "PluginDecay"\\n'
design = '[sweep]\\ndesign = "grid"\\nobservables = ["square"]\\n"run.rtol" = [1e-6, 1e-8]\\n'
Path("a.toml").write_text(ours + times)
Path("b.toml").write_text(theirs + times)
Path("c.toml").write_text(theirs + times + design)
read_simulation(Path("a.toml"))
print(listed, "PluginDecay" in sd.dynamics.SYSTEMS, plugin_versions())
print(read_simulation(Path("b.toml")).build())
print(read_sweep(Path("c.toml")).observables)
"""


def test_a_plugin_runs_only_when_named(installed: Path) -> None:
    """Assert that lists, the register and other run files leave a plugin alone, and that its name runs it."""
    assert run(installed, PROGRAM).splitlines() == [
        "True False ['snapdyn-mytheory 1.2']",
        "imported",
        "PluginDecay()",
        "('square',)",
    ]


def test_one_sentence(installed: Path) -> None:
    """Assert one sentence for a plugin that fails, that gives another name, and for a name that none has."""
    output = run(
        installed,
        "import snapdyn as sd\n"
        "for name in ('Broken', 'Wrong', 'Unknown'):\n"
        "    try:\n"
        "        sd.dynamics.SYSTEMS.load_named([name])\n"
        "        print(name in sd.dynamics.SYSTEMS)\n"
        "    except sd.InputError as error:\n"
        "        print(error)\n",
    )
    broken, imported, wrong, unknown = output.splitlines()
    assert "the plugin 'Broken' of snapdyn-mytheory 1.2 to load, received ModuleNotFoundError" in broken
    assert imported == "imported"
    assert "the plugin 'Wrong' of snapdyn-mytheory 1.2 to give a system of this name" in wrong
    assert unknown == "False"


def command(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and error of a command where the package is installed."""
    done = subprocess.run(
        [sys.executable, "-m", "snapdyn", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


SWEEP = """[system]
kind = "PluginDecay"
[run]
times = [1.0]
[sweep]
design = "grid"
observables = ["{}"]
"run.rtol" = [1e-6, 1e-8]
"""


@pytest.mark.long
def test_observables_claims_and_figures_of_a_plugin(installed: Path) -> None:
    """Assert that each runs when a command names it: sweep, claim (its verdict differs: exit code 1), figure."""
    (installed / "sweep.toml").write_text(SWEEP.format("plugin_final"), encoding="utf-8")
    code, output, error = command(installed, "sweep", "sweep.toml", "--jobs", "1", "--out", "cells")
    assert code == 0, error
    assert "imported further entries" in output
    with xarray.open_dataset(next((installed / "cells").rglob("*.nc")), engine="h5netcdf") as data:
        np.testing.assert_allclose(data["plugin_final"], np.exp(-1.0), rtol=1e-5)
    code, output, error = command(installed, "validate", "plugin-claim", "--format", "json")
    assert code == 1, error
    claim = json.loads(output[output.index("{") :])["claims"][0]
    assert (claim["id"], claim["verdict"]) == ("plugin-claim", "refuted")
    code, output, error = command(
        installed, "figures", "plugin-line", "--out", "pictures", "--format", "png", "--check"
    )
    assert code == 0, error
    assert list((installed / "pictures").glob("*.png"))
