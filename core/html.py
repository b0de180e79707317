"""Small tables that notebooks show in place of a `repr`."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


def html_table(title: str, rows: Mapping[str, Any]) -> str:
    """HTML table of two columns, names and values, under a title.

    Parameters
    ----------
    title : str
    rows : mapping of str to anything
        A value is shown as text, a float with six digits.

    Returns
    -------
    str
    """
    left = 'style="text-align:left"'
    cells = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(_text(value))}</td></tr>" for name, value in rows.items()
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{cells}</table>"


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
