"""netCDF files: whole or refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray

from snapdyn.dynamics.netcdf import HEADER, reading_netcdf, write_netcdf
from snapdyn.errors import InputError

NUMBERS = np.array([0.1 + 0.2, np.nan, -np.inf, 5e-324])


def written(folder: Path, file_format: str = "test 1") -> Path:
    header = json.dumps({"format": file_format, "note": "a"})
    return write_netcdf(xarray.Dataset({"x": ("n", NUMBERS)}, attrs={HEADER: header}), folder / "a.nc")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Assert header and every bit of the values, and that no temporary file stays."""
    with reading_netcdf(written(tmp_path), "test", "test 1", "write it again") as (header, values):
        assert header["note"] == "a"
        assert values["x"].tobytes() == NUMBERS.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def build(faulty: bool) -> None:
    """Stand in for a constructor."""
    if faulty:
        raise ValueError("shapes differ")


@pytest.mark.parametrize("damage", ["cut", "other format", "missing", "constructor"])
def test_damage_is_one_sentence(damage: str, tmp_path: Path) -> None:
    """Assert InputError for half a file, another format, no file, and values from which nothing can be built."""
    path = written(tmp_path, "test 2" if damage == "other format" else "test 1")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:300])
    if damage == "missing":
        path.unlink()
    with pytest.raises(InputError, match=r"^expected ") as error, reading_netcdf(path, "test", "test 1", "again"):
        build(damage == "constructor")
    assert "\n" not in str(error.value)
