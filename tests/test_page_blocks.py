"""Code of pages that the build of the site does not run: README, CONTRIBUTING, pages of docs/ without cells."""

import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

from snapdyn.dynamics import SYSTEMS
from snapdyn.figures import FIGURES
from snapdyn.validation import CLAIMS
from snapdyn.validation.observables import OBSERVABLES
from tests.helpers import EXAMPLES, FABLE, ROOT
from tests.page_blocks import Walk, page_blocks, walk

# The page of three goals, each from an empty folder: tests/test_first_hour.py runs them.
ELSEWHERE = {ROOT / "docs" / "first_hour.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "packaging" / "description.md",
    ROOT / "paper" / "paper.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "validation").glob("*/README.md")),
]
DIRECTIVES = {
    "claims",
    "code-cell",
    "commands",
    "findings",
    "include",
    "symbols",
    "toctree",
}  # the build of the site runs them
WITH_CODE = [page for page in PAGES if page not in ELSEWHERE and page_blocks(page)]
LONG = {ROOT / "docs" / "how_to" / f"{name}.md" for name in ("figures", "own_theory", "sweeps")}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@contextmanager
def _folder_of_a_reader(folder: Path) -> Iterator[None]:
    """The folder with the examples and a text, and afterwards everything as it was: registers, pictures, processes."""
    import matplotlib.pyplot as plt

    shutil.copytree(EXAMPLES, folder / "examples")
    (folder / "wikitext-2").mkdir()
    (folder / "wikitext-2" / "fable.txt").write_text(FABLE.read_text() * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        try:
            yield
        finally:
            plt.close("all")
            for register in (SYSTEMS, OBSERVABLES, CLAIMS, FIGURES):
                register.restore({})
            get_reusable_executor().shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.long] * (page in LONG), id=name(page)) for page in WITH_CODE]
)
def test_blocks_run_and_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    """Assert that every block without a mark runs, in the order of the page, and prints the text below it."""
    with _folder_of_a_reader(tmp_path):
        assert walk(page).differing == []


def test_few_blocks_and_commands_are_left_out() -> None:
    """Assert the number of marks, a reason in each, and that each mark leaves something out."""
    marks = [(page, block, start) for page in WITH_CODE for block in page_blocks(page) for start in block.left_out]
    assert len(marks) <= 12
    assert f" {len(marks)} blocks or commands are left" in (ROOT / "docs" / "testing.md").read_text()
    for page, block, start in marks:
        assert len(block.left_out[start].split()) >= 2, (page, start)
        lines = [line for line in block.code.splitlines() if line.startswith(start)]
        assert (len(lines) == 1) if start else lines, (page, start)
        if start:
            assert block.language == "sh", (page, start)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_of_a_kind_that_is_tested(page: Path) -> None:
    """Assert that no code is missed, that every language is known, and that files and TOML blocks are used."""
    text = page.read_text(encoding="utf-8")
    directives = re.findall(r"^```\{(.*?)\}", text, re.MULTILINE)
    blocks = page_blocks(page)
    assert set(directives) <= DIRECTIVES
    assert "~~~" not in text
    # Indented blocks show formulas, never code.
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"^ {4,}(?:.*(?:snapdyn|\bsd\.)|import |from |\$ ).*", outside, re.MULTILINE)
    assert 2 * (len(blocks) + len(directives)) == len(re.findall(r"^ *```", text, re.MULTILINE))
    assert text.count("<!-- not run") == sum(len(block.left_out) for block in blocks)
    assert {block.language for block in blocks} <= {"python", "sh", "toml", "text", "math"}
    words = [
        word for block in blocks for words, runs in block.commands() if runs or page in ELSEWHERE for word in words
    ]
    for block in blocks:
        if block.language == "text":
            assert re.search(r"\w", block.code), "expected a text block that shows what is printed"
        if block.file:
            assert block.file in words, f"expected a command that uses {block.file}"
        elif block.language == "toml":
            # Without the name of a file in its first line it holds entry points of a plugin.
            groups = {f"snapdyn.{kind.kind}s" for kind in (SYSTEMS, OBSERVABLES, CLAIMS, FIGURES)}
            assert set(tomllib.loads(block.code)["project"]["entry-points"]) <= groups


def test_walks_notice_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that wrong output, a raising block, a failing command and an unknown one are noticed; marks leave out."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"

    def walk_of(text: str) -> Walk:
        page.write_text(text)
        return walk(page)

    assert walk_of("```python\nx = 1\n```\n\n```python\nprint(x, 0.5)\n```\n```text\n1 0...\n```\n").differing == []
    assert walk_of("```python\nprint(1)\n```\n```text\n2\n```\n").differing == [("2\n", "1\n")]
    for wrong in ("```python\n1 / 0\n```\n", "```sh\nsnapdyn simulate none.toml\n```\n", "```sh\ncp a b\n```\n"):
        with pytest.raises((ZeroDivisionError, AssertionError)):
            walk_of(wrong)
        walk_of(f"<!-- not run: it is wrong -->\n{wrong}")
    walk_of("<!-- not run: `cp`: it is wrong -->\n```sh\nmake test\ncp a b\npip install 'snapdyn[text]'\n```\n")
    shell = (
        "snapdyn --version && false",
        "snapdyn --version;false",
        "snapdyn --version | cat",
        "snapdyn --version > a",
    )
    for wrong in ("make tset", "pip install 'snapdyn[txet]'", *shell):
        with pytest.raises(AssertionError):
            walk_of(f"```sh\n{wrong}\n```\n")
    with pytest.raises(SyntaxError):
        walk_of("```python\n# own.py\ndef f(:\n```\n")
