"""What a transformer is trained with: checked settings, and the text as windows for training and validation."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError, flag, positive, text, whole
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Ints
from snapdyn.dynamics.text.corpus import Corpus, listed_paths, read_corpus
from snapdyn.dynamics.training.steps import checked_record

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[float, float, str], None]
Words = NDArray[np.int32]

LEAST = {
    "num_layers": 1,
    "seed": 0,
    "iterations": 1,
    "embedding": 1,
    "batch_size": 1,
    "window": 2,
    "min_token_count": 1,
}
OF_TEXT = {"paths", "validation", "validation_share", "corpus", "min_token_count", "max_vocab", "tokens", "headings"}
SHUFFLE = 2  # stream of random numbers of a seed that permutes the words; the trainer has two others


@dataclass(frozen=True)
class TransformerSettings:
    """Settings of a run, checked at construction; `train_transformer` documents them."""

    paths: Paths
    learning_rate: float
    num_layers: int = 1
    seed: int = 0
    iterations: int = 1500
    record: Sequence[int] | None = None
    validation: Paths | None = None
    validation_share: float = 0.1
    corpus: str | None = None
    shuffle: bool = False
    embedding: int = 200
    embedding_norm: float = 3.0
    window: int = 35
    batch_size: int = 20
    residual: bool | None = None
    clip: float | None = 0.5
    min_token_count: int = 5
    max_vocab: int | None = None
    tokens: str = "auto"
    headings: str = "drop"

    def __post_init__(self) -> None:
        def store(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name, least in LEAST.items():
            store(name, whole(name, getattr(self, name), least))
        layers, width, batch = self.num_layers, self.embedding, self.batch_size * self.window
        # Weights and gradients; activations and scores of a batch, kept for the gradient.
        require_memory(
            f"a transformer of {layers} layers of {width} values on {batch} words at once",
            16.0 * layers * 3 * width**2 + 4.0 * layers * batch * (4 * width + self.window),
            "a smaller embedding, batch or window",
        )
        for name in ("learning_rate", "embedding_norm", "validation_share"):
            store(name, positive(name, getattr(self, name), below=1.0 if name == "validation_share" else math.inf))
        store("clip", None if self.clip in (None, math.inf) else positive("clip", self.clip))
        store("residual", layers > 1 if self.residual is None else self.residual)
        for name in ("shuffle", "residual"):
            store(name, flag(name, getattr(self, name)))
        every = np.unique(np.round(np.linspace(0, self.iterations, 4)))
        record = checked_record(every if self.record is None else self.record, self.iterations)
        store("record", tuple(record.tolist()))
        if self.max_vocab is not None:
            store("max_vocab", whole("max_vocab", self.max_vocab, 3))
        if self.corpus is not None:
            text("corpus, the name of the data,", self.corpus, at_least=1)

    @property
    def numbers(self) -> dict[str, Any]:
        """Settings that, with the text, determine the numbers of a run."""
        return {name: value for name, value in vars(self).items() if name not in OF_TEXT}


@dataclass(frozen=True)
class Windows:
    """Windows of a text that cross no end of a document."""

    stream: Words  # word ids, with -1 between documents
    start: Ints  # position of the first word of each window
    length: int

    def __getitem__(self, index: Ints) -> Ints:
        """Word ids (n, length) of the windows with the numbers `index` (n,)."""
        return self.stream[self.start[index][:, None] + np.arange(self.length)].astype(np.int64)

    def evenly(self, count: int) -> Ints:
        """At most `count` windows that are evenly spread over the text, (n, length)."""
        return self[np.unique(np.linspace(0, self.start.size - 1, count).astype(np.int64))]


@dataclass(frozen=True)
class SplitText:
    """A text for training and validation."""

    name: str
    words: tuple[str, ...]  # vocabulary
    training: Windows
    validation: Windows


def split_text(settings: TransformerSettings, progress: Progress | None) -> SplitText:
    """Read the text, reserve its end (or the files `validation`) for validation, and find its windows."""
    paths, kinds = listed_paths(settings.paths), (settings.tokens, settings.headings)
    name = settings.corpus or paths[0].resolve().name
    vocabulary = settings.min_token_count, settings.max_vocab
    if settings.validation is not None:
        validation = listed_paths(settings.validation)
        # The validation text is read alone for its length, and with the training text for a common vocabulary.
        with read_corpus(validation, *kinds, 1, None, progress) as corpus:
            held = _stream(corpus).size
        paths = [*paths, *validation]
    with read_corpus(paths, *kinds, *vocabulary, progress) as corpus:
        words, stream = corpus.words, _stream(corpus)
    if settings.validation is None:
        held = round(settings.validation_share * stream.size)
    if settings.shuffle:
        inside = stream >= 0
        stream[inside] = np.random.default_rng((settings.seed, SHUFFLE)).permutation(stream[inside])
    border, length = stream.size - held, settings.window + 1
    return SplitText(
        name,
        words,
        _windows(stream[:border], length, "training"),
        _windows(stream[border:], length, "validation"),
    )


def _stream(corpus: Corpus) -> Words:
    return np.concatenate([block.astype(np.int32) for block in corpus.blocks(overlap=0)])


def _windows(stream: Words, length: int, purpose: str) -> Windows:
    boundaries = np.concatenate([[0], np.cumsum(stream < 0)])
    start = np.flatnonzero(boundaries[length:] == boundaries[:-length]) if stream.size >= length else np.empty(0, int)
    if start.size == 0:
        raise InputError(
            f"expected a document of at least {length} words in the {purpose} text, received none among its "
            f"{int((stream >= 0).sum())} words; give more text or choose a smaller window"
        )
    return Windows(stream, start, length)
