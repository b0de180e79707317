"""Settings of all tests."""

import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from snapdyn.commands.main import main
from snapdyn.figures import FIGURES
from tests.helpers import Command, restored_registries

# All figures, claims of the register, and a report: made once, and slow.
SLOW_FIXTURES = {"drawn", "checked", "built"}
LONGEST_FIXTURE = 1800.0  # seconds, in place of the limit of other tests (pyproject.toml)
# Figures whose tests are slow; those of others are long.
SHORT_FIGURES = {"3", "4", "8", "9", "10"}


class _ByFile:
    """Hook of pytest-xdist, asked for where pytest-xdist runs."""

    @staticmethod
    def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
        """Run the tests of a file in one process, for they share what is slow to make, and so do those of a figure.

        Figures 6, 11 and 12 share their runs of SGD.

        `--dist loadgroup` does not: with pytest 9.2 the groups of pytest-xdist 3.8 have no effect.
        """
        from xdist.scheduler import LoadScopeScheduling

        class Scheduler(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                file, _, test = nodeid.partition("::")
                if file.endswith("test_register.py"):
                    return nodeid.rpartition("/")[0]  # a chapter of the register
                id_ = re.split(r"[-\]]", test.partition("[")[2])[0]
                if not file.startswith("tests/figures/") or id_ not in FIGURES:
                    return file
                return "figure 6" if id_ in ("11", "12") else f"figure {id_}"

        config.option.loadscopereorder = False  # see `pytest_collection_modifyitems`
        return Scheduler(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Ask for the scheduler where pytest-xdist is installed."""
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_ByFile())


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that wait for a slow fixture, and give them more time; start files with slow tests first."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        figure = callspec.params.get("id_", "3") if callspec else "3"
        if "drawn" in getattr(item, "fixturenames", ()) and figure not in SHORT_FIGURES:
            item.add_marker("long")
        if item.get_closest_marker("long"):
            item.add_marker("slow")
        if item.path.name == "test_register.py" and not item.get_closest_marker("long"):
            item.add_marker("register")
        if SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
            item.add_marker(pytest.mark.timeout(LONGEST_FIXTURE))
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True, scope="session")
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' finished claims out of the user's cache folder, and the user's terminal out of the output."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its jobs in the background ignore Ctrl-C
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPDYN_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        patch.setenv("COLUMNS", "100")
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command with its arguments in this process, assert its exit code, and return what it has printed.

    With exit code 2 that is one sentence on standard error, and nothing on standard output.
    """

    def run(*arguments: object, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([str(each) for each in arguments]) == code
        printed = capsys.readouterr()
        if code == 2:
            assert printed.out == ""
            assert printed.err.startswith("snapdyn: ")
            assert printed.err.count("\n") == 1, printed.err
        return printed

    return run


@pytest.fixture(autouse=True)
def _registries() -> Iterator[None]:
    """What a test loads or registers reaches no other test of the process."""
    with restored_registries():
        yield
