"""The theory that a file of tests is about."""

import runpy
from collections.abc import Iterator
from typing import Any

import pytest

from snapdyn.core.registry import registries
from tests.helpers import EXAMPLES


@pytest.fixture(scope="module")
def theory(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What the example of the test file's name defines; the registries are restored afterwards."""
    before = {id(registry): dict(registry) for registry in registries()}
    yield runpy.run_path(str(EXAMPLES / "theories" / request.path.name.removeprefix("test_")))
    for registry in registries():
        registry.restore(before.get(id(registry), registry.own))
