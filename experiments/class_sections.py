"""Models of the section [classes] of run files: the paper's data, random instances, the user's own table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from pydantic import model_validator

from snapdyn.core.errors import InputError, existing_file, shown, shown_path
from snapdyn.core.memory import require_memory
from snapdyn.dynamics import (
    SequenceClasses,
    TextClasses,
    data_set,
    from_text,
    random_classes,
    single_common_token,
    symmetric_classes,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.files.foreign import csv_rows, read_npz
from snapdyn.dynamics.files.netcdf import UNREADABLE
from snapdyn.experiments.toml_files import FileName, Rows, Section, of_kind, read_model, section_model

# Whole numbers in the file of a sparse table.
INDEX_ARRAYS = ("indptr", "indices", "row", "col", "coords", "offsets", "shape")


class ClassSection(Section):
    """Sequence classes of one kind."""

    kind: str

    def require_one(self, one: str, other: str) -> None:
        """Raise InputError unless exactly one of two keys is given."""
        missing = [getattr(self, name) is None for name in (one, other)]
        if sum(missing) != 1:
            received = "neither" if missing[0] else "both"
            raise InputError(f"expected either {one} or {other} in [classes], received {received}; give one of them")

    @abstractmethod
    def build(self, folder: Path) -> SequenceClasses:
        """Build the classes; relative files lie in `folder`."""


class BuilderSection(ClassSection):
    """Classes that a function builds from the keys of the section."""

    builder: ClassVar[Callable[..., SequenceClasses]]

    def build(self, folder: Path) -> SequenceClasses:
        return type(self).builder(**self.model_dump(exclude={"kind"}))


def _builder_model(builder: Callable[..., SequenceClasses]) -> type[BuilderSection]:
    model = section_model(builder.__name__, builder, BuilderSection)
    model.builder = staticmethod(builder)
    return model


class Table(ClassSection):
    """The user's own classes: P inline, or in a file beside the run file."""

    P: Rows | None = None
    file: FileName | None = None
    query: list[int]
    next_token: list[int] | None = None
    prior: list[float] | None = None
    vocab_size: int | None = None

    def files(self, folder: Path) -> list[Path]:
        return [] if self.file is None else [folder / self.file]

    def build(self, folder: Path) -> SequenceClasses:
        self.require_one("P", "file")
        P = self.P if self.file is None else read_table(folder / self.file)
        return SequenceClasses(P, self.query, self.next_token, self.prior, self.vocab_size)


class TextSection(ClassSection):
    """Classes of a text: a file that `snapdyn text --out` wrote, or texts to read, with the options of `from_text`."""

    file: FileName | None = None
    paths: list[FileName] | None = None

    def files(self, folder: Path) -> list[Path]:
        return [folder / path for path in (*(self.paths or ()), *([self.file] if self.file else ()))]

    def build(self, folder: Path) -> SequenceClasses:
        self.require_one("file", "paths")
        options = self.model_dump(exclude={"kind", "file", "paths"}, exclude_unset=True)
        if self.file is None:
            return from_text([folder / path for path in self.paths or ()], **options)
        if options:
            raise InputError(
                f"expected file alone in [classes], received {', '.join(sorted(options))} too; the classes in the file "
                "are made already: give paths instead"
            )
        return TextClasses.load(folder / self.file)


class DataSetSection(ClassSection):
    """Sequences drawn once from other classes, whose section is [classes.classes]."""

    classes: dict[str, Any]
    sequences: int | list[int]

    def source(self) -> ClassSection:
        """Section of the classes from which the sequences are drawn."""
        model = of_kind(CLASSES, self.classes, "[classes.classes]")
        return cast(ClassSection, read_model(model, self.classes, "[classes.classes]", names_section=False))

    @model_validator(mode="after")
    def _has_source(self) -> Self:
        self.source()
        return self

    def files(self, folder: Path) -> list[Path]:
        return self.source().files(folder)

    def build(self, folder: Path) -> SequenceClasses:
        return data_set(self.source().build(folder), **self.model_dump(exclude={"kind", "classes"}))


def read_table(path: Path) -> Any:
    """Read P from .csv (a row per class), or .npz (scipy sparse matrix, or one numpy array)."""
    if path.suffix not in (".csv", ".npz"):
        raise InputError(
            f"expected a .csv or .npz file for P, received {shown_path(path)}; save the table as one of them"
        )
    existing_file("a table of probabilities", path)
    try:
        if path.suffix == ".csv":
            # A number takes two bytes or more of the file, and eight in each of four copies.
            require_memory(f"the table of {path.name}", 16.0 * path.stat().st_size, "fewer classes or tokens, or .npz")
            return np.array([_numbers(path, line, row) for line, row in csv_rows(path)], ndmin=2)
        arrays = read_npz(path)
        if "format" not in arrays:
            if len(arrays) != 1:
                raise InputError(
                    f"expected one array in {shown_path(path)}, received {', '.join(arrays) or 'none'}; "
                    "save P alone, with numpy.savez(path, P=P) or scipy.sparse.save_npz(path, P)"
                )
            return next(iter(arrays.values()))
        for name in arrays.keys() & INDEX_ARRAYS:  # scipy would round them down
            if arrays[name].dtype.kind not in "iu":
                raise ValueError(f"{name} of dtype {arrays[name].dtype}, not whole numbers")
        from scipy import sparse

        return sparse.load_npz(path)
    except InputError:
        raise
    except UNREADABLE as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"expected a table of probabilities in {shown_path(path)}, received: {reason}; check the file"
        ) from error


def _numbers(path: Path, line: int, row: list[str]) -> Floats:
    try:
        return np.array(row, dtype=np.float64)
    except ValueError as error:
        raise InputError(
            f"expected numbers in line {line} of {path.name}, received {shown(row)}; correct it"
        ) from error


TEXT: type[TextSection] = section_model("Text", from_text, TextSection, skip=("progress",))
DATA_SET: type[DataSetSection] = section_model("DataSet", data_set, DataSetSection)
CLASSES: dict[str, type[ClassSection]] = {
    "syn_small": _builder_model(syn_small),
    "syn_medium": _builder_model(syn_medium),
    "single_common_token": _builder_model(single_common_token),
    "symmetric_classes": _builder_model(symmetric_classes),
    "random_classes": _builder_model(random_classes),
    "data_set": DATA_SET,
    "table": Table,
    "text": TEXT,
}
