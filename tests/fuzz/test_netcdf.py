"""Damaged netCDF files: refused, whatever the damage; without a digest they end within their limit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from snapdyn.core.errors import InputError
from snapdyn.dynamics import SequenceClasses, TextClasses, Trajectory, load
from snapdyn.dynamics.files.netcdf import TRAILER_SIZE
from tests.dynamics.helpers import trailer_of
from tests.fuzz.conftest import Attack
from tests.fuzz.processes import Trial, endings_of, refusal

Damage = Callable[[bytes, np.random.Generator], bytes]
HANG = 60.0  # seconds; a trial that takes longer is ended and counted
LIMIT = 3.0  # seconds, of a file of another program or with a forged digest


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


def text_classes(path: Path) -> Path:
    """Classes with words."""
    n = np.arange(20)
    P = sparse.csr_array(np.random.default_rng(0).dirichlet(np.ones(20), 20))
    return TextClasses(P, n, n, n + 1, [f"word{i}" for i in n], 3, 400, 2, 20).save(path)


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """One kind of damage at random places: bits, a cut, the trailer, other bytes in any number."""
    data, end = bytearray(whole), len(whole)
    match rng.integers(4):
        case 0:
            for place in rng.integers(end, size=rng.integers(1, 9)):
                data[place] ^= 1 << rng.integers(8)
        case 1:
            del data[rng.integers(end) :]
        case 2:
            data[rng.integers(end - TRAILER_SIZE, end)] = rng.integers(256)
        case _:
            place = rng.integers(end)
            data[place : place + rng.integers(1, 100)] = rng.bytes(rng.integers(200))
    return bytes(data)


def loading(load_file: Callable[[Path], Any], path: Path, damage: Damage) -> Trial:
    """A trial that loads a damaged copy of the file."""
    whole = path.read_bytes()
    load_file(path)

    def trial(rng: np.random.Generator) -> str:
        content = damage(whole, rng)
        path.write_bytes(content)
        try:
            load_file(path)
        except InputError as error:
            return refusal(error)
        return "damage undone" if content == whole else "loaded"

    return trial


def forged(whole: bytes, rng: np.random.Generator) -> bytes:
    """Zeros or other bits at random places, and a digest of the damaged data."""
    content = bytearray(whole[:-TRAILER_SIZE])
    for place in rng.integers(len(content) - 48, size=rng.integers(1, 4)):
        content[place : place + 48] = bytes(48) if rng.random() < 0.5 else rng.bytes(48)
    return bytes(content) + trailer_of(bytes(content))


@pytest.mark.parametrize(
    ("write", "load_file"), [(trajectory, load), (text_classes, TextClasses.load)], ids=["trajectories", "text classes"]
)
def test_damaged_files_are_refused(
    write: Callable[[Path], Path],
    load_file: Callable[[Path], Any],
    attack: Attack,
    tmp_path: Path,
) -> None:
    """Assert that no damaged file loads, no load hangs, and nothing but InputError of one line is raised."""
    attack.endings.update(
        endings_of(
            loading(load_file, write(tmp_path / "a.nc"), damaged), len(attack.trials(100, 1200)), attack.seed, HANG
        )
    )
    assert set(attack.endings) <= {"refused", "damage undone"}


def test_forged_files_do_not_crash(attack: Attack, tmp_path: Path) -> None:
    """Assert of damaged files with a digest of their own that they load, are refused, or are ended at the limit."""
    trial = loading(load, trajectory(tmp_path / "a.nc"), forged)
    attack.endings.update(endings_of(trial, len(attack.trials(60, 1200)), attack.seed, LIMIT))
    assert set(attack.endings) <= {"refused", "loaded", "damage undone", "ended at the limit"}
