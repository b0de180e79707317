"""Fixtures of the tests of validation: results of claims."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from snapdyn.dynamics.files.storage import hashed_name, library_versions, source_hash
from snapdyn.validation import CLAIMS, ClaimResult
from snapdyn.validation.register import Claim
from snapdyn.validation.store import ROOMS, decoded, encoded
from snapdyn.validation.verdicts import check_claim
from tests.helpers import made_once


def result_of_few(entry: Claim) -> ClaimResult:
    """Quick result with a tenth of the draws; a quarter, then all, where the verdict is not the recorded one."""
    for share in (10, 4, 1):
        few = tuple(
            replace(prop, evaluations=(max(prop.evaluations[0] // share, 1), prop.evaluations[1]))
            for prop in entry.properties
        )
        result = check_claim(replace(entry, properties=few), "quick")
        if result.as_expected:
            break
    return result


@pytest.fixture(scope="session")
def checked(request: pytest.FixtureRequest) -> Callable[[str], ClaimResult]:
    """From the id of a claim to its result with few draws, computed once for all processes of a test run.

    Results are kept in pytest's cache under the hash of the code and the libraries that they depend on: a test run with
    the same code does not compute them again. A process waits for another one only while that computes the same claim.
    """
    cache_of_pytest = request.config.cache
    folder = Path(cache_of_pytest.mkdir("register")) / hashed_name(
        (source_hash(*ROOMS), sorted(library_versions().items()))
    )
    folder.mkdir(exist_ok=True)
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)

    @cache
    def result_of(id_: str) -> ClaimResult:
        kept = made_once(
            folder / f"{id_}.json",
            lambda file: file.write_text(encoded(result_of_few(CLAIMS[id_])), encoding="utf-8"),
        )
        return decoded(json.loads(kept.read_text(encoding="utf-8")), CLAIMS[id_])

    return result_of
