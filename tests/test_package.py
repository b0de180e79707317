"""The package face: its names, and what importing it costs."""

import subprocess
import sys

import pytest

import snapdyn


def test_unknown_name_is_an_attribute_error() -> None:
    """Assert that a name the package does not have is refused in Python's own way."""
    with pytest.raises(AttributeError, match="no attribute 'integrat'"):
        _ = snapdyn.integrat


@pytest.mark.parametrize("module", ["snapdyn", "snapdyn.commands.main"])
def test_import_is_light(module: str) -> None:
    """Assert that importing the package or its command line loads no library that is slow or compiles."""
    code = (
        f"import sys, {module}; "
        "print(*{'numba', 'numpy', 'scipy', 'sympy', 'matplotlib', 'xarray', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
