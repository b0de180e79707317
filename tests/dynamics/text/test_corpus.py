"""Reading text: words, vocabulary, headings, encodings, files that cannot be read."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import from_text
from snapdyn.dynamics.text import corpus as corpus_module
from tests.dynamics.helpers import sentence
from tests.dynamics.text.helpers import SMALL, documents_of, from_text_of_words
from tests.helpers import FABLE


def test_vocabulary_is_cut_by_count_and_by_size() -> None:
    """Assert <unk> in the place of its count, and at most max_vocab words."""
    often = Counter(word for document in documents_of(FABLE) for word in document)
    classes = from_text(FABLE, window=2, min_count=2, min_token_count=4)
    kept = {word: number for word, number in often.items() if number >= 4}
    kept["<unk>"] = sum(often.values()) - sum(kept.values())
    assert set(classes.words) == set(kept)
    assert [kept[word] for word in classes.words] == sorted(kept.values(), reverse=True)
    assert (classes.num_words, classes.words_read) == (sum(often.values()), len(often))
    short = from_text(FABLE, window=2, min_count=1, min_token_count=1, max_vocab=5)
    assert len(short.words) == 5
    assert "<unk>" in short.words
    assert "<unk>" not in from_text_of_words("a b a b a b a b", min_count=1, window=1).words


def test_headings_are_dropped_or_kept() -> None:
    """Assert that headings count as words only on request, and that articles are documents either way."""
    dropped, kept = from_text(FABLE, **SMALL), from_text(FABLE, **SMALL, headings="keep")
    assert dropped.num_documents == kept.num_documents == 2
    headings = [line.split() for line in FABLE.read_text().split("\n") if line.strip().startswith("= ")]
    assert kept.num_words - dropped.num_words == sum(map(len, headings))
    assert "=" in kept.words
    assert "=" not in dropped.words


def test_words_of_untokenised_text() -> None:
    """Assert that punctuation stands apart in prose, inner apostrophes and hyphens stay, and it is lower-cased."""
    prose = 'The Fox\'s well-known mill, the fox said; "the MILL!" The fox, the mill, the fox.'
    classes = from_text_of_words(prose, window=1, min_count=1)
    assert set(classes.words) == {"the", "fox's", "well-known", "mill", ",", "fox", "said", ";", '"', "!", "."}
    spaces = from_text_of_words(prose, window=1, min_count=1, tokens="spaces")
    assert "mill," in spaces.words
    hindi, accents = "हिन्दी में लिखा है", "cafe\u0301 \u0130stanbul"  # vowel signs; an accent, and one that lower() makes
    for text in (hindi, accents):
        assert set(from_text_of_words(text + "\n" + text, window=1, min_count=1).words) == set(text.lower().split())
    wiki = "a <unk> b @-@ c , 5 @.@ 2 's d"
    for tokens in ("auto", "spaces"):
        assert set(from_text_of_words(wiki, window=1, min_count=1, tokens=tokens).words) == set(wiki.split())


@pytest.mark.parametrize("size", [41, 60, 2**20])
@pytest.mark.parametrize("separator", ["\t", "\u3000", ",", "\r", "，", "-,"])
def test_a_line_is_read_in_pieces_at_any_separator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str, size: int
) -> None:
    """Assert that a long line without spaces gives the words of the same line read at once: Chinese, marks, hyphens."""
    words = ["春眠不覺曉", "處處聞啼鳥", "well-known", "fox's", "<unk>", "@-@", "é", "夜來風雨聲。花落知多少", "b"]
    line = separator.join(words[i * i % 7 + i % 3] for i in range(60 if size < 2**20 else 100_000))
    path = tmp_path / "a.txt"
    path.write_text(line, encoding="utf-8")
    options: dict[str, Any] = {"window": 2, "min_count": 1, "min_token_count": 1}
    monkeypatch.setattr(corpus_module, "LONGEST_PIECE", 2**30)
    whole = from_text(path, **options)
    monkeypatch.setattr(corpus_module, "LONGEST_PIECE", size)
    pieces = from_text(path, **options)
    assert pieces == whole
    assert (pieces.words, pieces.num_words) == (whole.words, whole.num_words)
    assert len(whole.words) > 5


def test_gzip_is_told_by_its_bytes(tmp_path: Path) -> None:
    """Assert the same classes from a packed file of any name, and a packed folder of WikiText names."""
    packed = tmp_path / "no_ending"
    packed.write_bytes(gzip.compress(FABLE.read_bytes()))
    plain = from_text(FABLE, **SMALL)
    assert from_text(packed, **SMALL) == plain
    folder = tmp_path / "wikitext"
    folder.mkdir()
    (folder / "wiki.train.tokens").write_bytes(FABLE.read_bytes())
    (folder / "readme.txt").write_text("not a part of it", encoding="utf-8")
    assert from_text(folder, **SMALL) == plain
    (folder / "wiki.train.tokens").rename(folder / "valid.txt")
    assert from_text(folder, **SMALL) == plain


def test_bad_files_are_refused(tmp_path: Path) -> None:
    """Assert one sentence for a missing file, an empty one, a folder without text, no paths, and a broken archive."""
    empty, folder, broken = tmp_path / "empty.txt", tmp_path / "folder", tmp_path / "broken.gz"
    empty.write_text(" \n\n", encoding="utf-8")
    folder.mkdir()
    broken.write_bytes(gzip.compress(FABLE.read_bytes())[:200])
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(b"\x1f\x8b" + bytes(100))
    for paths, says in (
        (tmp_path / "none.txt", "missing"),
        (empty, "received none"),
        (folder, "text files in the folder"),
        (broken, "readable"),
        (damaged, "readable"),
    ):
        with pytest.raises(InputError, match=says) as error:
            from_text(paths)  # type: ignore[arg-type]
        sentence(error)


def test_gzip_that_expands_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a text beyond the stated limit is refused, and one at the limit, or beyond one of its parts, read."""
    path = tmp_path / "long.gz"
    path.write_bytes(gzip.compress(b"one two three two one three\n" * 20_000))
    assert path.stat().st_size < 5_000
    plain = from_text(path, **SMALL)
    monkeypatch.setattr(corpus_module, "ALWAYS_EXPANDED", 28 * 20_000)
    assert from_text(path, **SMALL) == plain
    monkeypatch.setattr(corpus_module, "ALWAYS_EXPANDED", 28 * 20_000 - 1)
    with pytest.raises(InputError) as error:
        from_text(path, **SMALL)
    assert "unpack it first" in sentence(error)
    monkeypatch.setattr(corpus_module, "MOST_TIMES_SIZE", 28 * 20_000)
    assert from_text(path, **SMALL) == plain


def test_text_that_is_not_utf8_names_file_and_line(tmp_path: Path) -> None:
    """Assert file, line and byte in the message; a byte order mark is no word."""
    path = tmp_path / "latin.txt"
    path.write_bytes("one two\nthree caf\xe9\n".encode("latin-1"))
    with pytest.raises(InputError) as error:
        from_text(path)
    text = sentence(error)
    assert "latin.txt" in text
    assert "line 2, byte 10" in text
    path.write_bytes("\ufeffa b a b a b".encode())
    assert set(from_text(path, window=1, min_count=1, min_token_count=1).words) == {"a", "b"}
