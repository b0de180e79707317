"""All figures, drawn once at the quick level."""

from pathlib import Path

import pytest
import xarray

from snapdyn.figures import DrawnFigure, write


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DrawnFigure]:
    """Files of every figure, by id."""
    folder: Path = tmp_path_factory.mktemp("figures")
    return {figure.id: figure for figure in write(out=folder)}


@pytest.fixture(scope="session")
def data(drawn: dict[str, DrawnFigure]) -> dict[str, xarray.Dataset]:
    """Data of every figure as read back from its file, by id."""
    return {id_: xarray.load_dataset(figure.data, engine="h5netcdf") for id_, figure in drawn.items()}
