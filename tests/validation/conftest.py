"""Fixtures of the tests of validation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from snapdyn.validation import CLAIMS


@pytest.fixture
def restored() -> Iterator[None]:
    """Leave the register as it was."""
    before = dict(CLAIMS)
    yield
    CLAIMS.clear()
    CLAIMS.update(before)
