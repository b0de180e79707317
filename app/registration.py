"""One function that adds a user's system, observable, claim or figure, so that files and commands can name it."""

from __future__ import annotations

from typing import Any, TypeVar

from snapdyn.core.errors import InputError, shown
from snapdyn.core.registry import Registry
from snapdyn.dynamics import SYSTEMS, System
from snapdyn.dynamics.observables import Observable, declare_own_observables
from snapdyn.dynamics.systems.own.own_system import OwnSystem
from snapdyn.figures import FIGURES, FigureEntry
from snapdyn.validation.phases import OBSERVABLES
from snapdyn.validation.register import Claim, add_claim

Entry = TypeVar("Entry")


def register(entry: Entry) -> Entry:
    """Add a user's system, observable, claim or figure.

    Run files, sweeps, help texts and error messages name it from then on. `register` also decorates a class.

    Parameters
    ----------
    entry : type of System, System made by from_sympy or from_function, Observable, Claim or FigureEntry
        The name of a system is that of its class; the parameters of its constructor are the keys of ``[system]``.
        Scalar observables and state values of a system of from_sympy or from_function become observables of sweeps.

    Returns
    -------
    entry
        The entry itself.

    Raises
    ------
    InputError
        The entry is not of a kind that can be registered, or its name is taken.

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
    added: object = type(entry) if isinstance(entry, OwnSystem) else entry  # its class takes the parameters
    if isinstance(added, Claim):
        add_claim(added)
    else:
        _registry_of(added).add(added)
    if isinstance(entry, OwnSystem):
        declare_own_observables(entry)
    return entry


def _registry_of(entry: object) -> Registry[Any]:
    if isinstance(entry, type) and issubclass(entry, System):
        return SYSTEMS
    for kind, registry in ((Observable, OBSERVABLES), (FigureEntry, FIGURES)):
        if isinstance(entry, kind):
            return registry
    raise InputError(
        "expected a subclass of System, an Observable, a Claim, a FigureEntry or a system of System.from_sympy or "
        f"System.from_function to register, received {shown(entry)}; see CONTRIBUTING.md"
    )
