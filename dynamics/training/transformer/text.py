"""Text for the training of transformers: the words of a corpus as a stream, split, and windows of it."""

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
    """A stream of word ids, BOUNDARY (-1) between documents, and the starts of the windows that cross none."""

    stream: Words
    start: Ints
    length: int

    def __getitem__(self, index: Ints) -> Ints:
        """Windows (n, length) of word ids, by number."""
        return self.stream[self.start[index][:, None] + np.arange(self.length)].astype(np.int64)

    def evenly(self, count: int) -> Ints:
        """At most `count` windows (n, length), evenly spread."""
        return self[np.unique(np.linspace(0, self.start.size - 1, count).astype(np.int64))]


@dataclass(frozen=True)
class SplitText:
    """Words of the vocabulary, windows to train on, windows to validate on, and what tells this text from others."""

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
    """Read the text, hold its end (or the files `validation`) back, cut windows of `length` words.

    With a `shuffle_seed` all words of the text are exchanged at random, documents keep their lengths: nothing then
    tells the next word.
    """
    if validation is None:
        with read_corpus(paths, tokens, headings, min_token_count, max_vocab, progress) as corpus:
            words, stream = corpus.words, _stream(corpus)
        held = round(validation_share * stream.size)
    else:
        # Read alone they say where they end; the vocabulary is that of all the text.
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
    """Name of a corpus: that of its first file or folder."""
    return Path(_listed(paths)[0]).resolve().name
