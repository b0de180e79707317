"""What results of a user's code depend on: the modules that it imports, the files that it opens, the folders it lists.

Python announces each file that it opens and each folder that it lists to audit hooks, which is how they become known.
All code in the folder of a loaded file counts as well, and register.toml. What is known has the absolute path of a file
as its name; "/" at the end stands for the names in a folder, "/*.py" for those of its code. What is in the standard
library, in installed packages and in snapdyn itself does not count: versions and `source_hash` stand for it. The loaded
files themselves do not count either: `loaded_files` has their digests.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import site
import stat
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from snapdyn.dynamics.kernels.compilation import cache_folder

CODE = "*.py"
LISTINGS = ("os.listdir", "os.scandir")
# Through these a statement learns what no hook sees.
OUTSIDE = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "socket.connect", "sqlite3.connect")
# Libraries that open files without Python, so that no hook sees them.
UNSEEN = set(
    b"h5py h5netcdf netCDF4 tables read_hdf pyarrow read_parquet read_feather read_orc polars duckdb lmdb safetensors "
    b"ctypes cffi".split()
)
PACKAGE = str(Path(__file__).absolute().parents[2])

# Digests as they were when the code was imported and the files were opened; nothing is forgotten, since a later result
# of the same process may depend on what an earlier one has read.
_seen: dict[str, str] = {}
_loaded: set[str] = set()
_imported: set[str] = set()  # modules imported while the code ran
_created: set[str] = set()  # files that the code itself has written
_why_unknown: set[str] = set()
_watching = 0
_state = threading.local()


@contextmanager
def loading(file: Path) -> Iterator[None]:
    """While a user's file is run, note what it imports, opens and lists, and the code that lies beside it."""
    before = set(sys.modules)
    for path in (file.parent / CODE, *file.parent.glob(CODE), file.parent / "register.toml"):
        _note(str(path))
    try:
        with watching(file):
            yield
    finally:
        for name in set(sys.modules) - before:
            if _has_no_source(name):
                _why_unknown.add(f"the module {name!r} has no file")
        _note_modules()


@contextmanager
def watching(*files: Path) -> Iterator[None]:
    """Note what the code of loaded files imports, opens and lists in the block, in all threads."""
    global _watching
    _install()
    _loaded.update(str(file) for file in files)
    before = set(sys.modules)
    _watching += 1
    try:
        yield
    finally:
        _watching -= 1
        _imported.update(sys.modules.keys() - before)


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def dependencies() -> dict[str, str] | None:
    """What results of this process depend on so far: digests by name. None: it cannot be known.

    That is so where a file has changed since it was read; a module has no file, or is compiled; or the code starts a
    process, opens a connection, or uses a library that opens files without Python.
    """
    if not _install.cache_info().currsize:
        return {}  # no code of a user has been run
    _note_modules()
    known = {name: digest for name, digest in _seen.items() if name not in _loaded}
    return known if not _why_unknown and are_current(known) else None


def are_current(known: Mapping[str, str]) -> bool:
    """Whether digests that `dependencies` gave are those of the files as they are now."""
    return all(_digest(name) == digest for name, digest in known.items())


def agrees(known: Mapping[str, str]) -> bool:
    """Whether this process has read the same as another one, whose `dependencies` are `known`."""
    _note_modules()
    return all(_seen.get(name, digest) == digest for name, digest in known.items())


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if (
        not _watching
        or not (event == "open" or event in LISTINGS or event in OUTSIDE)
        or getattr(_state, "busy", False)
    ):
        return
    _state.busy = True
    try:
        _observe(event, arguments, sys._getframe(1))
    except Exception as error:  # it would end the call that is observed
        _why_unknown.add(f"{event}: {error}")
    finally:
        _state.busy = False


def _observe(event: str, arguments: tuple[Any, ...], caller: FrameType) -> None:
    if event in OUTSIDE:
        if _is_ours_to_tell(caller):
            _why_unknown.add(event)
        return
    path = arguments[0]
    if isinstance(path, int):  # a number of a file that is open
        return
    path = os.path.abspath(os.fsdecode(path or "."))
    if event in LISTINGS:
        if "importlib" not in caller.f_code.co_filename:  # which looks for modules and packages
            _note(os.path.join(path, ""))
        return
    flags = arguments[2]
    if flags & os.O_TRUNC or (flags & os.O_CREAT and flags & os.O_EXCL):
        _created.add(path)
    if flags & os.O_ACCMODE != os.O_WRONLY and path not in _created:
        if path.endswith(".pyc"):
            with suppress(ValueError):
                path = importlib.util.source_from_cache(path)
        _note(path)


def _is_ours_to_tell(caller: FrameType | None) -> bool:
    """Whether a user's code is among the callers, and snapdyn (which reads a file that it names) not the nearest."""
    while caller is not None:
        file = caller.f_code.co_filename
        if file.startswith(PACKAGE):
            return False
        if not file.startswith("<frozen") and _counts(file):
            return True
        caller = caller.f_back
    return False


def _note(name: str) -> None:
    if _counts(name):
        _seen.setdefault(name, _digest(name))


def _note_modules() -> None:
    """Note the files of modules that the code uses and that are no part of an installed package.

    Those are the modules imported while the code ran, and, since another program may have imported a module before,
    those whose name is a word of the code.
    """
    others = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and os.path.isabs(file) and _counts(file) and file not in _loaded:
            others[name] = file
    used = [*_loaded, *(others.pop(name) for name in _imported & others.keys())]
    for file in used:  # which grows
        words = _words(file)
        used.extend(others.pop(name) for name in list(others) if name.rpartition(".")[2].encode() in words)
        if unseen := words & UNSEEN:
            _why_unknown.add(f"{file!r} uses {min(unseen).decode()}, which opens files without Python")
        _note(file)


def _words(file: str) -> set[bytes]:
    if not file.endswith(".py"):
        _why_unknown.add(f"{file!r} is compiled")
        return set()
    try:
        return set(re.findall(rb"\w+", Path(file).read_bytes()))
    except OSError as error:
        _why_unknown.add(f"{file!r}: {error}")
        return set()


def _has_no_source(name: str) -> bool:
    """Whether a module was made by a user's code and not from a file."""
    module, top = sys.modules.get(name), sys.modules.get(name.partition(".")[0])
    if any(getattr(each, "__file__", None) for each in (module, top)) or name.startswith("_cython_"):
        return False
    return getattr(module, "__spec__", None) is None and not hasattr(module, "__path__")


@cache
def _installed() -> tuple[str, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders = [*paths, *site.getsitepackages(), site.getusersitepackages(), PACKAGE]
    return tuple(os.path.join(os.path.abspath(folder), "") for folder in (*folders, "/proc", "/sys", "/dev"))


def _counts(name: str) -> bool:
    return not (name.startswith((*_installed(), _derived(os.environ.get("SNAPDYN_CACHE")))) or "__pycache__" in name)


@lru_cache
def _derived(_: str | None) -> str:
    """The folder of what snapdyn can make again."""
    try:
        return os.path.join(os.path.abspath(cache_folder()), "")
    except RuntimeError:  # there is no home folder
        return PACKAGE


def _digest(name: str) -> str:
    """Digest of a file's content, or of the names in a folder; empty where there is none."""
    folder, last = os.path.split(name)
    try:
        if last in ("", CODE):
            names = sorted(each for each in os.listdir(folder) if not last or each.endswith(".py"))
            return hashlib.sha256(os.fsencode("/".join(names))).hexdigest()
        if os.path.isdir(name):
            return "folder"
        found = os.stat(name)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{name!r} is not a regular file")
        return _of_file(name, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _of_file(path: str, *_: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
