"""TOML files whose sections are models: only known names, types as written, one sentence for a mistake."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from numpy.typing import ArrayLike
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from snapdyn.core.errors import (
    FORGOTTEN,
    LARGEST_WHOLE,
    InputError,
    file_path,
    shown,
    shown_path,
    suggest,
    unknown_name,
)

File = TypeVar("File", bound="Section")


class Section(BaseModel):
    """A part of a file: only known keys, types as written (no "1" for 1), and finite numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _has_known_keys(cls, values: Any) -> Any:
        if isinstance(values, cls):
            return values
        if not isinstance(values, dict):
            raise PydanticCustomError("no_section", "a section")
        for key in values:
            if key not in cls.model_fields and cls.model_config["extra"] == "forbid":
                raise PydanticCustomError("unknown_key", "a known key", {"key": key, "known": tuple(cls.model_fields)})
        return values

    def files(self, folder: Path) -> list[Path]:
        """Files and folders that the section names, which its results depend on; relative ones lie in `folder`."""
        return []


def _file_name(value: str) -> str:
    try:
        file_path("the path", value)
    except InputError:
        raise ValueError(f"a path that a file can have, received {shown(value)}; shorten or correct it") from None
    return value


FileName = Annotated[str, AfterValidator(_file_name)]
"""A path in a file: relative to the folder of the file, or absolute."""

MOST_PARTS = 200
DEEP_KEY = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")

Model = type[Section] | Mapping[str, type[Section]]
"""What a section is read into: a model, or one of several, which the key `kind` of the section names."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read the values of a TOML file.

    Raises
    ------
    InputError
        One sentence with the file and the line.
    """
    try:
        content = path.read_bytes().decode("utf-8-sig")
        is_deep = DEEP_KEY.search(content)  # tomllib takes memory with the square of the number of parts of a key
        values = {} if is_deep else tomllib.loads(content)
    except RecursionError as error:
        raise InputError(
            f"expected brackets nested at most some hundred deep in {shown_path(path)}, received more; write fewer"
        ) from error
    except OSError as error:
        raise InputError(
            f"expected a file that can be read, received {shown_path(path)} ({error.strerror}); check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected text in UTF-8, received other bytes in {shown_path(path)}; save it as UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"expected TOML in {shown_path(path)}, received a syntax error: {error}; correct that line"
        ) from error
    except ValueError as error:  # a number of thousands of digits, a date that is none
        raise InputError(f"expected TOML in {shown_path(path)}, received: {error}; correct that value") from error
    if is_deep:
        raise InputError(
            f"expected keys such as a.b.c of at most {MOST_PARTS} parts in {shown_path(path)}, received more; "
            "write fewer"
        )
    _check_values(path, values)
    return values


def under(values: Any, *keys: str) -> Any:
    """What a file has under some keys; None where it has nothing there."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _check_values(path: Path, values: Any) -> None:
    """Check that whole numbers have 64 bits, as in the standard of TOML, and that no text holds a zero byte."""
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, int) and not -LARGEST_WHOLE - 1 <= value <= LARGEST_WHOLE:
            raise InputError(
                f"expected whole numbers of at most {LARGEST_WHOLE} in {shown_path(path)}, received {shown(value)}; "
                "give a smaller one"
            )
        elif isinstance(value, str) and "\0" in value:
            raise InputError(
                f"expected text without the character \\u0000 in {shown_path(path)}, received {shown(value)}; remove it"
            )


def of_kind(model: Model, values: Any, place: str, key: str = "kind") -> type[Section]:
    """Return the model of the section at `place`: of several models the one that its `key` names."""
    if not isinstance(model, Mapping):
        return model
    if not isinstance(values, dict):
        return Section  # which says what is wrong
    if key not in values:
        raise InputError(f"expected {key} in {place}, received none; add {key} = one of {', '.join(model)}")
    if not isinstance(values[key], str) or values[key] not in model:
        raise unknown_name(f"{key} in {place}", values[key], model, FORGOTTEN)
    return model[values[key]]


def read_sections(
    path: Path, models: Mapping[str, Model], required: Collection[str], values: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Read the sections of a TOML file, each into its model or into the one that its key `kind` names.

    `values` are those of `read_toml`, if they have been read already.

    Raises
    ------
    InputError
        One sentence with the file, the line or the key, what was expected, what was received, what to do.
    """
    return checked_sections(read_toml(path) if values is None else values, models, required, repr(str(path)))


def checked_sections(
    values: dict[str, Any], models: Mapping[str, Model], required: Collection[str], source: str
) -> dict[str, Any]:
    """Check the values of a file, which messages call `source`, as `read_sections` does; return its sections."""
    fields: dict[str, Any] = {
        name: (of_kind(model, values.get(name), f"[{name}] of {source}"), ... if name in required else None)
        for name, model in models.items()
    }
    file = read_model(create_model("File", __base__=Section, **fields), values, source)
    return {name: getattr(file, name) for name in values}


def read_model(model: type[File], values: Mapping[str, Any], source: str, names_section: bool = True) -> File:
    """Read the values of a file, or of one section, into its model; raises InputError as `read_sections` does.

    The message calls the file `source`; `names_section` says whether the first part of the place of a fault is the name
    of a section.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(_sentence(error, source, names_section)) from None


def _sentence(errors: ValidationError, source: str, names_section: bool) -> str:
    """One sentence for the outermost fault that pydantic or a validator of snapdyn has found."""
    error = min(errors.errors(), key=lambda fault: len(fault["loc"]))
    kind, context, received = error["type"], error.get("ctx", {}), error["input"]
    if isinstance(context.get("error"), InputError):
        return str(context["error"])
    parts = list(error["loc"])
    section = parts.pop(0) if names_section and parts else ""
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    place = f"[{section}] of {source}" if section else source
    whole = f"{name} in {place}" if name else place
    if kind == "unknown_key":
        key, known = context["key"], ", ".join(context["known"])
        advice = suggest(key, context["known"]) or "; remove it" + (f", or use one of {known}" if known else "")
        what = "sections" if names_section and not section else "keys"
        return f"expected only known {what} in {whole}, received {shown(key)}{advice}"
    if kind == "missing":
        return (
            f"expected {f'{name} in {place}' if name else f'a section [{section}] in {source}'}, received none; add it"
        )
    if kind in ("no_section", "dict_type"):
        return f"expected {whole} to be a section, received {shown(received)}; write its keys below its name"
    if kind == "value_error":  # a validator of ours: what is expected, what was received, what to do
        return f"expected {whole} with {context['error']}"
    expected = error["msg"].removeprefix("Input should be ")
    return f"expected {whole} to be {expected}, received {shown(received)}; correct it"


SIMPLE_TYPES = frozenset((bool, int, float, str, NoneType))
SectionType = TypeVar("SectionType", bound=Section)


Rows = list[list[float]]
"""A table in a file: a list of rows of numbers."""


def section_model(
    name: str,
    function: Callable[..., Any],
    base: type[SectionType],
    skip: Collection[str] = (),
) -> type[SectionType]:
    """Make the model of a section with a key per parameter of a function or class.

    Parameters
    ----------
    name : str
        Name of the model.
    function : callable
        Its parameters give the keys, their types and their defaults; its docstring describes the section.
    base : type of Section
        Base class of the model, with further keys; a key of the base replaces the parameter of the same name.
    skip : collection of str
        Parameters that no file sets.

    Returns
    -------
    type of Section
        Numbers, text, true/false, None and every `Annotated` type are taken from the annotation, `ArrayLike` as rows of
        numbers; other parameters take any value, which the function itself checks.
    """
    fields: dict[str, Any] = {}
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:  # an annotation names what is imported for checkers only: parameters then take any value
        signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name in skip or parameter.name in base.model_fields:
            continue
        hint = _type_in_files(parameter.annotation)
        fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    return create_model(name, __base__=base, __doc__=inspect.getdoc(function), **fields)


def _type_in_files(hint: Any) -> Any:
    if hint == ArrayLike:
        return Rows
    if hint == ArrayLike | None:
        return Rows | None
    known = get_origin(hint) is Annotated or set(get_args(hint) or (hint,)) <= SIMPLE_TYPES
    return hint if known else Any
