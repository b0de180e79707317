"""Reading text: files, words, vocabulary, in bounded memory.

A text is read once. Its words are written as numbers to a temporary file on disk (4 bytes each), which all later passes
read: memory grows with the number of different words, not with the length of the text.
"""

from __future__ import annotations

import gzip
import os
import re
import tempfile
import unicodedata
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np

from snapdyn.core.errors import InputError, choice, file_path, list_of, shown, shown_path
from snapdyn.dynamics.classes.table import Ints

UNKNOWN = "<unk>"
BOUNDARY = -1  # between documents: no window crosses it
# Names in the archives of WikiText, and names under which programs that train on it often store it.
WIKITEXT_NAMES = tuple(
    f"{stem}{packed}"
    for part in ("train", "valid", "test")
    for stem in (f"wiki.{part}.tokens", f"wiki.{part}.raw", f"{part}.txt")
    for packed in ("", ".gz")
)
TEXT_ENDINGS = (".txt", ".txt.gz", ".tokens", ".tokens.gz", ".raw", ".raw.gz", ".text", ".text.gz")
GZIP_MAGIC = b"\x1f\x8b"
# A gzip file is refused when it expands beyond both of these; texts shrink to about a third.
MOST_TIMES_SIZE, ALWAYS_EXPANDED = 100, 2**30  # bytes
LONGEST_PIECE = 2**20  # bytes of a line that are read at once; a longer line is read in pieces
LONGEST_MARK = len(UNKNOWN)  # of what the pattern of a word looks at beyond the word
WORDS_AT_ONCE = 2**18
SAMPLE = 2**16  # characters from which `tokens="auto"` decides
TOP_HEADING = re.compile(r"\s*= [^=].* =\s*\Z")


@dataclass(frozen=True)
class Corpus:
    """Words of some files as numbers.

    Attributes
    ----------
    words : tuple of str
        Vocabulary by decreasing count; words that were cut are counted as `<unk>`.
    counts : (V,) array of int
        Occurrences of each word.
    num_words : int
        Length of the text in words.
    num_documents : int
        Number of documents in the text.
    words_read : int
        Number of different words before the cut.
    """

    words: tuple[str, ...]
    counts: Ints
    num_words: int
    num_documents: int
    words_read: int
    _ids: Ints  # word id of each number in the temporary file; the last entry is that of BOUNDARY
    _spool: IO[bytes]

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, *error: object) -> None:
        self._spool.close()

    def blocks(self, overlap: int) -> Iterator[Ints]:
        """Read the word ids of the text.

        Parameters
        ----------
        overlap : int
            Number of ids from the end of a block that the next block repeats.

        Yields
        ------
        array of int
            A block of word ids, with BOUNDARY between documents.
        """
        self._spool.seek(0)
        kept = np.empty(0, np.int64)
        while data := self._spool.read(4 * WORDS_AT_ONCE):
            block = np.concatenate([kept, self._ids[np.frombuffer(data, np.int32)]])
            yield block
            kept = block[max(block.size - overlap, 0) :]


def read_corpus(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    tokens: str,
    headings: str,
    min_token_count: int,
    max_vocab: int | None,
    progress: Callable[[float, float, str], None] | None = None,
) -> Corpus:
    """Read files or folders; use it in a `with` block, which removes the temporary file.

    Parameters
    ----------
    paths : path or list of paths
        This and the other arguments are those of `from_text`.
    tokens : {"auto", "spaces", "words"}
    headings : {"drop", "keep"}
    min_token_count : int
    max_vocab : int or None
    progress : callable (done, total, label), optional

    Returns
    -------
    Corpus

    Raises
    ------
    InputError
        A file is missing, unreadable, without words, or not UTF-8; too few words are frequent enough; the temporary
        folder is full.
    """
    choice("tokens", tokens, ("auto", "spaces", "words"))
    choice("headings", headings, ("drop", "keep"))
    files = text_files(paths)
    try:
        spool = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the corpus)
        try:
            return _read(files, spool, tokens, headings, min_token_count, max_vocab, progress)
        except BaseException:
            spool.close()
            raise
    except OSError as error:
        raise InputError(
            f"expected space for the words, 4 bytes each, in the temporary folder {tempfile.gettempdir()!r}, received: "
            f"{error.strerror or error}; free some space, or set TMPDIR to another folder"
        ) from error


def _read(
    files: list[Path],
    spool: IO[bytes],
    tokens: str,
    headings: str,
    min_token_count: int,
    max_vocab: int | None,
    progress: Callable[[float, float, str], None] | None,
) -> Corpus:
    """Write the number of each word to the temporary file `spool`, then cut the vocabulary."""
    first_id: dict[str, int] = {}
    buffer = array("i")
    number = documents = bytes_before = 0
    bytes_of_all = max(sum(file.stat().st_size for file in files), 1)
    for file in files:
        spaces = _is_tokenised(file, tokens)
        split = str.split if spaces else _word_pattern().findall
        inside = False  # whether a document has begun
        for line, position in _lines(file, spaces):
            if _is_heading(line):
                if inside and TOP_HEADING.match(line):
                    buffer.append(BOUNDARY)
                    inside = False
                if headings == "drop":
                    continue
            words = split(line.lower())
            buffer.extend([first_id.setdefault(word, len(first_id)) for word in words])
            number += len(words)
            documents += bool(words) and not inside
            inside = inside or bool(words)
            if len(buffer) >= WORDS_AT_ONCE:
                buffer.tofile(spool)
                del buffer[:]
                if progress:
                    progress((bytes_before + position) / bytes_of_all, 1.0, f"reading {file.name}")
        bytes_before += file.stat().st_size
        buffer.append(BOUNDARY)
    buffer.tofile(spool)
    if number == 0:
        raise InputError(f"expected text with words, received none in {_listed(files)}; choose another file")
    return _cut(list(first_id), spool, number, documents, min_token_count, max_vocab)


def _cut(
    words: list[str], spool: IO[bytes], number: int, documents: int, min_token_count: int, max_vocab: int | None
) -> Corpus:
    """Count the words, keep the frequent ones, and number them by decreasing count, then by first occurrence."""
    counts = np.zeros(len(words) + 1, np.int64)
    spool.seek(0)
    while data := spool.read(4 * WORDS_AT_ONCE):
        counts += np.bincount(np.frombuffer(data, np.int32) + 1, minlength=counts.size)
    counts = counts[1:]
    unknown = words.index(UNKNOWN) if UNKNOWN in words else -1
    order = np.argsort(-counts, kind="stable")
    kept = order[(counts[order] >= min_token_count) & (order != unknown)]
    # When words are cut, <unk> is one of the max_vocab words.
    if max_vocab is not None:
        kept = kept[: max_vocab - (unknown >= 0 or kept.size > max_vocab or kept.size < len(words))]
    cut = int(counts.sum() - counts[kept].sum())
    size = kept.size + (cut > 0)
    place = int((counts[kept] >= cut).sum())  # of <unk> among the kept words: after words that are as frequent
    ids = np.full(len(words) + 1, place, np.int64)
    numbers = np.arange(kept.size)
    ids[kept] = numbers + (numbers >= place) * (cut > 0)
    ids[-1] = BOUNDARY
    vocabulary = [words[i] for i in kept]
    counted = counts[kept]
    if cut:
        vocabulary.insert(place, UNKNOWN)
        counted = np.insert(counted, place, cut)
    if number == 1:
        raise InputError(
            f"expected words between spaces, received a text of one word, {shown(words[0])}; is it a text?"
        )
    if size < 2:
        raise InputError(
            f"expected at least 2 different words that occur {min_token_count} times, received {kept.size} of "
            f"{len(words)}; lower min_token_count or give more text"
        )
    return Corpus(tuple(vocabulary), counted, number, documents, len(words), ids, spool)


# -- files -------------------------------------------------------------------------------------------------
def text_files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """List the files to read.

    Parameters
    ----------
    paths : path or list of paths
        A folder stands for its WikiText files, or if it has none, for all its text files, in the order of their names.

    Returns
    -------
    list of Path

    Raises
    ------
    InputError
        A path is missing, empty, or neither a file nor a folder; a folder has no text; the list is empty.
    """
    files: list[Path] = []
    for path in listed_paths(paths):
        if os.path.isdir(path):  # without an error where the folder around it must not be read
            files += _files_of_folder(path)
        elif os.path.isfile(path):
            files.append(path)
        elif os.path.exists(path):
            raise InputError(
                f"expected a text file or a folder of them, received {shown_path(path)}, which is neither (a pipe can "
                "be read only once); write it to a file"
            )
        else:
            raise InputError(
                f"expected a text file or a folder of them, received {shown_path(path)}, which is missing or must not "
                "be read; check the path"
            )
    return files


def listed_paths(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """One path or several as a list of at least one; whether they exist is not checked.

    Raises
    ------
    InputError
        There is no path, or something that cannot be the name of a file.
    """
    single = isinstance(paths, (str, os.PathLike))
    listed = list_of("paths", [paths] if single else paths, str, os.PathLike, at_least=1)
    return [file_path("a path of a text", path) for path in listed]


def _files_of_folder(folder: Path) -> list[Path]:
    try:
        inside = sorted(path for path in folder.iterdir() if os.path.isfile(path))
    except OSError as error:
        raise InputError(
            f"expected a folder that can be read, received {str(folder)!r} ({error.strerror}); check its rights"
        ) from error
    wikitext = [folder / name for name in WIKITEXT_NAMES if (folder / name) in inside]
    texts = wikitext or [path for path in inside if path.name.lower().endswith(TEXT_ENDINGS)]
    if not texts:
        raise InputError(
            f"expected text files in the folder {str(folder)!r} (wiki.train.tokens, *.txt, *.txt.gz, ...), received "
            "none; name the files themselves"
        )
    return texts


def _lines(file: Path, spaces: bool) -> Iterator[tuple[str, int]]:
    """Yield lines and the number of bytes of the file read so far; gzip is recognised by the first bytes of the file.

    A line longer than a megabyte is yielded in pieces that end between words, which are split at `spaces` or not.
    """
    number, rest, expanded = 1, b"", 0
    try:
        most = max(ALWAYS_EXPANDED, MOST_TIMES_SIZE * file.stat().st_size)
        with file.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            if file.name.lower().endswith(".gz") and not packed:
                raise InputError(
                    f"expected gzip in {str(file)!r}, as its name says, received other bytes; rename or repair the file"
                )
            raw.seek(0)
            # mypy does not accept a GzipFile as IO[bytes]; both have `readline`.
            source: IO[bytes] = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            while data := source.readline(LONGEST_PIECE):
                expanded += len(data)
                if packed and expanded > most:
                    raise InputError(
                        f"expected gzip of at most {most} bytes of text, 1 GiB or {MOST_TIMES_SIZE} times its size, "
                        f"received more in {str(file)!r}; unpack it first if it is a text"
                    )
                data = rest + data
                rest = b""
                whole_line = data.endswith(b"\n")
                if not whole_line and len(data) >= LONGEST_PIECE:
                    end = _end_of_words(data, spaces)
                    if end == 0:
                        raise InputError(
                            f"expected words of at most {LONGEST_PIECE} bytes, received a longer one in {str(file)!r}, "
                            f"line {number}; is it a text?"
                        )
                    data, rest = data[:end], data[end:]
                yield _decoded(data, file, number), raw.tell()
                number += whole_line
            if rest:
                yield _decoded(rest, file, number), raw.tell()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"expected {str(file)!r} to be readable, received: {getattr(error, 'strerror', None) or error} (line "
            f"{number}); check the file"
        ) from error


def _end_of_words(data: bytes, spaces: bool) -> int:
    """Number of bytes up to the last place between two words that no later text can join; 0 where there is none."""
    text = data.decode(errors="surrogateescape")  # the last character may be cut
    to_last_space = re.match(r"(?s).*\s", text)
    end = to_last_space.end() if to_last_space else 0
    if not (end or spaces):
        ends = (match.end() for match in _word_pattern().finditer(text))
        end = max((each for each in ends if each <= len(text) - LONGEST_MARK), default=0)
    return len(text[:end].encode(errors="surrogateescape"))


def _decoded(data: bytes, file: Path, number: int) -> str:
    if b"\0" in data:
        raise InputError(
            f"expected text, received a NUL byte in {str(file)!r}, line {number}, byte {data.index(0) + 1}; convert it "
            "to UTF-8"
        )
    try:
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected UTF-8 text, received byte 0x{data[error.start]:02x} in {str(file)!r}, line {number}, byte "
            f"{error.start + 1}; convert the file to UTF-8"
        ) from error


@cache
def _word_pattern() -> re.Pattern[str]:
    """Pattern of a word: letters with inner apostrophes and hyphens, a mark of WikiText (<unk>, @-@), or a single sign.

    Joiners, and accents and vowel signs that are separate characters, belong to words, although Python does not count
    them as letters. Such characters beyond 16 bits are left out, because matching a set with them takes fifteen times
    as long.
    """
    marks = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M")
    letter = rf"[\w{marks}\u200c\u200d]"
    return re.compile(rf"<unk>|@[-,.]@|{letter}+(?:['’-]{letter}+)*|[^\w\s]")


def _is_heading(line: str) -> bool:
    """Whether a line is a heading as in WikiText, ` = Title = ` or ` = = Part = = `."""
    line = line.strip()
    return len(line) > 4 and line.startswith("= ") and line.endswith(" =")


def _is_tokenised(file: Path, tokens: str) -> bool:
    """Whether to split at spaces: `tokens` says so, or most commas stand alone ("auto")."""
    if tokens != "auto":
        return tokens == "spaces"
    alone = attached = read = 0
    for line, _ in _lines(file, spaces=False):
        words = line.split()
        alone += words.count(",")
        attached += sum(len(word) > 1 and word.endswith(",") for word in words)
        read += len(line)
        if read >= SAMPLE:
            break
    return alone > attached


def _listed(files: list[Path]) -> str:
    names = ", ".join(str(file) for file in files[:3])
    return names + (f" and {len(files) - 3} more" if len(files) > 3 else "")
