"""Labels of datasets: what each variable is, in which unit, and the settings of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

# Long name and unit; "1": a pure number.
LABELS = {
    "time": ("time in batch-size-1 SGD steps", "steps"),
    "loss": ("cross-entropy of the next token, mean over classes", "nats"),
    "z": ("attention logit of a token for a query", "1"),
    "attention": ("attention of a sequence class to a token", "1"),
    "entropy": ("entropy of the attention of a sequence class", "nats"),
    "state": ("value of the state", "1"),
    "query": ("query token", "1"),
    "token": ("contextual token", "1"),
    "word": ("word of the contextual token", "1"),
    "next_token": ("next token of the sequence class", "1"),
    "prior": ("probability of the sequence class", "1"),
    "sequence_class": ("sequence class", "1"),
    "kind": ("kind of sequence classes", "1"),
    "classes_per_query": ("number of classes of the kind per query", "1"),
    "value": ("name of the state value", "1"),
}
# Names that begin so are those of what only `load` reads; a system has none.
OURS = "snapdyn"
# Attributes of a file that netCDF, xarray or snapdyn itself needs.
NOT_SETTINGS = {
    *("format", "snapdyn", "coordinates", "CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST"),
    *("_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"),
}


def is_storable(name: Any) -> bool:
    """Whether netCDF holds a variable or an attribute of this name as it is."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and 0 < len(name.encode()) <= 256
        and "/" not in name
        and name not in (".", "..")
        and "_nc4_non_coord_" not in name  # netCDF's own mark, left out in reading
    )


def own_label(name: str) -> dict[str, str]:
    """Attributes of a variable that a system names: the name, and no unit."""
    return {"long_name": name.replace("_", " "), "units": "1"}


def labelled(data: Mapping[str, Any], coordinates: Mapping[str, Any], settings: Mapping[str, Any]) -> xarray.Dataset:
    """Dataset whose variables all have a `long_name` and `units`, with the settings of the run as attributes.

    Parameters
    ----------
    data, coordinates : mapping
        As for `xarray.Dataset`.
    settings : mapping
        Attributes, but those of `NOT_SETTINGS` and of names that netCDF cannot hold. Numbers and texts stay, lists of
        numbers too, a list of one number becomes this number, everything else becomes text.

    Returns
    -------
    xarray.Dataset
    """
    import xarray

    kept = {name: value for name, value in settings.items() if name not in NOT_SETTINGS and is_storable(name)}
    dataset = xarray.Dataset(data, coordinates, {name: _storable(value) for name, value in kept.items()})
    for name, variable in dataset.variables.items():
        if not variable.attrs:
            variable.attrs = own_label(str(name))
            if name in LABELS:
                variable.attrs = dict(zip(("long_name", "units"), LABELS[str(name)], strict=True))
    return dataset


def _storable(value: Any) -> Any:
    """What netCDF can hold as an attribute, and gives back equal."""
    if isinstance(value, str):
        return value
    entries = value if isinstance(value, (list, tuple)) else [value]
    if entries and all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in entries):
        array = np.asarray(entries)
        if array.dtype.kind in "if":  # not whole numbers of more than 64 bits
            return array.tolist() if array.size > 1 else array.item()
    return str(value)
