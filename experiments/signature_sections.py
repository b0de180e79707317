"""Models of sections made from signatures, so that a constructor's parameters are declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from numpy.typing import ArrayLike
from pydantic import AfterValidator, create_model

from snapdyn.experiments.toml_files import Section

SIMPLE_TYPES = frozenset((bool, int, float, str, NoneType))
SectionType = TypeVar("SectionType", bound=Section)


def _rows_of_one_length(rows: list[list[float]]) -> list[list[float]]:
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise ValueError(
            f"rows of one length, received rows of {lengths[0]} and of {lengths[-1]} numbers; write 0.0 for a token "
            "that a row does not have"
        )
    return rows


Rows = Annotated[list[list[float]], AfterValidator(_rows_of_one_length)]
"""A table in a file: a list of rows of numbers, all of one length."""


def section_model(
    name: str,
    function: Callable[..., Any],
    base: type[SectionType],
    skip: Collection[str] = (),
    types: Mapping[str, Any] | None = None,
) -> type[SectionType]:
    """Make the model of a section with a key per parameter of a function or class.

    Parameters
    ----------
    name : str
        Name of the model.
    function : callable
        Its parameters give the keys, their types and their defaults; its docstring describes the section.
    base : type of Section
        Base class of the model, with further keys.
    skip : collection of str
        Parameters that no file sets.
    types : mapping of str to type, optional
        Types of parameters in files, where the annotation does not say it. Numbers, text, true/false, None and every
        `Annotated` type are taken from the annotation, `ArrayLike` as rows of numbers; other parameters take any value,
        which the function itself checks.

    Returns
    -------
    type of Section
    """
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in skip or parameter.name in base.model_fields:
            continue
        hint = (types or {}).get(parameter.name, _type_in_files(_evaluated(parameter.annotation, function)))
        fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    return create_model(name, __base__=base, __doc__=inspect.getdoc(function), **fields)


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """Type that an annotation means; Any where it has none, or names something that is imported for checkers only."""
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    defined_by = function.__init__ if inspect.isclass(function) else function
    try:
        return eval(annotation, getattr(inspect.unwrap(defined_by), "__globals__", {}))
    except NameError:
        return Any


def _type_in_files(hint: Any) -> Any:
    if hint == ArrayLike:
        return Rows
    if hint == ArrayLike | None:
        return Rows | None
    known = get_origin(hint) is Annotated or set(get_args(hint) or (hint,)) <= SIMPLE_TYPES
    return hint if known else Any
