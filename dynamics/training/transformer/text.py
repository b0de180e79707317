"""Text for the training of transformers: a corpus as a stream of words, split in two, and its windows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.classes import Ints
from snapdyn.dynamics.text.corpus import Corpus, read_corpus
from snapdyn.errors import InputError

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[float, float, str], None]
Words = NDArray[np.int32]


@dataclass(frozen=True)
class Windows:
    """Windows of a text that cross no end of a document.

    Attributes
    ----------
    stream : array of int
        Word ids, with BOUNDARY (-1) between documents.
    start : array of int
        Position of the first word of each window.
    length : int
        Words of a window.
    """

    stream: Words
    start: Ints
    length: int

    def __getitem__(self, index: Ints) -> Ints:
        """Word ids (n, length) of the windows with the numbers `index` (n,)."""
        return self.stream[self.start[index][:, None] + np.arange(self.length)].astype(np.int64)

    def evenly(self, count: int) -> Ints:
        """Choose windows that are evenly spread over the text.

        Parameters
        ----------
        count : int
            Largest number of windows.

        Returns
        -------
        (n, length) array of int
        """
        return self[np.unique(np.linspace(0, self.start.size - 1, count).astype(np.int64))]


@dataclass(frozen=True)
class SplitText:
    """A text for training and validation.

    Attributes
    ----------
    words : tuple of str
        Vocabulary.
    training : Windows
    validation : Windows
    digest : str
        SHA-256 of stream and vocabulary, which identifies the text.
    """

    words: tuple[str, ...]
    training: Windows
    validation: Windows
    digest: str


def split_text(
    paths: Paths,
    validation: Paths | None,
    validation_share: float,
    length: int,
    tokens: str,
    headings: str,
    min_token_count: int,
    max_vocab: int | None,
    shuffle_seed: Sequence[int] | None,
    progress: Progress | None,
) -> SplitText:
    """Read a text, reserve its end (or the files `validation`) for validation, and find its windows.

    Parameters
    ----------
    paths : path or list of paths
        As in `from_text`, like `tokens`, `headings`, `min_token_count` and `max_vocab`.
    validation : path or list of paths, optional
        Text for validation; default the last `validation_share` of the words of `paths`.
    validation_share : float
    length : int
        Words of a window.
    tokens : {"auto", "spaces", "words"}
    headings : {"drop", "keep"}
    min_token_count : int
    max_vocab : int or None
    shuffle_seed : sequence of int, optional
        Permute all words of the text at random with this seed, without changing the lengths of documents (control): the
        next word becomes unpredictable.
    progress : callable (done, total, label), optional

    Returns
    -------
    SplitText

    Raises
    ------
    InputError
        As in `from_text`; or no document is as long as a window.
    """
    if validation is None:
        with read_corpus(paths, tokens, headings, min_token_count, max_vocab, progress) as corpus:
            words, stream = corpus.words, _stream(corpus)
        held = round(validation_share * stream.size)
    else:
        # The validation text is read alone for its length, and with the training text for a common vocabulary.
        with read_corpus(validation, tokens, headings, 1, None, progress) as corpus:
            held = _stream(corpus).size
        every = [*_listed(paths), *_listed(validation)]
        with read_corpus(every, tokens, headings, min_token_count, max_vocab, progress) as corpus:
            words, stream = corpus.words, _stream(corpus)
    if shuffle_seed is not None:
        inside = stream >= 0
        stream[inside] = np.random.default_rng(shuffle_seed).permutation(stream[inside])
    digest = hashlib.sha256(stream.tobytes() + "\n".join(words).encode()).hexdigest()
    border = stream.size - held
    return SplitText(
        words, _windows(stream[:border], length, "training"), _windows(stream[border:], length, "validation"), digest
    )


def _stream(corpus: Corpus) -> Words:
    return np.concatenate([block.astype(np.int32) for block in corpus.blocks(overlap=0)])


def _listed(paths: Paths) -> list[str | os.PathLike[str]]:
    return [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)


def _windows(stream: Words, length: int, purpose: str) -> Windows:
    boundaries = np.concatenate([[0], np.cumsum(stream < 0)])
    start = np.flatnonzero(boundaries[length:] == boundaries[:-length]) if stream.size >= length else np.empty(0, int)
    if start.size == 0:
        raise InputError(
            f"expected a document of at least {length} words in the {purpose} text, received none among its "
            f"{int((stream >= 0).sum())} words; give more text or choose a smaller window"
        )
    return Windows(stream, start, length)


def name_of(paths: Paths) -> str:
    """Name of a corpus: the name of its first file or folder.

    Parameters
    ----------
    paths : path or list of paths

    Returns
    -------
    str
    """
    return Path(_listed(paths)[0]).resolve().name
