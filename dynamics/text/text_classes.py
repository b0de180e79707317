"""Sequence classes from text: pairs of query and next word, with the words of the windows before them (Sec. 3.2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

from snapdyn.core.errors import InputError, flag, list_of, optional_function, whole
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.files.netcdf import reading_netcdf, write_netcdf
from snapdyn.dynamics.text.corpus import Corpus, read_corpus

# New counts are merged when there are this many of them, or as many as were merged before: few merges of large arrays.
WAITING_KEYS = 2**22
LONGEST_WINDOW = 10_000
FORMAT = "snapdyn text classes 1"
SAVED_NUMBERS = ("window", "num_words", "num_documents", "words_read")

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[float, float, str], None]


class TextClasses(SequenceClasses):
    """Sequence classes of a text, with its words; built by `from_text`, or read from a file by `TextClasses.load`.

    Parameters
    ----------
    P : (S, V) scipy.sparse.csr_array
        P[n, l] = P(l|n).
    query : (S,) array of int
        Query word of each class.
    next_token : (S,) array of int
        Next word of each class.
    counts : (S,) array of int
        Number of windows of each class; 1 when every class is a single window.
    words : sequence of str
        Word of each token id, by decreasing count.
    window : int
        Contextual tokens T-1 of a window.
    num_words : int
        Length of the text in words.
    num_documents : int
        Number of documents in the text.
    words_read : int
        Number of different words before the vocabulary was cut.

    Attributes
    ----------
    counts : (S,) array of int
    words : tuple of str
    window : int
    num_words : int
    num_documents : int
    words_read : int

    See Also
    --------
    SequenceClasses : The attributes that all sequence classes have.
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
        self.words = tuple(list_of("words", words, str))
        self.counts = counts
        self.window = window
        self.num_words, self.num_documents, self.words_read = num_words, num_documents, words_read
        super().__init__(P, query, next_token, counts, len(self.words))

    def name(self, n: int) -> str:
        """Name of a class in words.

        Parameters
        ----------
        n : int
            Class, 0..S-1.

        Returns
        -------
        str
            "query → next word".

        Raises
        ------
        InputError
            `n` is not a class.
        """
        n = self.check_class(n)
        return f"{self.words[self.query[n]]} → {self.words[self.next_token[n]]}"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the classes to a netCDF file that `load` reads.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        Path
            The file: P by entries, queries, next tokens, counts and words.

        Raises
        ------
        InputError
            The file cannot be written.
        """
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
            attrs={name: getattr(self, name) for name in SAVED_NUMBERS},
        )
        return write_netcdf(dataset, path, FORMAT)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TextClasses:
        """Read classes that `save` or the command `snapdyn text` wrote.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        TextClasses

        Raises
        ------
        InputError
            The file is missing, damaged, without a digest, or of another kind.
        """
        advice = "write it again with `snapdyn text PATH --out DIR`"
        with reading_netcdf(path, "text classes", FORMAT, advice) as content:
            values = content.arrays
            words = [str(word) for word in values["word"]]
            P = sparse.csr_array(
                (values["P_data"], (values["P_class"], values["P_token"])), shape=(values["query"].size, len(words))
            )
            numbers = {name: int(content.attributes[name]) for name in SAVED_NUMBERS}
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
    """Sequence classes of a text: x_1..x_{T-1} are contextual, x_T is the query, x_{T+1} the next word.

    A class is a pair (query word, next word) that occurs at least `min_count` times. P(l|n) is the relative frequency
    of word l in the `window` words before the query, and the weight of a class is its count. Words are lower-cased.
    Windows cross line ends but not document ends; a document is a file, or an article of WikiText.

    With `sequences` every window of these pairs is a class: P(l|n) is then the relative frequency of word l in that
    window. `sgd` with seq_len=None then trains on these windows, and the mean field is the limit of this training for
    small steps.

    With the defaults, the validation and test text of WikiText-2 gives 1000 classes over 6939 words; the integration of
    their mean field past the transition takes half a minute (`integrate(..., method="RKC")`).

    Parameters
    ----------
    paths : path or list of paths
        Text files in UTF-8, plain or gzip (recognised by their first bytes), or folders. A folder stands for its
        WikiText files (wiki.train.tokens, ..., also .raw), or if it has none, for its .txt, .tokens, .raw and .text
        files.
    window : int
        T-1, contextual tokens before the query.
    min_count : int
        Smallest number of windows of a class.
    min_token_count : int
        Words with fewer occurrences become `<unk>`, which is a word like any other.
    max_vocab : int or None
        Largest size of the vocabulary; the other words become `<unk>`. None: no limit.
    max_classes : int or None
        Largest number of classes; the most frequent ones are kept. None: all.
    tokens : {"auto", "spaces", "words"}
        How a line is split into words. "spaces": at spaces (the convention of WikiText). "words": letters and digits
        with inner apostrophes and hyphens form a word, and every other sign is a word. "auto": "spaces" when most
        commas stand alone, otherwise "words". Text without spaces between words (Chinese, Thai) must be segmented
        before.
    headings : {"drop", "keep"}
        What to do with lines such as `= Title =`.
    progress : callable (done, total, label), optional
        Called while the text is read and counted.
    sequences : bool
        One class per window, with weight 1, in the order of the text.
    max_sequences : int or None
        Largest number of windows; if there are more, they are drawn without replacement and with equal probability.
        None: all windows are kept in memory.
    seed : int
        Seed of the draw of windows.

    Returns
    -------
    TextClasses
        SequenceClasses with `.words`; ids of tokens, queries and next tokens are positions in `words`; V = len(words).

    Raises
    ------
    InputError
        A file is missing, unreadable, without words, or not UTF-8 (the message names file and line); a gzip file
        expands to more than 1 GiB and to more than 100 times its size; no class is frequent enough; no document is
        longer than a window and the next word; an argument is out of range.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import snapdyn as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "text.txt"
    ...     _ = path.write_text("the cat saw the dog and the dog saw the cat and the cat ran", encoding="utf-8")
    ...     classes = sd.from_text(path, window=2, min_count=2, min_token_count=1)
    >>> [classes.name(n) for n in range(classes.num_classes)]
    ['the → cat', 'the → dog', 'saw → the', 'and → the']
    >>> classes.counts
    array([2, 2, 2, 2])
    """
    window = whole("window", window, 1, LONGEST_WINDOW)
    min_count, min_token_count = whole("min_count", min_count, 1), whole("min_token_count", min_token_count, 1)
    max_vocab = None if max_vocab is None else whole("max_vocab", max_vocab, 3)
    max_classes = None if max_classes is None else whole("max_classes", max_classes, 1)
    optional_function("progress", progress, "(done, total, label)")
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
    """Keys of the classes (query V + next word) and their counts, by decreasing count, then by key."""
    pairs, counts = _counted(keys for _, _, keys in _windows(corpus, window, "counting pairs", progress))
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
    """P(l|n): the relative frequency of each word in all windows of a class."""
    V = len(corpus.words)
    keys = ((number[:, None] * V + words).ravel() for number, words in _words_of(corpus, window, pairs, progress))
    entries, times = _counted(keys)
    n = entries // V
    return sparse.csr_array((times / (window * counts[n]), (n, entries % V)), shape=(pairs.size, V))


def _sequences(
    corpus: Corpus, window: int, pairs: Ints, most: int | None, seed: int, progress: Progress | None
) -> tuple[sparse.csr_array, Ints]:
    """P(l|n) and key (query V + next word) of the windows of all classes, at most `most` windows."""
    rng = np.random.default_rng(seed)
    waiting: list[tuple[Ints, Ints, Floats]] = []

    def merged() -> tuple[Ints, Ints, Floats]:
        """The windows in `waiting` (if over `most`, those with the smallest random numbers), in the text's order."""
        number, words, draws = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        if most is None or draws.size <= most:
            return number, words, draws
        kept = np.sort(np.argpartition(draws, most - 1)[:most])
        return number[kept], words[kept], draws[kept]

    size = 0
    for number, words in _words_of(corpus, window, pairs, progress):
        # One random number per window, in the order of the text, so that the result does not depend on the blocks.
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
    """Different keys in a stream of arrays, increasing, and the number of occurrences of each."""
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


def _windows(corpus: Corpus, window: int, label: str, progress: Progress | None) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield blocks of word ids, positions of next words that follow a query and a whole window, and their pairs.

    The key of a pair is query V + next word.
    """
    V, done = len(corpus.words), 0
    for block in corpus.blocks(overlap=window + 1):
        boundaries = np.concatenate([[0], np.cumsum(block < 0)])
        position = np.arange(window + 1, block.size)
        position = position[boundaries[position + 1] == boundaries[position - window - 1]]
        yield block, position, block[position - 1] * V + block[position]
        done += block.size
        if progress:
            progress(min(done / corpus.num_words, 1.0), 1.0, label)


def _words_of(corpus: Corpus, window: int, pairs: Ints, progress: Progress | None) -> Iterator[tuple[Ints, Ints]]:
    """Yield class and contextual words (k, window), last word first, of the windows of `pairs`, by blocks."""
    order = np.argsort(pairs)
    for block, position, keys in _windows(corpus, window, "counting windows", progress):
        place = np.minimum(np.searchsorted(pairs[order], keys), pairs.size - 1)
        mine = pairs[order[place]] == keys
        yield order[place[mine]], block[position[mine][:, None] - 2 - np.arange(window)]
