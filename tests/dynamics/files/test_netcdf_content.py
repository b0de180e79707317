"""Content of netCDF files: nothing from outside of the file, in this process and as a program of its own."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from snapdyn.core.errors import InputError
from snapdyn.dynamics.files.netcdf import reading_netcdf
from snapdyn.dynamics.files.netcdf_content import RefusedContent, read_content
from snapdyn.dynamics.traces.reading import read_foreign
from tests.dynamics.helpers import trailer_of


def test_sizes_are_compared_before_memory_is_taken(tmp_path: Path) -> None:
    """Assert both sides of the largest size."""
    path = tmp_path / "a.nc"
    xarray.Dataset({"x": ("n", np.arange(100.0))}).to_netcdf(path, engine="h5netcdf")
    size = 800 + 100 * 4  # netCDF-4 keeps the dimension n as an array of its own
    assert read_content(path, size).arrays["x"].tolist() == list(range(100))
    with pytest.raises(RefusedContent, match="GiB of values"):
        read_content(path, size - 1)


def forged(path: Path, make: str, secret: Path) -> Path:
    """File with HDF5 features that reach outside of it, and a right digest."""
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "test 1"
        if make == "external storage":
            file.create_dataset("x", (4,), "f8", external=[(str(secret), 0, 32)])
        elif make == "external link":
            file["x"] = h5py.ExternalLink(str(secret), "/x")
        elif make == "link in a group":
            file.create_group("g")["x"] = h5py.SoftLink("/y")
        elif make == "virtual":
            layout = h5py.VirtualLayout((4,), "f8")
            layout[:] = h5py.VirtualSource(str(secret), "x", (4,))
            file.create_virtual_dataset("x", layout)
        elif make == "huge":
            file.create_dataset("x", (2**50,), "f8", chunks=(2**20,))
        elif make == "references":
            file.create_dataset("x", data=np.array([file.ref], dtype=h5py.ref_dtype), dtype=h5py.ref_dtype)
        else:
            for number in range(1001):
                file[f"x{number}"] = 0.0
    path.write_bytes(path.read_bytes() + trailer_of(path.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        ("external storage", "keeps the values of 'x' in another file"),
        ("external link", "refers to another place by the link 'x'"),
        ("link in a group", "refers to another place by the link 'g/x'"),
        ("virtual", "keeps the values of 'x' in another file"),
        ("huge", "GiB of values"),
        ("references", "neither numbers nor text"),
        ("many", "more than 1000"),
    ],
)
def test_nothing_outside_of_the_file_is_read(make: str, sentence: str, tmp_path: Path) -> None:
    """Assert one sentence, in our files and others, for data of other files, other types and huge sizes."""
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["x"] = np.full(4, 7.0)
    path = forged(tmp_path / "a.nc", make, secret)
    with pytest.raises(InputError, match=sentence), reading_netcdf(path, "test", "test 1", "write it again"):
        pass
    with pytest.raises(InputError, match=sentence):
        read_foreign(path, ["x"])
