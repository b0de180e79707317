"""What a TOML file says of figures: sections [figures.ID] with their parameters."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from snapdyn.errors import InputError, unknown_name
from snapdyn.experiments.toml_files import Section, read_sections


class FiguresSection(Section, extra="allow"):
    """Parameters of each figure by its id, as written."""

    __pydantic_extra__: dict[str, dict[str, Any]]


def read_figures(path: Path, known: Collection[str]) -> dict[str, dict[str, Any]]:
    """Read the parameters of figures by id.

    Parameters
    ----------
    path : path
        A file with sections such as [figures.3]; a section without keys chooses a figure with its defaults.
    known : collection of str
        Ids of figures.

    Returns
    -------
    dict
        Parameters by id, as written: the figure checks them.

    Raises
    ------
    InputError
        The file cannot be read, has other sections, or names an unknown figure.
    """
    figures = read_sections(path, {"figures": FiguresSection}, ("figures",))["figures"].model_extra
    if not figures:
        raise InputError(f"expected sections such as [figures.3] in {str(path)!r}, received none; add one")
    for name in figures:
        if name not in known:
            raise unknown_name(f"a figure in [figures] of {str(path)!r}", name, known)
    return dict(figures)
