"""Models of the section [classes] of run files: the paper's data, random instances, the user's own table."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from snapdyn.dynamics import (
    SequenceClasses,
    TextClasses,
    from_text,
    random_classes,
    single_common_token,
    syn_medium,
    syn_small,
)
from snapdyn.errors import InputError
from snapdyn.experiments.toml_files import Section


class SynSmall(Section):
    """Syn-Small of Fig. 4."""

    kind: Literal["syn_small"]

    def build(self, folder: Path) -> SequenceClasses:
        return syn_small()


class SynMedium(Section):
    """Syn-Medium of Fig. 6."""

    kind: Literal["syn_medium"]
    num_queries: int = 10

    def build(self, folder: Path) -> SequenceClasses:
        return syn_medium(self.num_queries)


class SingleCommonTokenClasses(Section):
    """Classes of one query that share one common token (Theorem 4)."""

    kind: Literal["single_common_token"]
    num_classes: int
    num_distinct: int
    common_probability: float
    vocab_size: int | None = None

    def build(self, folder: Path) -> SequenceClasses:
        return single_common_token(**self.model_dump(exclude={"kind"}))


class RandomClasses(Section):
    """Random classes with weak or strong correlation."""

    kind: Literal["random_classes"]
    num_classes: int = 5
    num_common: int = 2
    num_distinct: int = 4
    num_queries: int = 1
    vocab_size: int | None = None
    correlation: str = "weak"
    uniform_prior: bool = True
    seed: int = 0

    def build(self, folder: Path) -> SequenceClasses:
        return random_classes(**self.model_dump(exclude={"kind"}))


class Table(Section):
    """The user's own classes: P inline, or in a file beside the run file."""

    kind: Literal["table"]
    P: list[list[float]] | None = None
    file: str | None = None
    query: list[int]
    next_token: list[int] | None = None
    weights: list[float] | None = None
    vocab_size: int | None = None

    def files(self, folder: Path) -> list[Path]:
        return [] if self.file is None else [folder / self.file]

    def build(self, folder: Path) -> SequenceClasses:
        if (self.P is None) == (self.file is None):
            received = "neither" if self.P is None else "both"
            raise InputError(f"expected P or file in [classes], received {received}; keep one of them")
        if self.file is not None:
            P = read_table(folder / self.file)
        else:
            P = self.P
            lengths = sorted({len(row) for row in self.P or ()})
            if len(lengths) > 1:
                raise InputError(
                    f"expected rows of P of one length, received rows of {lengths[0]} and of {lengths[-1]} "
                    "numbers; write 0.0 for a token that a class does not contain"
                )
        return SequenceClasses(P, self.query, self.next_token, self.weights, self.vocab_size)


class Text(Section):
    """Classes of a text: a file that `snapdyn text --out` wrote, or texts to read, with the options of `from_text`."""

    kind: Literal["text"]
    file: str | None = None
    paths: list[str] | None = None
    window: int | None = None
    min_count: int | None = None
    min_token_count: int | None = None
    max_vocab: int | None = None
    max_classes: int | None = None
    tokens: str | None = None
    headings: str | None = None
    sequences: bool | None = None
    max_sequences: int | None = None
    seed: int | None = None

    def files(self, folder: Path) -> list[Path]:
        return [folder / path for path in (*(self.paths or ()), *([self.file] if self.file else ()))]

    def build(self, folder: Path) -> SequenceClasses:
        if (self.file is None) == (self.paths is None):
            received = "neither" if self.file is None else "both"
            raise InputError(f"expected file or paths in [classes], received {received}; keep one of them")
        options = self.model_dump(exclude={"kind", "file", "paths"}, exclude_unset=True)
        if self.file is None:
            return from_text([folder / path for path in self.paths or ()], **options)
        if options:
            raise InputError(
                f"expected file alone in [classes], received {', '.join(sorted(options))} too; the classes in the file "
                "are made already: give paths instead"
            )
        return TextClasses.load(folder / self.file)


def read_table(path: Path) -> Any:
    """Read P from .csv (a row per class), or .npz (scipy sparse matrix, or one numpy array)."""
    if path.suffix not in (".csv", ".npz"):
        raise InputError(f"expected a .csv or .npz file for P, received {str(path)!r}; save the table as one of them")
    try:
        if path.suffix == ".csv":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an empty file: its shape is refused later
                return np.loadtxt(path, delimiter=",", ndmin=2)
        # Opened here, since numpy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if "indptr" not in arrays:
                if len(arrays.files) != 1:
                    raise InputError(
                        f"expected one array in {str(path)!r}, received {', '.join(arrays.files) or 'none'}; "
                        "save P alone, with numpy.savez(path, P=P) or scipy.sparse.save_npz(path, P)"
                    )
                return arrays[arrays.files[0]]
        from scipy import sparse

        return sparse.load_npz(path)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0].rstrip(".")
        raise InputError(
            f"expected a table of probabilities in {str(path)!r}, received: {reason}; check the file"
        ) from error


Classes = SynSmall | SynMedium | SingleCommonTokenClasses | RandomClasses | Table | Text
CLASSES: dict[str, type[Section]] = {
    "syn_small": SynSmall,
    "syn_medium": SynMedium,
    "single_common_token": SingleCommonTokenClasses,
    "random_classes": RandomClasses,
    "table": Table,
    "text": Text,
}
