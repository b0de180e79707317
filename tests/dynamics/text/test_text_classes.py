"""Classes of real text: counts and windows against brute force."""

import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import MeanField, TextClasses, from_text, integrate
from snapdyn.dynamics.text import corpus as corpus_module, text_classes as text_module
from tests.dynamics.helpers import sentence
from tests.dynamics.text.helpers import SMALL, documents_of
from tests.helpers import FABLE


def counted_by_hand(
    documents: list[list[str]], window: int, min_count: int, min_token_count: int, left_out: int = 1
) -> dict[tuple[str, str], dict[str, float]]:
    """P(l|query, next) by loops over lists of words; the windows end `left_out` words (the query) before the next."""
    often = Counter(word for document in documents for word in document)
    documents = [[w if often[w] >= min_token_count else "<unk>" for w in document] for document in documents]
    windows: dict[tuple[str, str], Counter[str]] = {}
    times: Counter[tuple[str, str]] = Counter()
    for document in documents:
        for i in range(window + 1, len(document)):
            pair = document[i - 1], document[i]
            times[pair] += 1
            windows.setdefault(pair, Counter()).update(document[i - left_out - window : i - left_out])
    return {
        pair: {word: number / (window * times[pair]) for word, number in windows[pair].items()}
        for pair in windows
        if times[pair] >= min_count
    }


def in_words(classes: TextClasses) -> dict[tuple[str, str], dict[str, float]]:
    """P(l|query, next) of classes, in words."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for n in range(classes.num_classes):
        part = slice(classes.P.indptr[n], classes.P.indptr[n + 1])
        profile = {classes.words[l]: float(p) for l, p in zip(classes.support(n), classes.P.data[part], strict=True)}
        found[classes.words[classes.query[n]], classes.words[classes.next_token[n]]] = profile
    return found


def assert_same(found: dict[Any, dict[str, float]], wanted: dict[Any, dict[str, float]]) -> None:
    assert found.keys() == wanted.keys()
    for pair, profile in wanted.items():
        assert found[pair] == pytest.approx(profile, rel=1e-14)


@pytest.mark.parametrize(("window", "min_token_count"), [(1, 1), (4, 3), (9, 2)])
def test_counts_against_brute_force(window: int, min_token_count: int) -> None:
    """Assert classes, probabilities and weights against loops in plain Python; a shifted window is told apart."""
    documents = documents_of(FABLE)
    wanted = counted_by_hand(documents, window, 2, min_token_count)
    classes = from_text(FABLE, window=window, min_count=2, min_token_count=min_token_count)
    assert_same(in_words(classes), wanted)
    np.testing.assert_allclose(classes.prior, classes.counts / classes.counts.sum(), rtol=1e-15)
    assert (np.diff(classes.counts) <= 0).all()
    # Control: the query counted as contextual is another table.
    assert in_words(classes) != counted_by_hand(documents, window, 2, min_token_count, left_out=0)
    some = from_text(FABLE, window=window, min_count=2, min_token_count=min_token_count, max_classes=3)
    assert in_words(some) == dict([*in_words(classes).items()][:3])


def windows_by_hand(documents: list[list[str]], window: int, pairs: set[tuple[str, str]]) -> list[Any]:
    """(query, next, counts of the words before) of every window of these pairs, in the order of the text."""
    return [
        (document[i - 1], document[i], Counter(document[i - 1 - window : i - 1]))
        for document in documents
        for i in range(window + 1, len(document))
        if (document[i - 1], document[i]) in pairs
    ]


def listed(windows: TextClasses) -> list[Any]:
    """The same of classes that are windows."""
    return [
        (windows.words[windows.query[n]], windows.words[windows.next_token[n]],
         Counter({windows.words[l]: round(p * windows.window) for l, p in
                  zip(windows.support(n), windows.P[[n]].data, strict=True)}))
        for n in range(windows.num_classes)
    ]  # fmt: skip


def test_every_window_is_a_class() -> None:
    """Assert the windows themselves, in the order of the text, with weight 1; their mean is P(l|n)."""
    often = Counter(word for document in documents_of(FABLE) for word in document)
    documents = [[w if often[w] >= 2 else "<unk>" for w in document] for document in documents_of(FABLE)]
    classes = from_text(FABLE, **SMALL)
    pairs = {(classes.words[q], classes.words[x]) for q, x in zip(classes.query, classes.next_token, strict=True)}
    windows = from_text(FABLE, **SMALL, sequences=True)
    assert listed(windows) == windows_by_hand(documents, 4, pairs)
    assert listed(windows) != windows_by_hand(documents, 5, pairs)
    assert windows.num_classes == classes.counts.sum()
    assert set(windows.counts) == {1}
    np.testing.assert_allclose(windows.prior, 1 / windows.num_classes, rtol=1e-12)
    for n in range(classes.num_classes):
        mine = (windows.query == classes.query[n]) & (windows.next_token == classes.next_token[n])
        assert mine.sum() == classes.counts[n]
        np.testing.assert_allclose(windows.P[mine].toarray().mean(axis=0), classes.P[[n]].toarray()[0], atol=1e-15)


def test_windows_are_drawn_without_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert a part of all windows, the same for a seed however the text is read, each one as likely."""

    def drawn(few: int | None, seed: int = 1) -> list[str]:
        windows = from_text(FABLE, **SMALL, sequences=True, max_sequences=few, seed=seed)
        return [repr(window) for window in listed(windows)]

    few, every = 12, drawn(None)
    draws = [drawn(few, seed) for seed in range(60)]
    monkeypatch.setattr(corpus_module, "WORDS_AT_ONCE", 7)
    monkeypatch.setattr(text_module, "WAITING_KEYS", 8)
    assert drawn(few) == draws[1] != draws[2]
    assert drawn(len(every) + 1) == every
    assert all(len(draw) == few and not Counter(draw) - Counter(every) for draw in draws)
    # Half of the text has half of the drawn windows: a binomial count, five standard deviations.
    often, half = Counter(every), Counter(every[: len(every) // 2])
    first = sum(half[window] / often[window] for draw in draws for window in draw)
    expected = 60 * few * (len(every) // 2) / len(every)
    assert abs(first - expected) < 5 * np.sqrt(expected / 2)


def test_windows_do_not_cross_documents(tmp_path: Path) -> None:
    """Assert that two files are two documents, in the order given, and a folder is its files by name."""
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text("x y z x y z", encoding="utf-8")
    b.write_text("z y x z y x", encoding="utf-8")
    options: dict[str, Any] = {"window": 1, "min_count": 1, "min_token_count": 1}
    documents = [a.read_text().split(), b.read_text().split()]
    assert_same(in_words(from_text([a, b], **options)), counted_by_hand(documents, 1, 1, 1))
    assert from_text(tmp_path, **options) == from_text([a, b], **options)
    assert in_words(from_text([a, b], **options)) != counted_by_hand([documents[0] + documents[1]], 1, 1, 1)


def test_memory_does_not_grow_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that four times the text, in one line, takes the same memory within a tenth."""
    monkeypatch.setattr(corpus_module, "WORDS_AT_ONCE", 2**11)
    monkeypatch.setattr(corpus_module, "LONGEST_PIECE", 2**13)
    monkeypatch.setattr(text_module, "WAITING_KEYS", 2**10)
    peaks = []
    line = " ".join(f"w{i}" for i in range(50)) + " "
    for times in (300, 1200):
        path = tmp_path / f"{times}.txt"
        path.write_text(line * times, encoding="utf-8")
        tracemalloc.start()
        from_text(path, min_count=30)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"window": 200}, r"window \+ 1"),
        ({"min_count": 1000}, "lower min_count"),
        ({"min_token_count": 1000}, "min_token_count"),
        ({"max_vocab": 2}, "max_vocab"),
        ({"tokens": "word"}, "did you mean 'words'"),
        ({"sequences": True, "max_sequences": 0}, "max_sequences"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options: dict[str, Any], says: str) -> None:
    """Assert one sentence that names the argument."""
    with pytest.raises(InputError, match=says) as error:
        from_text(FABLE, **(SMALL | options))
    sentence(error)


@pytest.mark.parametrize("sequences", [False, True])
def test_classes_are_read_back(tmp_path: Path, sequences: bool) -> None:
    """Assert every number and word of classes and of windows from their file; other files are told apart."""
    classes = from_text(FABLE, **SMALL, sequences=sequences)
    read = TextClasses.load(classes.save(tmp_path / "classes.nc"))
    assert read == classes != from_text(FABLE, **SMALL, sequences=not sequences)
    for name in ("words", "window", "num_words", "num_documents", "words_read"):
        assert getattr(read, name) == getattr(classes, name)
    np.testing.assert_array_equal(read.counts, classes.counts)
    assert (
        read.name(3) == classes.name(3) == " → ".join(classes.words[i[3]] for i in (classes.query, classes.next_token))
    )
    assert read.save(tmp_path / "again.nc").read_bytes() == (tmp_path / "classes.nc").read_bytes()
    run = integrate(MeanField(read, 1.0, 1.0), [1.0]).save(tmp_path / "run.nc")
    for path, says in ((FABLE, "text classes"), (run, "another kind")):
        with pytest.raises(InputError, match=says):
            TextClasses.load(path)
