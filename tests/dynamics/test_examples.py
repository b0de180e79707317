"""The examples in docstrings run, and the public functions of dynamics have one."""

import doctest
import inspect
from importlib import import_module
from pkgutil import walk_packages

import pytest

from snapdyn import dynamics

MODULES = ["snapdyn.dynamics", *(found.name for found in walk_packages(dynamics.__path__, "snapdyn.dynamics."))]
FUNCTIONS = {name: value for name in dynamics.__all__ if inspect.isfunction(value := getattr(dynamics, name))}
WITHOUT_EXAMPLE = ("train_transformer",)  # it needs torch


@pytest.mark.parametrize("name", [name for name in MODULES if ".kernels" not in name])
def test_examples_run(name: str) -> None:
    """Assert that each example prints what it shows."""
    failed, _ = doctest.testmod(import_module(name))
    assert failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_public_function_is_documented(name: str) -> None:
    """Assert that each public function describes every parameter and its result, and shows an example."""
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    parameters = inspect.signature(function).parameters
    for section in ["Returns", *(["Parameters", "Raises"] if parameters else [])]:
        assert f"\n{section}\n{'-' * len(section)}\n" in text
    for parameter in parameters.values():
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        assert f"\n{stars}{parameter.name}" in text
    assert (name in WITHOUT_EXAMPLE) != bool(doctest.DocTestFinder().find(function)[0].examples)
