"""The reference: a page for each public name, from `__all__`, written before Sphinx looks for pages."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx
from sphinx.config import Config

# Title of a page of the reference, and the modules whose public names it lists; `sd` names come first.
PAGES = {
    "simulation": ("Classes, systems, training, trajectories", "snapdyn.dynamics"),
    "theory": ("Closed forms", "snapdyn.analytic"),
    "claims": ("Claims, answers, comparisons, fits", "snapdyn.validation"),
    "figures": ("Figures", "snapdyn.figures"),
    "other": ("Observables, registration, errors", ""),
}
NEW_LINE = "\n"


def listed(room: str) -> list[str]:
    """Names of a page: `snapdyn.x` where x is a name of snapdyn itself, else the name in its room."""
    face = import_module("snapdyn")
    homes = {name: getattr(face, name) for name in face.__all__}
    rooms = [module for _, module in PAGES.values() if module]
    if not room:
        public = {id(getattr(import_module(each), name)) for each in rooms for name in import_module(each).__all__}
        return [f"snapdyn.{name}" for name, value in homes.items() if id(value) not in public and documented(value)]
    module = import_module(room)
    names = [name for name in module.__all__ if documented(getattr(module, name))]
    own = [f"snapdyn.{name}" for name in names if homes.get(name) is getattr(module, name)]
    return own + [f"{room}.{name}" for name in names if f"snapdyn.{name}" not in own]


def documented(value: object) -> bool:
    """Whether a name has a page: functions and classes, not modules, mappings and texts."""
    return callable(value) and not isinstance(value, ModuleType)


def write_pages(app: Sphinx, config: Config) -> None:
    """Write the lists of names; autosummary writes the page of each name."""
    folder = Path(app.srcdir) / "reference" / "generated"
    shutil.rmtree(folder, ignore_errors=True)  # pages of names that are gone
    folder.mkdir(parents=True)
    for page, (title, room) in PAGES.items():
        lines = [title, "=" * len(title), "", ".. autosummary::", "   :toctree: .", ""]
        text = NEW_LINE.join([*lines, *(f"   {name}" for name in listed(room)), ""])
        (folder / f"{page}.rst").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages once the configuration is read."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True}
