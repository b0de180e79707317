"""Counterexamples stored as JSON files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from snapdyn.dynamics.storage import replacing
from snapdyn.validation.search.instance import Instance


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A stored counterexample: which statement fails on which rung, by how much, and what the search took.

    `violation` is what was measured when it was stored; the claim that names it measures it again.
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
    """Counterexample NAME of `folder`, default the package's own."""
    place = resources.files("snapdyn.validation") / "counterexamples" if folder is None else Path(folder)
    entries = json.loads((place / f"{name}.json").read_text(encoding="utf-8"))
    return Counterexample(**(entries | {"instance": Instance.from_dict(entries["instance"])}))
