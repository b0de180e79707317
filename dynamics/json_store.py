"""Results kept as small JSON files: named by the hash of what determines them, with a digest that reveals damage."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from snapdyn.dynamics.storage import replacing

# What `read_record` raises on a file that exists but cannot be used.
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)


def hashed_name(facts: Any) -> str:
    """Name for the result that `facts` determine: 32 hexadecimal digits of the SHA-256 of their JSON text."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def record_text(member: str, body: str) -> str:
    """JSON text {"digest": ..., `member`: `body`}, for `body` that is JSON text itself."""
    return json.dumps({"digest": _digest(body)})[:-1] + _before(member) + body + "}"


def record_body(member: str, text: str) -> Any:
    """Value of `member` in a text of `record_text`.

    Raises
    ------
    ValueError
        The text is not whole, or its content does not match its digest.
    KeyError or TypeError
        The text is JSON of another kind.
    """
    document = json.loads(text)
    before = _before(member)
    if _digest(text[text.index(before) + len(before) : -1]) != document["digest"]:
        raise ValueError("its content does not match its digest")
    return document[member]


def write_record(path: Path, member: str, body: str) -> None:
    """Write `record_text` to a file, which appears whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(record_text(member, body), encoding="utf-8")


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _before(member: str) -> str:
    return f', "{member}": '
