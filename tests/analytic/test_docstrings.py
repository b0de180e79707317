"""Every public function of `analytic` says what it takes, returns and raises, and shows an example."""

import doctest
import inspect

import pytest

from snapdyn import analytic
from snapdyn.analytic import symbolic

FUNCTIONS = {
    name: function
    for package in (analytic, symbolic)
    for name, function in inspect.getmembers(package)
    if name in package.__all__ and not inspect.isclass(function)
}


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
