"""Counterexamples stored as JSON files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from snapdyn.dynamics.storage import replacing
from snapdyn.validation.search.instance import Instance


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A stored counterexample.

    Attributes
    ----------
    name : str
        Name of the counterexample and of its file.
    statement : str
        The statement that fails.
    rung : str
        Rung of the ladder on which it fails.
    violation : float
        Violation when it was stored; the claim that names the counterexample measures it again.
    tried : int
        Number of instances that the search tried.
    instance : Instance
        The instance on which the statement fails.
    """

    name: str
    statement: str
    rung: str
    violation: float
    tried: int
    instance: Instance


def store(counterexample: Counterexample, folder: str | Path) -> Path:
    """Write `folder`/NAME.json; floats keep every bit."""
    path = Path(folder) / f"{counterexample.name}.json"
    entries = {field: getattr(counterexample, field) for field in ("name", "statement", "rung", "violation", "tried")}
    text = json.dumps(entries | {"instance": counterexample.instance.to_dict()}, indent=1)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def load(name: str, folder: str | Path | None = None) -> Counterexample:
    """Read the counterexample `name` from `folder`; default: the counterexamples of the package."""
    place = resources.files("snapdyn.validation") / "counterexamples" if folder is None else Path(folder)
    entries = json.loads((place / f"{name}.json").read_text(encoding="utf-8"))
    return Counterexample(**(entries | {"instance": Instance.from_dict(entries["instance"])}))


@cache
def _stored() -> tuple[Counterexample, ...]:
    place = resources.files("snapdyn.validation") / "counterexamples"
    names = sorted(file.name.removesuffix(".json") for file in place.iterdir() if file.name.endswith(".json"))
    return tuple(load(name) for name in names)


def stored_counterexamples() -> list[Instance]:
    """Instances of all counterexamples of the package, in the order of their names."""
    return [entry.instance for entry in _stored()]
