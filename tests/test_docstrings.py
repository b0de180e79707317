"""Docstrings: the examples of every module run, and public names describe each parameter once (numpydoc)."""

import doctest
import inspect
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

import snapdyn
from snapdyn import analytic, dynamics, figures, validation

# `snapdyn.__main__` would run the command line.
MODULES = [
    name
    for name in ("snapdyn", *(found.name for found in walk_packages(snapdyn.__path__, "snapdyn.")))
    if not name.endswith("__main__")
]
PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (snapdyn, analytic, dynamics, figures, validation)
    for name in package.__all__
    if callable(getattr(package, name))
}
EXTRAS = {"torch", "distributed", "dask", "marimo"}


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that each example prints what it shows; files are written to a temporary folder."""
    try:
        module = import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRAS:
            raise
        pytest.skip(f"{name} needs {missing.name}, which is not installed")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(module)
    assert result.failed == 0
    for where, description in cached_properties(module):  # doctest finds them from Python 3.13 on
        example = doctest.DocTestParser().get_doctest(description, dict(vars(module)), where, None, None)
        assert doctest.DocTestRunner().run(example).failed == 0


def cached_properties(module: Any) -> Iterator[tuple[str, str]]:
    """Name and docstring of each cached property of the classes of a module."""
    for owner in vars(module).values():
        if inspect.isclass(owner) and owner.__module__ == module.__name__:
            for name, member in vars(owner).items():
                if isinstance(member, cached_property) and member.__doc__:
                    yield f"{owner.__qualname__}.{name}", member.__doc__


def parameters_of(public: Any) -> set[str]:
    """Parameters that a caller can give."""
    if inspect.isclass(public) and issubclass(public, Exception):
        return set()
    return {name for name in inspect.signature(public).parameters if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_parameter_is_described_once(name: str) -> None:
    """Assert one line "name : type" per parameter, no parameter twice or missing, and none that does not exist."""
    docscrape = pytest.importorskip("numpydoc.docscrape", reason="needs the extra docs")
    parts = docscrape.NumpyDocString(inspect.getdoc(PUBLIC[name]) or "")
    described = [*parts["Parameters"], *parts["Other Parameters"]]
    assert all(each.type or each.name.startswith("*") for each in (*described, *parts["Attributes"]))
    given = [each.name.lstrip("*") for each in described]
    attributes = [each.name for each in parts["Attributes"]]
    assert len(given) == len(set(given))
    assert len(attributes) == len(set(attributes))
    wanted = parameters_of(PUBLIC[name])
    # A class of plain fields may describe them as its attributes.
    assert wanted <= {*given, *attributes}
    assert set(given) <= wanted
