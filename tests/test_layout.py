"""Tests mirror the rooms: the test of a module lies in the folder of the same name, in a file of the same name."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.changed import mirroring
from tests.helpers import ROOT

TESTS = ROOT / "tests"
ROOMS = ("core", "analytic", "dynamics", "validation", "experiments", "figures", "app")
# Modules without a file of their name, by pattern, and the test that serves them on purpose.
SERVED_BY = {
    # One test for all modules of a folder.
    "analytic/symbolic/*": "analytic/symbolic/test_symbolic.py",
    "validation/claims/*": "validation/test_register.py",
    "validation/phase_theory": "figures/test_heat_maps.py",
    "figures/figure_*": "figures/test_figure_checks.py",
    "figures/shared_runs": "figures/test_figure_checks.py",
    "commands/summaries": "commands/test_main.py",
    # Kernels are tested through what calls them, against plain numpy: systems, integration, training.
    "dynamics/kernels/*": "dynamics/training/test_descent.py",
    # Parts of a computation that is tested as a whole.
    "dynamics/integration/*": "dynamics/integration/test_driver.py",
    "dynamics/systems/own/*": "dynamics/systems/own/test_symbolic.py",
    "dynamics/training/*": "dynamics/training/test_descent.py",
    "validation/comparison": "figures/test_comparison.py",
    "validation/fitting/*": "validation/fitting/test_estimation.py",
    "validation/rungs/*": "validation/rungs/test_build.py",
    "validation/statement": "validation/test_register.py",
    "core/prose": "report/test_mathematics.py",
    "figures/files": "figures/test_writing.py",
    "commands/options": "commands/test_main.py",
    "commands/sweep": "experiments/sweep/test_files.py",
}


def modules() -> dict[str, Path]:
    """Every module of the package by its path below the package, without ending."""
    found = {}
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            if file.name not in ("__init__.py", "__main__.py"):
                found[file.relative_to(ROOT / "app" if room == "app" else ROOT).with_suffix("").as_posix()] = file
    return found


def own_test(module: str) -> Path:
    """The test file of a module's name."""
    return TESTS / Path(module).parent / f"test_{Path(module).name}.py"


@pytest.mark.parametrize("module", modules())
def test_every_module_has_its_test(module: str) -> None:
    """Assert a test file of the module's name in the mirrored folder, or an entry naming the test that serves it."""
    if not own_test(module).is_file():
        serving = next((test for pattern, test in SERVED_BY.items() if fnmatch(module, pattern)), None)
        assert serving is not None, f"expected tests/{own_test(module).relative_to(TESTS)}; add it"
        assert (TESTS / serving).is_file()


def test_no_entry_is_idle() -> None:
    """Assert that each pattern serves a module that has no test file of its name."""
    untested = [module for module in modules() if not own_test(module).is_file()]
    for pattern in SERVED_BY:
        assert any(fnmatch(module, pattern) for module in untested), pattern


def test_changed_files_select_the_folder_that_mirrors_theirs() -> None:
    """Assert the folder of tests for data, and all tests for a module without tests of its own."""
    assert mirroring("figures/data/figure_10.nc") == "tests/figures"
    assert mirroring("app/__init__.py") == "tests"
