"""Print the tests of what has changed, as `make check` gives them to pytest; nothing printed stands for all tests."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Quick, and about every file.
ALWAYS = ("tests/test_layout.py", "tests/test_names.py", "tests/test_docs.py")


def mirroring(changed: str) -> str:
    """The folder of tests that mirrors the folder of a changed file; of a file of `app/` itself, its own test.

    The folder "tests" stands for all tests.
    """
    path = Path(changed)
    if path.suffix == ".md":
        return ALWAYS[2]
    if path.parts[0] == "tests" and path.name.startswith("test_") and (ROOT / path).exists():
        return changed
    mirrored = Path("tests", *path.parts[path.parts[0] in ("app", "tests") :])
    own = mirrored.with_name(f"test_{path.stem}.py")
    if mirrored.parent == Path("tests") and (ROOT / own).exists():
        return str(own)
    return str(next(folder for folder in mirrored.parents if (ROOT / folder).is_dir()))


def listed(command: str) -> list[str]:
    """Lines that a command of git prints; none outside of a repository."""
    try:
        done = subprocess.run(["git", *command.split()], capture_output=True, text=True, cwd=ROOT)
    except OSError:  # there is no git
        return []
    return done.stdout.splitlines()


def changed_files() -> list[str]:
    """Files that differ from the last commit, and new ones; where there are none, those of the last commit."""
    now = listed("diff --name-only --no-renames HEAD") + listed("ls-files --others --exclude-standard")
    return now or listed("diff --name-only --no-renames HEAD~1 HEAD")


if __name__ == "__main__":
    found = set(map(mirroring, changed_files()))
    if found and "tests" not in found:
        print(*sorted(found | set(ALWAYS)))
