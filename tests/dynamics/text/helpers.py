"""Text in words."""

from pathlib import Path
from typing import Any

from snapdyn.dynamics import TextClasses, from_text

SMALL: dict[str, Any] = {"window": 4, "min_count": 2, "min_token_count": 2}


def documents_of(path: Path) -> list[list[str]]:
    """Articles of a WikiText-like file, headings dropped."""
    documents: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip().startswith("= ") and line.strip().endswith(" ="):
            if not line.strip().startswith("= ="):
                documents.append([])
            continue
        documents[-1] += line.lower().split()
    return documents


def from_text_of_words(text: str, **options: Any) -> TextClasses:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_text(text, encoding="utf-8")
        return from_text(path, **({"min_token_count": 1} | options))
