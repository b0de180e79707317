"""README and docs: links, paths, names and commands are those of the code; test_page_blocks.py runs the code."""

import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest

from snapdyn.commands.main import main
from tests.helpers import ROOT
from tests.page_blocks import page_blocks

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "validation").glob("*/README.md")),
]
ROOMS = ("core", "analytic", "dynamics", "validation", "experiments", "figures", "app")
FOLDERS = (*ROOMS, "benchmarks", "docs", "examples", "packaging", "paper", "tests")
SUFFIXES = ("py", "toml", "md", "csv", "json", "cff", "cfg", "txt", "png", "yaml")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def quoted(page: Path) -> list[str]:
    """Back-ticked texts of a page, outside code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))


@cache
def files_and_folders() -> frozenset[str]:
    """Paths of all files and folders relative to the root."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder, *(ROOT / folder).rglob("*"))]
    return frozenset(str(path.relative_to(ROOT)) for path in (*paths, *ROOT.glob("*.*")))


def exists(name: str) -> bool:
    """Whether a path, or the end of one, is in the repository; "folder/module.name" needs the name in the module."""
    stem, _, last = name.rpartition(".")
    if "/" in stem and last not in SUFFIXES:
        return exists(f"{stem}.py") and last in (ROOT / f"{stem}.py").read_text()
    name = name.rstrip("/")
    return any(path == name or path.endswith(f"/{name}") for path in files_and_folders())


def is_path(text: str) -> bool:
    """Whether a back-ticked text is a path of the repository, and no placeholder such as `figures/figure_NAME.py`."""
    if not re.fullmatch(r"[\w./-]+", text) or re.search(r"[A-Z]{2,}|\bx\.py", text.replace("README", "")):
        return False
    first = text.split("/")[0]
    return ("/" in text and first in FOLDERS) or text.endswith("/") or text.rpartition(".")[2] in {"py", "toml", "md"}


@each_page
def test_links_exist(page: Path) -> None:
    """Assert that each relative link leads to a file, and to a heading of it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}, link


@each_page
def test_paths_exist(page: Path) -> None:
    """Assert that each back-ticked path of the repository exists."""
    assert [text for text in quoted(page) if is_path(text) and not exists(text)] == []


def test_a_missing_path_is_noticed() -> None:
    """Assert that a wrong path, a wrong name in a module and a wrong folder are paths that do not exist."""
    for text in ("validation/borders.py", "figures/style.no_such_name", "no_such_folder/", "no_such_module.py"):
        assert is_path(text), text
        assert not exists(text), text


def exists_in_snapdyn(names: str) -> bool:
    """Whether `snapdyn.a.b` exists, as a module or as a name of one."""
    try:
        resolve_name(f"snapdyn.{names}")
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


@each_page
def test_names_exist(page: Path) -> None:
    """Assert that each back-ticked `sd.name` or `snapdyn.module.name` exists."""
    matches = (re.match(r"(?:print\()?(?:sd|snapdyn)\.([\w.]*\w)", text) for text in quoted(page))
    assert [match[1] for match in matches if match and not exists_in_snapdyn(match[1])] == []
    assert not exists_in_snapdyn("dynamics.no_such_name")


@each_page
def test_commands_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that each snapdyn command of a page, its options and its files exist, also where it is not run."""
    for block in page_blocks(page):
        for words, _ in block.commands():
            if words[0] == "snapdyn" and not words[1].startswith("-"):
                assert main([words[1], "--help"]) == 0
                text = capsys.readouterr().out
                assert [word for word in words if word.startswith("--") and word not in text] == []
                assert [word for word in words if word.startswith("examples/") and not (ROOT / word).exists()] == []
