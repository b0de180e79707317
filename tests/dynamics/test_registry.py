"""Registries and the plugins of installed packages, which run only when they are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
import sympy
import snapdyn as sd

print("imported")
u = sympy.Symbol("u")
decay = sd.System.from_sympy("PluginDecay", {u: 1.0}, {u: -u}, observables={"square": u**2})
wrong = sd.System.from_sympy("OtherName", {u: 1.0}, {u: -u})

"""
POINTS = """[snapdyn.systems]
PluginDecay = mytheory:decay
Wrong = mytheory:wrong
Broken = nowhere_at_all:x
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with an installed package, as pip leaves it."""
    (tmp_path / "mytheory.py").write_text(PLUGIN, encoding="utf-8")
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
from snapdyn.dynamics.registry import plugin_versions
from snapdyn.experiments.run_files import read_simulation
from snapdyn.experiments.sweep.files import read_sweep
from snapdyn.validation.run import chosen_claims

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
