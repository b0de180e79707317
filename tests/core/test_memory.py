"""What fits into memory."""

import pytest

from snapdyn.core import memory
from snapdyn.core.errors import InputError


def test_what_is_free_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence with both numbers, and that small sizes are given without looking."""
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**30)
    memory.require_memory("P", 2.0**30, "fewer classes")
    with pytest.raises(InputError) as caught:
        memory.require_memory("P", 2.0**31, "fewer classes")
    assert str(caught.value) == (
        "expected P to fit into the free memory of 1 GiB, received a need of 2 GiB; use fewer classes"
    )
    monkeypatch.setattr(memory, "free_memory", lambda: 0.0)
    memory.require_memory("P", memory.ALWAYS_FREE, "fewer classes")


def test_free_memory_obeys_the_limit_of_the_shell() -> None:
    """Assert that the free memory is positive, and below the limit of addresses where one is set."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    assert memory.free_memory() > 0
    resource.setrlimit(resource.RLIMIT_AS, (2**40, before[1]))
    try:
        assert memory.free_memory() < 2**40
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
