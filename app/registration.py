"""One function that adds a user's system, observable, claim or figure, so that files and commands can name it."""

from __future__ import annotations

from typing import TypeVar

from snapdyn.dynamics import SYSTEMS, System
from snapdyn.dynamics.registry import Registry
from snapdyn.errors import InputError, shown
from snapdyn.experiments.sweep.observables import OBSERVABLES, Observable
from snapdyn.figures import FIGURES, FigureEntry
from snapdyn.validation import CLAIMS
from snapdyn.validation.register import Claim

Entry = TypeVar("Entry")


def register(entry: Entry) -> Entry:
    """Add a user's system, observable, claim or figure.

    Run files, sweeps, help texts and error messages name it from then on. `register` also decorates a class.

    Parameters
    ----------
    entry : type of System, Observable, Claim or FigureEntry
        The name of a system is that of its class; the parameters of its constructor are the keys of ``[system]``.

    Returns
    -------
    entry
        The same.

    Raises
    ------
    InputError
        The entry is of no kind that can be registered, or its name is taken.

    Examples
    --------
    >>> import numpy as np
    >>> import snapdyn as sd
    >>> @sd.register
    ... class Decay(sd.System):
    ...     def __init__(self, rate: float) -> None:
    ...         self.parameters = {"rate": rate}
    ...
    ...     def initial_state(self):
    ...         return np.array([1.0])
    ...
    ...     def write_rate(self, state, out):
    ...         out[:] = -self.parameters["rate"] * state
    >>> sd.dynamics.SYSTEMS["Decay"] is Decay
    True
    >>> del sd.dynamics.SYSTEMS["Decay"]
    """
    _registry_of(entry).add(entry)
    return entry


def _registry_of(entry: object) -> Registry:
    if isinstance(entry, type) and issubclass(entry, System):
        return SYSTEMS
    for kind, registry in ((Observable, OBSERVABLES), (Claim, CLAIMS), (FigureEntry, FIGURES)):
        if isinstance(entry, kind):
            return registry
    raise InputError(
        f"expected a subclass of System, an Observable, a Claim or a FigureEntry to register, received {shown(entry)}; "
        "see CONTRIBUTING.md"
    )
