"""Results kept as small JSON files: named by the hash of what determines them, with a digest that reveals damage."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from snapdyn.dynamics.storage import replacing

# What `read_record` raises on a file that exists but cannot be used.
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


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
    RecursionError
        The content is nested too deep; with its digest, so that it is no damage by chance.
    """
    # The digest is checked before the text is parsed.
    body = text[len(record_text(member, "")) - 1 : -1]
    if text != record_text(member, body):
        raise ValueError("its content does not match its digest")
    return json.loads(body)


def read_record(path: Path, member: str) -> Any:
    """Value of `member` in a file of `write_record`.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    one of DAMAGED
        The file cannot be used; also what is no regular file, such as a folder or a named pipe.
    """
    # Without O_NONBLOCK, to open a named pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        with open(descriptor, encoding="utf-8", closefd=False) as file:
            return record_body(member, file.read())
    finally:
        os.close(descriptor)


def write_record(path: Path, member: str, body: str) -> None:
    """Write `record_text` to a file, which appears whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(record_text(member, body), encoding="utf-8")


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _before(member: str) -> str:
    return f', "{member}": '
