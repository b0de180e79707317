"""Fixtures of the tests of transformers."""

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def torch() -> Iterator[ModuleType]:
    """Torch with one thread: on matrices this small, threads only wait for each other. Importing it takes seconds."""
    torch = pytest.importorskip("torch", reason="torch is not installed: transformers are not tested")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)
