"""Generated source files, kept by content, so that numba's cache on disk serves them in later processes."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import numba

from snapdyn.dynamics.storage import cache_folder, output_folder, source_hash, write_text
from snapdyn.errors import InputError

# Compiled into every generated integrator: numba's cache does not see that they changed.
BASIS = ("dynamics/kernels/dormand_prince", "dynamics/kernels/compilation", "dynamics/kernels/explicit_steps")


@cache
def generated_module(source: str) -> ModuleType:
    """Write `source` to a file named after its content, unless it is there, and import it.

    The folder is "theories" in the cache folder; where that cannot be written to, a temporary one.

    Parameters
    ----------
    source : str
        Source of a module.

    Returns
    -------
    module
    """
    source += f"# numba {numba.__version__}, snapdyn {_basis()}\n"
    name = f"theory_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    file = _folder() / f"{name}.py"
    # A file that is there keeps its time of writing, which numba's cache compares.
    if not file.is_file() or file.read_text(encoding="utf-8") != source:
        write_text(file, source)
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    sys.modules[name] = module
    return module


@cache
def _basis() -> str:
    return source_hash(*BASIS)


@cache
def _folder() -> Path:
    try:
        return output_folder(cache_folder() / "theories")
    except InputError:
        folder = tempfile.mkdtemp(prefix="snapdyn-theories-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)
