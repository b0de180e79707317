"""The examples in docstrings run, and every public function has one."""

import doctest
import inspect
from importlib import import_module
from pkgutil import walk_packages

import pytest

from snapdyn import analytic
from snapdyn.analytic import symbolic

MODULES = ["snapdyn.analytic", *(found.name for found in walk_packages(analytic.__path__, "snapdyn.analytic."))]
FUNCTIONS = {
    name: function
    for package in (analytic, symbolic)
    for name, function in inspect.getmembers(package)
    if name in package.__all__ and not inspect.isclass(function)
}


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    """Assert that each example prints what it shows."""
    failed, _ = doctest.testmod(import_module(name))
    assert failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_public_function_is_documented(name: str) -> None:
    """Assert that each public function says what it takes, returns and raises, and shows an example."""
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    sections = ["Returns", "Examples"]
    if inspect.signature(function).parameters:
        sections += ["Parameters", "Raises"]
    for section in sections:
        assert f"\n{section}\n{'-' * len(section)}\n" in text
    assert doctest.DocTestFinder().find(function)[0].examples
    for parameter in inspect.signature(function).parameters:
        assert f"\n{parameter} : " in text
