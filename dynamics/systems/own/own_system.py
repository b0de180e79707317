"""What every system of a user has, and the function that makes its class."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, finite_array, real, shown, text, unknown_name
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.kernels.called_rate import advance_called_rate, steps_of_called_rate, write_called_rate
from snapdyn.dynamics.kernels.dormand_prince import Integrator
from snapdyn.dynamics.observables import OURS, is_storable
from snapdyn.dynamics.systems.base import System

# Keys of [system] in files, and the argument of every method.
KEYS = ("kind", "classes", "self")
# Names of the dimensions and variables that every dataset of a trajectory has.
RESERVED = ("time", "state", "value", "loss", "z", "t")


Own = TypeVar("Own", bound="OwnSystem")


def checked_name(kind: str, name: Any) -> str:
    """Return a name that can be shown, saved and, for a parameter, be a key of a file.

    Raises
    ------
    InputError
        The name is not a text, or netCDF cannot hold it (it is empty, ".", or has a slash or control characters); the
        name of a parameter is no identifier; or that of an observable is used by the dataset or the file.
    """
    if not is_storable(name):
        raise InputError(
            f"expected a name of the {kind} as printable text of at most 256 bytes without '/', not '.' or '..', "
            f"received {shown(name)}; choose another"
        )
    if kind == "parameters" and (not name.isidentifier() or keyword.iskeyword(name) or name in KEYS):
        raise InputError(
            f"expected names of parameters that Python and run files accept, received {name!r}; write for example "
            f"{'lambda_' if name == 'lambda' else 'rate_1'}"
        )
    if kind == "observables" and (name in RESERVED or name.startswith(OURS)):
        raise InputError(
            f"expected a name of an observable other than {', '.join(RESERVED)} and names that begin with {OURS!r}, "
            f"received {name!r}; rename it"
        )
    return name


def require_names(name: Any, **names: Iterable[Any]) -> None:
    """Check the name of a system, and those of its state, parameters, time and observables; none may occur twice."""
    checked_name("system", text("name", name))
    seen: dict[str, str] = {}
    for kind, listed in names.items():
        for each in listed:
            checked_name(kind, each)
            if each in seen:
                where = f"twice in the {kind}" if seen[each] == kind else f"in the {seen[each]} and in the {kind}"
                raise InputError(f"expected every name once, received {each!r} {where}; rename one of them")
            seen[each] = kind


class OwnSystem(System):
    """A system that a user stated; its class is made by `System.from_sympy` or `System.from_function`.

    The parameters are keyword arguments of the class; their defaults are the values that its definition gives. So run
    files and sweeps can set the parameters of a registered system.

    Parameters
    ----------
    **parameters : float or array
        Values that differ from the defaults.

    Raises
    ------
    InputError
        An unknown parameter, a value of another shape, or a rate that is not finite at the start.
    """

    defaults: ClassVar[Mapping[str, float | Floats]]
    advice: ClassVar[str] = "choose another start or other parameters"  # if the rate at the start is not finite
    may_jump: bool = True  # whether the rate may jump, as far as is known

    def __init__(self, **parameters: Any) -> None:
        values: dict[str, Any] = dict(self.defaults)
        for name, value in parameters.items():
            if name not in values:
                raise unknown_name(f"a parameter of {self.name}", name, values)
            values[name] = parameter_value(name, value, np.shape(values[name]))
        self.parameters = {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()
        }
        self.parameter_values = np.concatenate([np.zeros(0), *(np.ravel(value) for value in values.values())])
        self._start = self._starting_state()
        self._require_finite("start", self._start, "correct it")
        self._require_finite("rate at the start", self._rate_at_start(), self.advice)

    def with_parameters(self, **parameters: Any) -> OwnSystem:
        """Return the same system with other values of some parameters.

        Examples
        --------
        >>> import snapdyn as sd, sympy
        >>> u, s = sympy.symbols("u s")
        >>> growth = sd.System.from_sympy("Growth", {u: 0.1}, {u: s * u}, {s: 1.0})
        >>> growth.with_parameters(s=2.0)
        Growth(s=2.0)
        """
        return type(self)(**{**self.parameters, **parameters})

    @cached_property
    def argument_values(self) -> list[Any]:
        """The parameters as numbers and arrays, the form in which functions of the user take them."""
        return [np.array(value) if isinstance(value, list) else value for value in self.parameters.values()]

    def scalar_names(self) -> list[str]:
        """Names of the observables and of the state values that are one number at each time."""
        measured = self.observables(self._start[None])
        return [*(name for name, values in measured.items() if values.ndim == 1), *self.value_names]

    def initial_state(self) -> Floats:
        return self._start.copy()

    @property
    def address(self) -> int:
        """Address of the compiled rate; 0 where numba's compiler is switched off."""
        raise NotImplementedError

    @property
    def integrator(self) -> Integrator | None:
        return Integrator(advance_called_rate, False) if self.address else None

    @property
    def stepper(self) -> Any:
        return steps_of_called_rate if self.address else None

    def kernel_arguments(self) -> tuple[Any, ...]:
        return self.address, self.parameter_values

    def write_rate(self, state: Floats, out: Floats) -> float | None:
        return self.write_rate_at(0.0, state, out)

    def write_rate_at(self, t: float, state: Floats, out: Floats) -> float | None:
        if self.address:
            self.check_values(state, out)
            write_called_rate(self.address, state, out, self.parameter_values, float(t))
        else:
            self.write_plain_rate(t, state, out)
        return None

    def write_plain_rate(self, t: float, state: Floats, out: Floats) -> None:
        """Write d(state)/dt to `out`, with code that is not compiled."""
        raise NotImplementedError

    def _starting_state(self) -> Floats:
        raise NotImplementedError

    def _rate_at_start(self) -> Floats:
        out = np.full(self._start.size, np.nan)  # also finds entries that nobody writes
        self.write_rate_at(0.0, self._start, out)
        return out

    def _require_finite(self, what: str, values: Floats, advice: str) -> None:
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"expected a finite {what}, received {values[bad]} for {self.value_name(bad)}; {advice}")


def parameter_value(name: str, value: Any, shape: tuple[int, ...]) -> float | Floats:
    """Return the value of a parameter, a finite number or an array of `shape`."""
    if shape == ():
        return real(name, float(value) if isinstance(value, (bool, np.bool_)) else value)
    array = finite_array(name, value, shape, advice="give one entry for each")
    return array


def new_class(base: type[Own], name: str, defaults: Mapping[str, float | Floats], **attributes: Any) -> type[Own]:
    """Make the class of one system.

    Parameters
    ----------
    base : type
    name : str
        Name of the system and of its class.
    defaults : mapping of str to float or array
        Parameters, which are keyword arguments of the class, with their default values.
    **attributes : Any
        Attributes of the class: `value_names`, and `state_shapes`, the parts of the state in order.
    """
    # The annotations are the types that run files read.
    kinds: dict[int, Any] = {0: float, 1: list[float], 2: ArrayLike}
    signature = inspect.Signature(
        [
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                default=default.tolist() if isinstance(default, np.ndarray) else default,
                annotation=kinds.get(np.ndim(default), Any),
            )
            for parameter, default in defaults.items()
        ]
    )
    members = {"defaults": defaults, "__doc__": base.__doc__, "__signature__": signature, **attributes}
    return cast(type[Own], type(name, (base,), members))
