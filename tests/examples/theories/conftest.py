"""The theory that a file of tests is about."""

import runpy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import EXAMPLES, restored_registries


@pytest.fixture(scope="module")
def theory(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What the example of the test file's name defines; the registries are restored afterwards."""
    with restored_registries():
        yield runpy.run_path(str(EXAMPLES / "theories" / request.path.name.removeprefix("test_")))
