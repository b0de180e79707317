"""The register of claims: one function per claim, with its source, statement and expected verdict."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import get_args

from snapdyn.errors import InputError, unknown_name
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.results import Check, Map, Picture, Verdict


@dataclass(frozen=True)
class Evidence:
    """What a claim's function returns: checks, one sentence, one picture, conditions as measured.

    `seeds` are the seeds of everything random; `tried` counts the instances of a search for counterexamples;
    `maps` show where the statement holds.
    """

    checks: Sequence[Check]
    conclusion: str = ""
    picture: Picture | None = None
    conditions: Sequence[Condition] = ()
    maps: Sequence[Map] = ()
    seeds: Sequence[int] = ()
    tried: int = 0


@dataclass(frozen=True)
class Claim:
    """An entry of the register.

    `run(level)` gathers the evidence, level "quick" or "full"; the verdict follows from the checks
    (`snapdyn.validation.run.verdict_of`) and is compared with `expected`. `file` is the user's file that the
    claim was loaded from, empty for others.
    """

    id: str
    source: str
    title: str
    statement: str
    latex: str
    expected: Verdict
    run: Callable[[str], Evidence]
    assumptions: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    file: str = ""


CLAIMS: dict[str, Claim] = {}


def claim(
    id: str,
    *,
    source: str,
    title: str,
    statement: str,
    latex: str = "",
    expected: Verdict = "holds",
    assumptions: Sequence[str] = (),
    findings: Sequence[str] = (),
) -> Callable[[Callable[[str], Evidence]], Callable[[str], Evidence]]:
    """Register the decorated function ``run(level) -> Evidence`` as a claim.

    Raises
    ------
    InputError
        The id is taken (by another function: a notebook's cell may run again), or `expected` is no verdict.
    """
    if expected not in get_args(Verdict):
        raise unknown_name("the expected verdict", expected, get_args(Verdict))
    if id in CLAIMS and CLAIMS[id].run.__module__ != "__main__":
        raise _taken(id)

    def register(run: Callable[[str], Evidence]) -> Callable[[str], Evidence]:
        if id in CLAIMS and _place(CLAIMS[id].run) != _place(run):
            raise _taken(id)
        CLAIMS[id] = Claim(id, source, title, statement, latex, expected, run, tuple(assumptions), tuple(findings))
        return run

    return register


def _taken(id: str) -> InputError:
    return InputError(f"expected a new claim id, received {id!r}, which the register has; choose another")


def _place(run: Callable[[str], Evidence]) -> tuple[str, str]:
    return run.__module__, getattr(run, "__qualname__", "")


def load_claims(path: str | os.PathLike[str]) -> list[str]:
    """Run a user's Python file, which adds claims to the register, and return their ids.

    The file may import modules that lie beside it. Loading a file again replaces its claims.

    Raises
    ------
    InputError
        The file cannot be read or run (with the line and the error), registers no claim, or takes an id that the
        register has. The register is then as it was.
    """
    from snapdyn.validation import claims  # noqa: F401  (the register's own ids come first)

    file = Path(path).absolute()
    try:
        code = compile(file.read_bytes(), str(file), "exec")
    except OSError as error:
        raise InputError(
            f"expected a Python file with claims, received {str(path)!r} ({error.strerror or error}); check the path"
        ) from error
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(
            f"expected a Python file with claims, received {str(path)!r} with an error{line}: {message}; correct it"
        ) from error
    before = dict(CLAIMS)
    for id, entry in before.items():
        if entry.file and Path(entry.file).absolute() == file:
            del CLAIMS[id]
    kept = set(CLAIMS)
    # A name that nobody imports: functions of the file then travel to other processes as code, not as a name.
    name = f"snapdyn_loaded_{file.stem}"
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module  # dataclasses look their module up
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        _restore(before)
        if not isinstance(error, (Exception, SystemExit)):
            raise
        raise InputError(
            f"expected {str(path)!r} to load, received {described(error, str(file))}; correct it"
        ) from error
    finally:
        del sys.modules[name]
    added = [id for id in CLAIMS if id not in kept]
    if not added:
        _restore(before)
        raise InputError(
            f"expected {str(path)!r} to register a claim, received none; decorate a function with @snapdyn.claim(...)"
        )
    for id in added:
        CLAIMS[id] = replace(CLAIMS[id], file=os.fspath(path))
    return added


def _restore(claims: dict[str, Claim]) -> None:
    CLAIMS.clear()
    CLAIMS.update(claims)


def described(error: BaseException, file: str) -> str:
    """Error in one phrase: its kind, its message, and the last line of `file` (else of any file) that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if f.filename == file), frames[-1] if frames else None)
    message = " ".join(str(error).split())
    where = f" in line {frame.lineno} of {Path(frame.filename).name}" if frame else ""
    return f"{type(error).__name__}{where}{': ' if message else ''}{message}"


def file_of(run: Callable[[str], Evidence]) -> str:
    """File that a claim's function was written in, empty when it has none."""
    return run.__code__.co_filename if isinstance(run, FunctionType) else ""
