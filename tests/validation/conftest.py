"""Fixtures of the tests of validation: one quick run of the register."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from snapdyn.dynamics.files.storage import hashed_name, library_versions, replacing, source_hash
from snapdyn.validation import CLAIMS, Report, validate
from snapdyn.validation.store import ROOMS, decoded, encoded


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Report:
    """Quick run of the whole register, shared by all processes of a test run.

    It is kept in pytest's cache under the hash of the code and the libraries that it depends on: a test run with the
    same code does not compute the same numbers again.
    """
    cache = request.config.cache
    assert cache is not None
    folder = Path(cache.mkdir("register"))
    kept = folder / f"{hashed_name((source_hash(*ROOMS), sorted(library_versions().items())))}.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            computed = validate()
            for outdated in folder.glob("*.json"):
                outdated.unlink()
            with replacing(kept) as temporary:
                claims = [encoded(result) for result in computed.claims]
                temporary.write_text(json.dumps({"seconds": computed.seconds, "claims": claims}), encoding="utf-8")
    document = json.loads(kept.read_text(encoding="utf-8"))
    results = (decoded(text, entry) for text, entry in zip(document["claims"], CLAIMS.values(), strict=True))
    return Report("quick", tuple(results), document["seconds"])
