"""Print the tests of what has changed, as `make check` gives them to pytest; nothing printed stands for all tests."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Quick, and about every file.
ALWAYS = ("tests/test_layout.py", "tests/test_names.py", "tests/test_docs.py")


def tests_of(changed: str) -> str:
    """The folder of tests that mirrors the folder of a changed file; the file's own test at the top of a room."""
    path = Path(changed)
    if path.parts[0] == "tests":
        return changed if path.name.startswith("test_") else str(path.parent)
    mirrored = Path("tests", *path.parts[path.parts[0] == "app" :])
    if mirrored.parent == Path("tests"):
        return f"tests/test_{path.stem}.py"
    return str(next(folder for folder in mirrored.parents if (ROOT / folder).is_dir()))


def selected(changed: Iterable[str]) -> list[str]:
    """Paths of the tests of changed files; those of the folder `tests` alone stand for all."""
    found = {test for each in changed if each.endswith(".py") for test in (tests_of(each),) if (ROOT / test).exists()}
    return [] if "tests" in found else sorted(found | set(ALWAYS))


def listed(command: str) -> list[str]:
    """Lines that a command of git prints; none outside of a repository."""
    done = subprocess.run(["git", *command.split()], capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout.splitlines()


def changed_files() -> list[str]:
    """Files that differ from the last commit, and new ones; where there are none, those of the last commit."""
    now = listed("diff --name-only HEAD") + listed("ls-files --others --exclude-standard")
    return now or listed("diff --name-only HEAD~1 HEAD")


if __name__ == "__main__":
    files = changed_files()
    print(*(selected(files) if files else []))
