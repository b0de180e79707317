"""The public functions of `dynamics` describe what they take and return, and show an example."""

import doctest
import inspect

import pytest

from snapdyn import dynamics

FUNCTIONS = {name: value for name in dynamics.__all__ if inspect.isfunction(value := getattr(dynamics, name))}
WITHOUT_EXAMPLE = ("train_transformer",)  # it needs torch


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
