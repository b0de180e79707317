"""Sequence classes from text: query and next word with the words of the windows before them (Sec. 3.2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

from snapdyn.dynamics.classes import Floats, Ints, SequenceClasses
from snapdyn.dynamics.netcdf import reading_netcdf, write_netcdf
from snapdyn.dynamics.text.corpus import Corpus, read_corpus
from snapdyn.errors import InputError, flag, whole

# Counts wait until there are this many, or as many as are counted already, before they are merged.
WAITING_KEYS = 2**22
LONGEST_WINDOW = 10_000
FORMAT = "snapdyn text classes 1"
SAVED_NUMBERS = ("window", "num_words", "num_documents", "words_read")

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[float, float, str], None]


class TextClasses(SequenceClasses):
    """Sequence classes of a text, with its words; made by `from_text`, or read from a file by `TextClasses.load`.

    Attributes
    ----------
    words : tuple of str
        Word of each token id, by falling count.
    counts : (S,) ints
        Windows of each class; 1 where every class is a window.
    window : int
        Contextual tokens T-1 of a window.
    num_words, num_documents, words_read : int
        Words of the text, its documents, its different words before the vocabulary was cut.
    """

    def __init__(
        self,
        P: sparse.csr_array,
        query: Ints,
        next_token: Ints,
        counts: Ints,
        words: Sequence[str],
        window: int,
        num_words: int,
        num_documents: int,
        words_read: int,
    ) -> None:
        self.words = tuple(words)
        self.counts = counts
        self.window = window
        self.num_words, self.num_documents, self.words_read = num_words, num_documents, words_read
        super().__init__(P, query, next_token, counts, len(self.words))

    def name(self, n: int) -> str:
        """Class n in words: "query → next word"."""
        n = self.check_class(n)
        return f"{self.words[self.query[n]]} → {self.words[self.next_token[n]]}"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write P (as entries), queries, next tokens, counts and words to a netCDF file that `load` reads back."""
        import xarray

        dataset = xarray.Dataset(
            {
                "P_data": ("entry", self.P.data),
                "P_token": ("entry", self.P.indices),
                "P_class": ("entry", self.class_of_entry),
                "query": ("class", self.query),
                "next_token": ("class", self.next_token),
                "windows": ("class", self.counts),
                "word": ("token", np.array(self.words, dtype=object)),
            },
            attrs={"format": FORMAT, **{name: getattr(self, name) for name in SAVED_NUMBERS}},
        )
        return write_netcdf(dataset, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TextClasses:
        """Read the classes that `save`, or `snapdyn text`, wrote.

        Raises
        ------
        InputError
            The file is missing, cut short, or holds something else.
        """
        advice = "write it again with `snapdyn text PATH --out DIR`"
        with reading_netcdf(path, "text classes", FORMAT, advice) as (header, values):
            words = [str(word) for word in values["word"]]
            P = sparse.csr_array(
                (values["P_data"], (values["P_class"], values["P_token"])), shape=(values["query"].size, len(words))
            )
            numbers = {name: int(header[name]) for name in SAVED_NUMBERS}
            return cls(P, values["query"], values["next_token"], values["windows"], words, **numbers)


def from_text(
    paths: Paths,
    window: int = 8,
    min_count: int = 30,
    min_token_count: int = 5,
    max_vocab: int | None = None,
    max_classes: int | None = 1000,
    tokens: str = "auto",
    headings: str = "drop",
    progress: Progress | None = None,
    *,
    sequences: bool = False,
    max_sequences: int | None = 20_000,
    seed: int = 0,
) -> TextClasses:
    """Count the sequence classes of a text: x_1..x_{T-1} contextual, x_T the query, x_{T+1} the next word.

    A class is a pair (query word, next word) that is seen at least `min_count` times; P(l|n) is the relative
    frequency of word l in the `window` words before the query, the weight of a class is its count. Words are
    lower-cased. Windows run over lines but not over documents: a file, or an article of WikiText.

    With `sequences` every window of these pairs is a class of its own (a stored sequence is a class): P(l|n) is then
    the share of word l in that window, so that `sgd` with seq_len=None, infinitely long sequences, trains on the
    windows themselves, and the mean field is its limit of small steps.

    The defaults make of WikiText-2's validation and test text 1000 classes over 6939 words, whose mean field
    is integrated past the transition in half a minute (`integrate(..., method="RKC")`).

    Parameters
    ----------
    paths : path or list of paths
        Text files in UTF-8, plain or gzip (told by their first bytes), or folders: a folder stands for its
        WikiText files (wiki.train.tokens, ..., also .raw), else for its .txt, .tokens, .raw and .text files.
    window : int
        T-1, contextual tokens before the query.
    min_count : int
        Windows a class needs.
    min_token_count, max_vocab : int, int or None
        Rarer words, and those beyond `max_vocab`, become `<unk>`, a word like any other.
    max_classes : int or None
        At most so many classes, the most frequent; None: all.
    tokens : "auto", "spaces" or "words"
        What a word is: what stands between spaces (WikiText's convention), or letters and digits with inner
        apostrophes and hyphens, other signs by themselves. "auto": spaces where most commas stand alone. Text without
        spaces between words (Chinese, Thai) is to be segmented first.
    headings : "drop" or "keep"
        Lines such as ` = Title = `.
    progress : callable (done, total, label), optional
    sequences : bool
        A class per window, with weight 1, in the order of the text.
    max_sequences, seed : int or None, int
        At most so many windows, drawn without replacement, every one as likely; None: all, with memory for them.

    Returns
    -------
    TextClasses
        SequenceClasses with `.words`; token, query and next ids are positions in `words`; V = len(words).

    Raises
    ------
    InputError
        Missing or unreadable file, no text, text that is not UTF-8 (file and line), no class that is frequent
        enough, a window longer than the text, wrong values.
    """
    window = whole("window", window, 1, LONGEST_WINDOW)
    min_count, min_token_count = whole("min_count", min_count, 1), whole("min_token_count", min_token_count, 1)
    max_vocab = None if max_vocab is None else whole("max_vocab", max_vocab, 3)
    max_classes = None if max_classes is None else whole("max_classes", max_classes, 1)
    if progress is not None and not callable(progress):
        raise InputError(f"expected progress to be a function (done, total, label), received {progress!r}")
    sequences = flag("sequences", sequences)
    max_sequences = None if max_sequences is None else whole("max_sequences", max_sequences, 1)
    seed = whole("seed", seed, 0)
    with read_corpus(paths, tokens, headings, min_token_count, max_vocab, progress) as corpus:
        pairs, counts = _frequent_pairs(corpus, window, min_count, max_classes, progress)
        if sequences:
            P, pairs = _sequences(corpus, window, pairs, max_sequences, seed, progress)
            counts = np.ones(pairs.size, np.int64)
        else:
            P = _shares(corpus, window, pairs, counts, progress)
        V = len(corpus.words)
        sizes = corpus.num_words, corpus.num_documents, corpus.words_read
        return TextClasses(P, pairs // V, pairs % V, counts, corpus.words, window, *sizes)


def _frequent_pairs(
    corpus: Corpus, window: int, min_count: int, max_classes: int | None, progress: Progress | None
) -> tuple[Ints, Ints]:
    """Keys query V + next word of the classes, the most frequent first, ties by query and next word; their counts."""
    pairs, counts = _counted(_pairs(corpus, window, progress))
    if pairs.size == 0:
        raise InputError(
            f"expected a document of more than window + 1 = {window + 1} words, received {corpus.num_words} words in "
            f"{corpus.num_documents} documents, none as long; choose a smaller window or more text"
        )
    frequent = counts >= min_count
    if not frequent.any():
        raise InputError(
            f"expected a pair of query and next word seen at least min_count = {min_count} times, received at most "
            f"{counts.max()} (of {pairs.size} pairs); lower min_count or give more text"
        )
    order = np.argsort(-counts[frequent], kind="stable")[:max_classes]
    return pairs[frequent][order], counts[frequent][order]


def _shares(corpus: Corpus, window: int, pairs: Ints, counts: Ints, progress: Progress | None) -> sparse.csr_array:
    """P(l|n): shares of the words in all windows of each class."""
    V = len(corpus.words)
    keys = ((number[:, None] * V + words).ravel() for number, words in _words_of(corpus, window, pairs, progress))
    entries, times = _counted(keys)
    n = entries // V
    return sparse.csr_array((times / (window * counts[n]), (n, entries % V)), shape=(pairs.size, V))


def _sequences(
    corpus: Corpus, window: int, pairs: Ints, most: int | None, seed: int, progress: Progress | None
) -> tuple[sparse.csr_array, Ints]:
    """P(l|n) and key query V + next word of the windows of the classes, or of `most` of them."""
    rng = np.random.default_rng(seed)
    waiting: list[tuple[Ints, Ints, Floats]] = []

    def merged() -> tuple[Ints, Ints, Floats]:
        """All windows that wait, or the `most` of them with the smallest lots, in the order of the text."""
        number, words, lots = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        if most is None or lots.size <= most:
            return number, words, lots
        kept = np.sort(np.argpartition(lots, most - 1)[:most])
        return number[kept], words[kept], lots[kept]

    size = 0
    for number, words in _words_of(corpus, window, pairs, progress):
        # One lot per window, in the order of the text: how the text comes in blocks changes nothing.
        waiting.append((number, words, rng.random(number.size)))
        size += number.size
        if most is not None and size >= max(2 * most, WAITING_KEYS // window):
            waiting = [merged()]
            size = waiting[0][0].size
    number, words, _ = merged()
    P = sparse.csr_array(
        (np.full(words.size, 1.0 / window), words.ravel(), np.arange(0, words.size + 1, window)),
        shape=(number.size, len(corpus.words)),
    )
    return P, pairs[number]


def _counted(keys: Iterator[Ints]) -> tuple[Ints, Ints]:
    """Different keys, increasing, and how often each occurs, of a stream of arrays."""
    merged, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    waiting: list[tuple[Ints, Ints]] = []
    size = 0

    def merge() -> tuple[Ints, Ints]:
        every = np.concatenate([merged, *(part for part, _ in waiting)])
        unique, position = np.unique(every, return_inverse=True)
        number = np.concatenate([counts, *(part for _, part in waiting)])
        # Counts are sums of whole numbers far below 2**53, exact in floats.
        return unique, np.bincount(position, weights=number, minlength=unique.size).astype(np.int64)

    for block in keys:
        waiting.append(np.unique(block, return_counts=True))
        size += waiting[-1][0].size
        if size >= max(WAITING_KEYS, merged.size):
            merged, counts = merge()
            waiting, size = [], 0
    return merge()


def _windows(corpus: Corpus, window: int) -> Iterator[tuple[Ints, Ints]]:
    """(block of word ids, positions in it of next words that have a query and a whole window before them)."""
    for block in corpus.blocks(overlap=window + 1):
        boundaries = np.concatenate([[0], np.cumsum(block < 0)])
        position = np.arange(window + 1, block.size)
        yield block, position[boundaries[position + 1] == boundaries[position - window - 1]]


def _pairs(corpus: Corpus, window: int, progress: Progress | None) -> Iterator[Ints]:
    """Keys query V + next word of every window."""
    V, done = len(corpus.words), 0
    for block, position in _windows(corpus, window):
        yield block[position - 1] * V + block[position]
        done += block.size
        if progress:
            progress(min(done / corpus.num_words, 1.0), 1.0, "counting pairs")


def _words_of(corpus: Corpus, window: int, pairs: Ints, progress: Progress | None) -> Iterator[tuple[Ints, Ints]]:
    """(class, contextual words (k, window), the last one first) of every window of the classes `pairs`, by blocks."""
    V, done = len(corpus.words), 0
    order = np.argsort(pairs)
    for block, position in _windows(corpus, window):
        keys = block[position - 1] * V + block[position]
        place = np.minimum(np.searchsorted(pairs[order], keys), pairs.size - 1)
        mine = pairs[order[place]] == keys
        position, number = position[mine], order[place[mine]]
        yield number, block[position[:, None] - 2 - np.arange(window)]
        done += block.size
        if progress:
            progress(min(done / corpus.num_words, 1.0), 1.0, "counting windows")
