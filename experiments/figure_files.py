"""What a TOML file says of figures: sections [figures.ID] with their parameters."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from snapdyn.errors import InputError, shown
from snapdyn.experiments.toml_files import check_names, read_toml, unknown


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
    values = read_toml(path)
    check_names(path, values, ("figures",), ("figures",))
    where = f"[figures] of {str(path)!r}"
    figures = values["figures"]
    if not isinstance(figures, dict) or not figures:
        raise InputError(f"expected sections such as [figures.3] in {str(path)!r}, received none; add one")
    for name, section in figures.items():
        if name not in known:
            raise unknown("figure", name, known, where)
        if not isinstance(section, dict):
            raise InputError(
                f"expected a section [figures.{name}] in {str(path)!r}, received {shown(section)}; write one"
            )
    return figures
