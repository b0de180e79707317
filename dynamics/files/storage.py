"""Result files: atomic writing, JSON records with a digest, and provenance (versions and hashes of the code)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from snapdyn.core.errors import InputError, file_path, shown_path
from snapdyn.core.parallel import is_running, machine

# Temporary files of `replacing`: what they become, the machine and the process that writes them, its thread.
UNFINISHED = re.compile(r"\..+\.([0-9a-f]{8})-(\d+)-\d+\.part", re.DOTALL)
# After this time an unfinished file of another machine counts as left behind.
SECONDS_KEPT = 86400.0

# What is no regular file, by its type; everything else is a device.
SPECIAL = {stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}

# What `read_record` raises on a file that exists but cannot be used.
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

LIBRARIES = ("numpy", "scipy", "numba", "sympy", "matplotlib", "xarray", "h5netcdf")


@cache
def code_version() -> str:
    """Version of snapdyn, with the git commit when it runs from a checkout."""
    try:
        version = metadata.version("snapdyn")
    except metadata.PackageNotFoundError:
        version = "unknown"
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here.parent), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # a copy may lie inside the checkout of another project
        commit = git("rev-parse", "HEAD")
        return f"{version}+{commit}" + ("-modified" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return version


@cache
def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers depend on."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


@cache
def source_hash(*modules: str) -> str:
    """Hash of the source and data files of modules and packages of snapdyn, such as "dynamics" and "core"."""
    digest = hashlib.sha256()
    package = Path(__file__).absolute().parents[2]
    for name in modules:
        path = package / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                content = file.read_bytes()
                digest.update(f"{file.relative_to(package)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def provenance(**facts: Any) -> dict[str, Any]:
    """Facts that reproduce a result: code and library versions and whatever the caller adds."""
    return {"snapdyn": code_version(), "versions": library_versions(), **facts}


def output_folder(path: str | os.PathLike[str], *files: str) -> Path:
    """Return `path` as a folder that exists and can be written to, without files that killed processes left unfinished.

    Parameters
    ----------
    path : str or path-like
        Folder; it is created when it is missing.
    *files : str
        Names of files that are going to be written there: checked before a computation starts.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        The folder cannot be created or written to; or one of `files` exists and is no regular file, or is a link into
        a folder that cannot be written to.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        _remove_unfinished(folder)
    except OSError as error:
        raise InputError(
            f"expected a folder that can be written to, received {shown_path(path)} ({error.strerror or error}); "
            "choose another folder"
        ) from error
    for name in files:
        if (target := _file_behind(folder / name)) != folder / name:
            output_folder(target.parent)  # the temporary file is written beside the file that a link leads to
    return folder


def _file_behind(path: Path) -> Path:
    """Return the file to write for `path`: `path` itself if it is new or a regular file, its target if it is a link."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        if os.path.islink(path):
            raise InputError(
                f"expected a file to write to, received the link {shown_path(path)}, which leads to no file; remove it "
                "or choose another file"
            ) from None
        return path
    if kind != stat.S_IFREG:
        received = f"the {SPECIAL.get(kind, 'device')} {shown_path(path)}"
        raise InputError(f"expected a file to write to, received {received}; choose another file")
    return path.resolve() if os.path.islink(path) else path


def _remove_unfinished(folder: Path) -> None:
    with os.scandir(folder) as entries:
        unfinished = [(entry.name, match) for entry in entries if (match := UNFINISHED.fullmatch(entry.name))]
    for name, match in unfinished:
        with suppress(OSError):
            if match[1] == machine():
                left_behind = not is_running(int(match[2]))
            else:
                left_behind = time.time() - (folder / name).stat().st_mtime > SECONDS_KEPT
            if left_behind:
                (folder / name).unlink()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file atomically: a stopped program leaves the old file or no file, never a part of one.

    Parameters
    ----------
    path : str or path-like
        File to create or to replace; its folder must exist. A link stays, and the file that it leads to is replaced.

    Yields
    ------
    Path
        Temporary path in the same folder to write to. The temporary file is renamed to `path` when the `with` block
        ends, and removed when the block raises.

    Raises
    ------
    InputError
        The folder is missing, `path` is a folder, device, pipe, socket or a link to nothing, or the file cannot be
        written.
    """
    target = file_path("path", path)
    if not os.path.isdir(target.parent):
        raise InputError(f"expected the folder of {shown_path(target)} to exist; create it or choose another path")
    target = _file_behind(target)
    temporary = target.with_name(f".{target.name}.{machine()}-{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(
            f"expected {shown_path(target)} to be writable, received: {error.strerror or error}; choose another path"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def hashed_name(facts: Any) -> str:
    """Name for the result that `facts` determine: 32 hexadecimal digits of the SHA-256 of their JSON text."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def record_text(member: str, body: str) -> str:
    """JSON text {"digest": ..., `member`: `body`}, for `body` that is JSON text itself."""
    return f'{{"digest": "{hashlib.sha256(body.encode()).hexdigest()}", "{member}": {body}}}'


def record_body(member: str, text: str) -> Any:
    """Value of `member` in a text that `record_text` made.

    Raises
    ------
    ValueError
        The text is not whole, or its content does not match its digest.
    RecursionError
        The content is nested too deep, although its digest is right: this is no accidental damage.
    """
    # The digest is checked before the text is parsed.
    body = text[len(record_text(member, "")) - 1 : -1]
    if text != record_text(member, body):
        raise ValueError("its content does not match its digest")
    return json.loads(body)


def read_record(path: Path, member: str) -> Any:
    """Value of `member` in a file that `write_record` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    one of DAMAGED
        The file cannot be used, or is not a regular file but, for example, a folder or a named pipe.
    """
    # To open a named pipe would wait for a writer.
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a regular file")
    return record_body(member, path.read_text(encoding="utf-8"))


def write_record(path: Path, member: str, body: str) -> None:
    """Write `record_text` to a file, which appears whole or not at all."""
    write_text(path, record_text(member, body))
