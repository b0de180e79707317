"""The folder of files that can be made again."""

from pathlib import Path

import pytest

from snapdyn.core.folders import cache_folder


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"SNAPDYN_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"SNAPDYN_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/snapdyn"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/snapdyn"),
        ({}, "/home/me/.cache/snapdyn"),
    ],
)
def test_cache_folder(settings: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the folder is the user's choice, else XDG's, else ~/.cache/snapdyn."""
    for name in ("SNAPDYN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)
