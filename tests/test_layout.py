"""Tests mirror the rooms: the tests of the modules of a folder lie in the folder of the same name."""

import pytest

from tests.changed import mirroring
from tests.helpers import ROOT

ROOMS = ("core", "analytic", "dynamics", "validation", "experiments", "figures", "app")
FOLDERS = {path.parent.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")}
# `app` itself is tested by tests/test_package.py, the claims of a chapter by the tests of the register.
WITHOUT = {folder for folder in FOLDERS if folder == "app" or folder.startswith("validation/claims/")}


@pytest.mark.parametrize("folder", sorted(FOLDERS - WITHOUT))
def test_every_folder_has_its_tests(folder: str) -> None:
    """Assert that the mirrored folder of tests holds a test."""
    assert list((ROOT / "tests" / folder.removeprefix("app/")).glob("**/test_*.py"))


def test_changed_files_select_the_folder_that_mirrors_theirs() -> None:
    """Assert the folder of tests for data, and all tests for a module without tests of its own."""
    assert mirroring("figures/data/figure_10.nc") == "tests/figures"
    assert mirroring("app/__init__.py") == "tests"
