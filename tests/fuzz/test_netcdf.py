"""Damaged netCDF files with a right digest: they are read or refused, or end within their limit.

A wrong digest is refused before anything is read (tests/dynamics/files/test_netcdf.py).
"""

from pathlib import Path

import numpy as np
from scipy import sparse

from snapdyn.core.errors import InputError
from snapdyn.dynamics import SequenceClasses, Trajectory, load
from snapdyn.dynamics.files.netcdf import TRAILER_SIZE
from tests.dynamics.helpers import trailer_of
from tests.fuzz.processes import endings_of, refusal

LIMIT = 3.0  # seconds; a trial that takes longer is ended and counted


def trajectory(path: Path) -> Path:
    """A run with attention logits, classes and a decoder."""
    rng = np.random.default_rng(0)
    classes = SequenceClasses(sparse.csr_array(np.full((3, 4), 0.25)), np.array([4, 5, 5]), vocab_size=6)
    t, query = np.arange(50.0), classes.z_coordinates[0]
    return Trajectory(
        classes, t, rng.normal(size=(50, query.size)), np.zeros((2, 4)), rng.random(50), "MeanField", {"eta_Y": 1.0},
        invariants={"row sums of Y": rng.random(50)}, Y=rng.normal(size=(50, 2, 3)),
        decoder_rows=np.array([-1, -1, -1, -1, 0, 1]), decoder_outputs=np.array([0, 1, 2]),
    ).save(path)  # fmt: skip


def forged(whole: bytes, rng: np.random.Generator) -> bytes:
    """Zeros or other bits at random places, and a digest of the damaged data."""
    content = bytearray(whole[:-TRAILER_SIZE])
    for place in rng.integers(len(content) - 48, size=rng.integers(1, 4)):
        content[place : place + 48] = bytes(48) if rng.random() < 0.5 else rng.bytes(48)
    return bytes(content) + trailer_of(bytes(content))


def test_forged_files_do_not_crash(tmp_path: Path) -> None:
    """Assert of damaged files with a digest of their own that they load, are refused, or are ended at the limit."""
    path = trajectory(tmp_path / "a.nc")
    whole = path.read_bytes()

    def trial(rng: np.random.Generator) -> str:
        path.write_bytes(forged(whole, rng))
        try:
            load(path)
        except InputError as error:
            return refusal(error)
        return "loaded"

    ended = endings_of(trial, 60, 1200, LIMIT)
    assert set(ended) <= {"refused", "loaded", "ended at the limit"}, ended
