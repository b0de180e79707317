"""Settings of all tests."""

from collections.abc import Iterator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share what is slow to make in one process: those of a file, and those of the drawn figures."""
    for item in items:
        group = "figures" if "figures" in item.path.parts else item.path.relative_to(item.config.rootpath).as_posix()
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True, scope="session")
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' finished claims out of the user's cache folder, and the user's terminal out of the output."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPDYN_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        patch.setenv("COLUMNS", "100")
        yield
