"""Settings of all tests."""

from collections.abc import Iterator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share what is slow to make in one process: those of a file, and those of the drawn figures."""
    for item in items:
        group = "figures" if "figures" in item.path.parts else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep finished claims of the tests' runs out of the user's cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPDYN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
