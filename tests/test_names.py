"""Names: a package and its modules never share one, so that `import a.b` always binds the module b."""

import importlib
import sys
from collections.abc import Iterator
from pkgutil import iter_modules, walk_packages
from types import ModuleType

import pytest

import snapdyn

PACKAGES = ["snapdyn", *(found.name for found in walk_packages(snapdyn.__path__, "snapdyn.") if found.ispkg)]


def _submodules(package: ModuleType) -> Iterator[str]:
    # `snapdyn.__main__` would run the command line.
    return (found.name for found in iter_modules(package.__path__) if not found.name.startswith("__"))


@pytest.mark.parametrize("name", PACKAGES)
def test_no_public_name_is_that_of_a_module(name: str) -> None:
    """Assert that each submodule is bound under its name, before and after the public names are used."""
    package = importlib.import_module(name)
    for public in dir(package):
        if not public.startswith("_"):
            getattr(package, public)
    for submodule in _submodules(package):
        full_name = f"{name}.{submodule}"
        try:
            module = importlib.import_module(full_name)
        except ModuleNotFoundError as missing:
            # A module that needs an extra which is not installed (PyTorch, dask): nothing else may bear its name.
            if (missing.name or "").startswith("snapdyn"):
                raise
            assert not hasattr(package, submodule)
            continue
        assert getattr(package, submodule) is module is sys.modules[full_name]
