"""TOML files whose sections are models: only known names, types as written, one sentence for a mistake."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from snapdyn.errors import LARGEST_WHOLE, InputError, file_path, shown, suggest, unknown_name


class Section(BaseModel):
    """A part of a run file: only known keys, types as written (no "1" for 1), and finite numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

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

Model = type[Section] | Mapping[str, type[Section]]


def read_toml(path: Path) -> dict[str, Any]:
    """Read the values of a TOML file.

    Raises
    ------
    InputError
        One sentence with the file and the line.
    """
    path = file_path("the path of a TOML file", path)
    try:
        values = tomllib.loads(path.read_bytes().decode())
    except RecursionError as error:
        raise InputError(
            f"expected brackets nested at most some hundred deep in {str(path)!r}, received more; write fewer"
        ) from error
    except OSError as error:
        raise InputError(
            f"expected a file that can be read, received {str(path)!r} ({error.strerror}); check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"expected text in UTF-8, received other bytes in {str(path)!r}; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"expected TOML in {str(path)!r}, received a syntax error: {error}; correct that line"
        ) from error
    except ValueError as error:  # a number of thousands of digits, a date that is none
        raise InputError(f"expected TOML in {str(path)!r}, received: {error}; correct that value") from error
    _check_values(path, values)
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
                f"expected whole numbers of at most {LARGEST_WHOLE} in {str(path)!r}, received {shown(value)}; give a "
                "smaller one"
            )
        elif isinstance(value, str) and "\0" in value:
            raise InputError(
                f"expected text without the character \\u0000 in {str(path)!r}, received {shown(value)}; remove it"
            )


def read_sections(path: Path, models: Mapping[str, Model], required: tuple[str, ...]) -> dict[str, Any]:
    """Read the sections of a TOML file, each into its model or into the one that its key `kind` names.

    Raises
    ------
    InputError
        One sentence with the file, the line or the key, what was expected, what was received, what to do.
    """
    values = read_toml(path)
    check_names(path, values, models, required)
    return {name: read_section(models[name], values[name], f"[{name}] of {str(path)!r}") for name in values}


def check_names(path: Path, values: Mapping[str, Any], known: Iterable[str], required: Iterable[str]) -> None:
    """Check that a file has only known sections and all required ones."""
    for name in values:
        if name not in known:
            raise unknown("section", name, known, str(path))
    for name in required:
        if name not in values:
            raise InputError(f"expected a section [{name}] in {str(path)!r}, received none; add it")


def read_section(model: Model, values: Any, where: str) -> Any:
    """Read the values of one section into its model; InputError with the key, as `read_sections`."""
    if not isinstance(values, dict):
        raise InputError(f"expected {where} to be a section, received {shown(values)}; write its keys below its name")
    if isinstance(model, Mapping):
        if "kind" not in values:
            raise InputError(f"expected kind in {where}, received none; add kind = one of {', '.join(model)}")
        if values["kind"] not in list(model):
            raise unknown_name(f"kind in {where}", values["kind"], model)
        model = model[values["kind"]]
    for key in values:
        if key not in model.model_fields:
            raise unknown("key", key, model.model_fields, where)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
    name = str(first["loc"][0]) + "".join(f"[{part}]" for part in first["loc"][1:])
    if first["type"] == "missing":
        raise InputError(f"expected {name} in {where}, received none; add it")
    if first["type"] == "value_error":  # a validator of ours: what is expected, what was received, what to do
        raise InputError(f"expected {name} in {where} with {first['ctx']['error']}")
    expected = first["msg"].removeprefix("Input should be ")
    raise InputError(f"expected {name} in {where} to be {expected}, received {shown(first['input'])}; correct it")


def unknown(what: str, name: str, known: Iterable[str], where: str) -> InputError:
    """Build the error for a name that is none of the known ones of a file or a section."""
    advice = suggest(name, known) or "; remove it" + (f", or use one of {', '.join(known)}" if known else "")
    return InputError(f"expected only known {what}s in {where}, received {shown(name)}{advice}")
