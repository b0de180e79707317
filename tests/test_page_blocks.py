"""Code of pages that the build of the site does not run: README, CONTRIBUTING, pages of docs/ without cells."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

from snapdyn.dynamics import SYSTEMS
from snapdyn.figures import FIGURES
from snapdyn.validation import CLAIMS
from snapdyn.validation.phases import OBSERVABLES
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
WITH_CODE = [page for page in PAGES if page not in ELSEWHERE and page_blocks(page)]
LONG = {ROOT / "docs" / "how_to" / f"{name}.md" for name in ("figures", "own_theory", "sweeps", "traces")}


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
