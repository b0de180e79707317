"""Labels of datasets: what each variable is, in which unit, and the settings of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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


def labelled(data: Mapping[str, Any], coordinates: Mapping[str, Any], settings: Mapping[str, Any]) -> xarray.Dataset:
    """Dataset whose variables all have a `long_name` and `units`, with the settings of the run as attributes.

    Parameters
    ----------
    data, coordinates : mapping
        As for `xarray.Dataset`.
    settings : mapping
        Attributes; numbers and texts stay, lists of numbers too, everything else becomes text.

    Returns
    -------
    xarray.Dataset
    """
    import xarray

    dataset = xarray.Dataset(data, coordinates, {name: _storable(value) for name, value in settings.items()})
    for name, variable in dataset.variables.items():
        long_name, units = LABELS.get(str(name), (str(name).replace("_", " "), "1"))
        variable.attrs = {"long_name": long_name, "units": units}
    return dataset


def _storable(value: Any) -> Any:
    """What netCDF can hold as an attribute."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and value and all(type(each) in (int, float) for each in value):
        return list(value)
    return str(value)
