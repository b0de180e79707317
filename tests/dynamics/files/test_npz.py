"""npz files: damage and sizes that do not fit are refused before memory is taken, in tables and in traces."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.core import memory
from snapdyn.core.errors import InputError
from snapdyn.dynamics.files.foreign import read_npz
from snapdyn.experiments.class_sections import read_table

READERS = {"steps": sd.read_trace, "P": read_table}
NUMBERS = np.random.default_rng(1).random(5000)


def member(*shape: int, dtype: str = "<f8", content: bytes = b"") -> bytes:
    """An array in a file: its header, and what follows."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


MEMBERS = {
    "16 TB declared": member(2 * 10**12),
    "more declared than held": member(20, content=bytes(16)),
    "less declared than held": member(2, content=bytes(24)),
    "negative sizes": member(-2, -3, content=bytes(48)),
    "objects": member(2, dtype="|O", content=bytes(16)),
    "a long header": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535,
    "no array": b"text",
}


@pytest.mark.parametrize("content", MEMBERS.values(), ids=MEMBERS)
def test_arrays_that_are_not_what_they_declare(content: bytes, tmp_path: Path) -> None:
    """Assert one sentence for an array whose header does not fit its content, which numpy would believe."""
    path = tmp_path / "file.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("P.npy", content)
    with pytest.raises(InputError, match=r"^expected an npz file of plain arrays, received .*; write numbers with"):
        read_table(path)


@pytest.mark.parametrize("name", READERS)
def test_damaged_compression(name: str, tmp_path: Path) -> None:
    """Assert one sentence where bytes of the compressed data are changed, and where the file is cut."""
    path = tmp_path / "file.npz"
    np.savez_compressed(path, **{name: NUMBERS})  # type: ignore[arg-type]
    whole = path.read_bytes()
    for content in (whole[:200] + bytes(each ^ 0x5A for each in whole[200:300]) + whole[300:], whole[:1000]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"^expected an npz file of plain arrays, received"):
            READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_small_file_that_expands_beyond_the_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that 40 kB that expand to 40 MB are refused by their declared size, where 100 MB are free."""
    path = tmp_path / "file.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as file:
        file.write(member(5_000_000))
        for _ in range(40):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(memory, "free_memory", lambda: 1e8)
    with pytest.raises(InputError, match=r"the arrays of file.npz to fit into the free memory of 0\.0931 GiB"):
        READERS[name](path)


def test_arrays_that_are_wanted(tmp_path: Path) -> None:
    """Assert that arrays come back exactly, in both memory orders, and others are not looked at."""
    path = tmp_path / "file.npz"
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.asfortranarray(np.eye(3)), "c": np.array("csr")}
    np.savez(path, **arrays, other=np.array([{}], dtype=object))  # type: ignore[arg-type]
    found = read_npz(path, {"a", "b", "c", "missing"})
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_named_pipe_is_no_file(read: Callable[[Path], Any], tmp_path: Path) -> None:
    """Assert one sentence at once: to open the pipe would wait for a writer."""
    path = tmp_path / "pipe.npz"
    os.mkfifo(path)
    with pytest.raises(InputError, match="which is not a file"):
        read(path)
