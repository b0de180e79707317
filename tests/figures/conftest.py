"""Figures at the quick level, each drawn once for all processes that run the tests."""

import os
import pickle
from collections.abc import Callable
from functools import cache

import pytest
import xarray

from snapdyn.figures import DrawnFigure, write
from tests.helpers import made_once


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DrawnFigure]:
    """The files of a figure by its id, drawn when first asked for; another process that asks meanwhile waits."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "drawn"
    folder.mkdir(exist_ok=True)

    @cache
    def figure(id_: str) -> DrawnFigure:
        made = made_once(
            folder / f"{id_}.pickle", lambda file: file.write_bytes(pickle.dumps(write(id_, folder / id_)))
        )
        (result,) = pickle.loads(made.read_bytes())
        return result

    return figure


@pytest.fixture(scope="session")
def data(drawn: Callable[[str], DrawnFigure]) -> Callable[[str], xarray.Dataset]:
    """The data of a figure by its id, as read back from its file."""
    return cache(lambda id_: xarray.load_dataset(drawn(id_).data, engine="h5netcdf"))
