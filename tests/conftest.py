"""Settings of all tests."""

from collections.abc import Iterator
from typing import Any

import pytest


class _ByFile:
    """Hook of pytest-xdist, asked for where pytest-xdist runs."""

    @staticmethod
    def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
        """Run the tests of a file in one process, for they share what is slow to make, and so do the drawn figures.

        `--dist loadgroup` does not: with pytest 9.2 the groups of pytest-xdist 3.8 have no effect.
        """
        from xdist.scheduler import LoadScopeScheduling

        class Scheduler(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                file = nodeid.partition("::")[0]
                return "figures" if file.startswith("tests/figures/") else file

        return Scheduler(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Ask for the scheduler where pytest-xdist is installed."""
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_ByFile())


@pytest.fixture(autouse=True, scope="session")
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' finished claims out of the user's cache folder, and the user's terminal out of the output."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPDYN_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        patch.setenv("COLUMNS", "100")
        yield
