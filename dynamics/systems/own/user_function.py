"""Systems stated as a function."""

from __future__ import annotations

import dis
import inspect
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import BuiltinFunctionType, ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, finite_array, function, shown
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.kernels.called_rate import address_of
from snapdyn.dynamics.systems.own.own_system import (
    OwnSystem,
    new_class,
    parameter_value,
    require_names,
)

_COMPILING = threading.Lock()


class CompiledRate:
    """A rate function of the user, compiled to the signature that the integrator calls.

    Parameters
    ----------
    rate : callable
        Plain or jitted.
    shapes : sequence of shape
        Shapes of the parameters.

    Attributes
    ----------
    address : int
        Address of the machine code, valid as long as this object exists; 0 where numba's compiler is switched off.
    """

    def __init__(self, rate: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        import numba

        self._origin, self.address = (rate, tuple(shapes)), 0
        options: Any = numba.config
        if options.DISABLE_JIT:
            return
        if not inspect.isfunction(getattr(rate, "py_func", rate)):
            raise InputError(
                f"expected the rate as a function, received {shown(rate)}; write def rate(t, state, out, ...)"
            )
        jitted = rate if hasattr(rate, "py_func") else numba.njit(error_model="numpy")(rate)
        values, first = [], 0
        for shape in shapes:
            width = int(np.prod(shape, dtype=int))
            values.append(f"values[{first}:{first + width}].reshape({shape})" if shape else f"values[{first}]")
            first += width
        code = (
            "def called(state, out, size, parameters, t):\n"
            f"    values = carray(parameters, ({first},))\n"
            "    for i in range(size):\n"
            "        out[i] = nan\n"  # so that an entry that is not written has no value of an earlier call
            f"    rate({', '.join(['t', 'carray(state, (size,))', 'carray(out, (size,))', *values])})\n"
            "    return 0.0\n"
        )
        scope: dict[str, Any] = {"rate": jitted, "carray": numba.carray, "nan": np.nan}
        exec(code, scope)
        with compiled_for_user(jitted.py_func):
            self._code = numba.njit(error_model="numpy")(scope["called"])
            self.address = address_of(self._code)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledRate, self._origin  # an address is of one process


# Values that cannot change while they keep their identity, so that a function that saw them sees the same again.
UNCHANGING = (bool, int, float, complex, str, bytes, type, ModuleType, BuiltinFunctionType, np.ufunc)


@dataclass(frozen=True)
class _Seen:
    """A function, equal to others with the same code that see the same values of globals and of their closures."""

    code: Any
    values: tuple[Any, ...]
    rate: Callable[..., Any] = field(compare=False)


def compiled_once(rate: Callable[..., Any], shapes: tuple[Any, ...]) -> CompiledRate:
    """The compiled rate; the same one for the same function, unless it sees values that may have changed."""
    if hasattr(rate, "py_func"):
        return _kept(rate, shapes)
    seen = inspect.getclosurevars(rate)
    values = [*seen.nonlocals.items(), *seen.globals.items()]
    if all(isinstance(value, UNCHANGING) or hasattr(value, "py_func") for _, value in values):
        return _kept(_Seen(rate.__code__, tuple((name, type(value), value) for name, value in values), rate), shapes)
    return CompiledRate(rate, shapes)


@lru_cache(maxsize=64)
def _kept(rate: Any, shapes: tuple[Any, ...]) -> CompiledRate:
    return CompiledRate(rate.rate if isinstance(rate, _Seen) else rate, shapes)


@contextmanager
def compiled_for_user(plain: Callable[..., Any]) -> Iterator[None]:
    """Turn numba's error in the block into an InputError with the line of the user's function `plain`."""
    from numba.core.errors import NumbaError

    with _COMPILING:
        try:
            yield
        except NumbaError as error:
            raise InputError(_why(plain, str(error))) from error


def _why(plain: Any, message: str) -> str:
    """One sentence on a function that does not compile: the line of the user's file, and numba's reason."""
    file = re.escape(plain.__code__.co_filename.rpartition("/")[2])
    lines = re.findall(rf'File "[^"]*{file}", line (\d+)', message)
    reasons = [each.strip() for each in message.splitlines() if each.strip()]
    said = [each for each in reasons if not each.startswith(("Failed in", "File ", "During:", "def ", "<source"))]
    reason = " ".join(said[0].split())[:200] if said else "no reason given"
    line = lines[-1] if lines else _line_of_name(plain, reason)
    return (
        f"expected a function that numba compiles, received {plain.__name__} with an error in line {line} of "
        f"{plain.__code__.co_filename.rpartition('/')[2]}: {reason}; write it with numbers, arrays and numpy functions"
    )


def _line_of_name(plain: Any, reason: str) -> int:
    """Line that loads the name that `reason` quotes (numba gives none for an unknown name), else the first line."""
    quoted = re.findall(r"'(\w+)'", reason)
    for instruction in dis.get_instructions(plain):
        if instruction.argval in quoted and instruction.positions and instruction.positions.lineno:
            return instruction.positions.lineno
    return int(plain.__code__.co_firstlineno)


def reads_first_argument(plain: Callable[..., Any]) -> bool:
    """Whether the code of a function mentions its first argument."""
    code = plain.__code__
    first = code.co_varnames[0]
    # One instruction may name several variables.
    named = (each.argval if isinstance(each.argval, tuple) else (each.argval,) for each in dis.get_instructions(plain))
    return first in code.co_cellvars or any(first in names for names in named)


class FunctionSystem(OwnSystem):
    """A system stated as a function; see `System.from_function`."""

    advice = "write every entry of out, or choose another start or other parameters"
    plain_rate: ClassVar[Any]
    start: ClassVar[Floats]
    compiled_rate: ClassVar[CompiledRate]
    measures: ClassVar[Mapping[str, Callable[..., Any]]]

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        for name in self.measures:
            self._measured(name, self._start)

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is not in any module, and a function of the user may be a local one, which pickle does not take.
        from numba import cloudpickle

        names = "name", "defaults", "state_shapes", "value_names", "compiled_rate", "measures", "start"
        made = {name: getattr(self, name) for name in names} | {"plain_rate": vars(type(self))["plain_rate"]}
        return _made_again, (cloudpickle.dumps(made), self.parameters)

    @property
    def address(self) -> int:
        return self.compiled_rate.address

    @property
    def is_autonomous(self) -> bool:
        return not reads_first_argument(self.plain_rate)

    def write_plain_rate(self, t: float, state: Floats, out: Floats) -> None:
        out.fill(np.nan)
        self.plain_rate(t, state, out, *self.argument_values)

    def observables(self, states: Floats) -> dict[str, Floats]:
        return {name: np.array([self._measured(name, state) for state in states]) for name in self.measures}

    def _measured(self, name: str, state: Floats) -> Floats:
        try:
            value = self.measures[name](state.copy(), *self.argument_values)
        except Exception as error:
            raise InputError(
                f"expected the observable {name!r} to be a function (state, *parameters), received "
                f"{type(error).__name__}: {error}; correct it"
            ) from error
        try:
            return np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"expected the observable {name!r} to return a number or an array, received {shown(value)}; correct it"
            ) from None

    def _starting_state(self) -> Floats:
        return np.array(self.start)

    def _rate_at_start(self) -> Floats:
        tried = tried_in_python("a rate", self.plain_rate, self._start, (0.0,), self.argument_values)
        if tried and tried[1] is not None and np.isnan(tried[0]).all():
            raise InputError(
                f"expected a rate that writes to out, received one that returns {shown(tried[1])}; write out[0] = ... "
                "for every entry, and return nothing"
            )
        return super()._rate_at_start()


def tried_in_python(
    what: str, function: Any, start: Floats, before: Sequence[Any], after: Sequence[Any], middle: Sequence[Any] = ()
) -> tuple[Floats, Any] | None:
    """The entries of out, and what is returned, of one call (*before, state, *middle, out, *after) in Python.

    Compiled code does not notice an index beyond the state. None where Python cannot run what may compile.
    """
    state, out = start.copy(), np.full(start.size, np.nan)
    try:
        with np.errstate(all="ignore"):
            returned = function(*before, state, *middle, out, *after)
    except IndexError as error:
        raise InputError(
            f"expected {what} of {start.size} state values, received one that uses another entry ({error}); give a "
            "start of every value, and write only to entries of out"
        ) from error
    except Exception:
        return None
    if not np.array_equal(state, start):
        raise InputError(f"expected {what} that changes out only, received one that changes state; work on a copy")
    return out, returned


def _made_again(pickled: bytes, parameters: dict[str, Any]) -> FunctionSystem:
    return new_class(FunctionSystem, **pickle.loads(pickled))(**parameters)


def from_function(
    name: str,
    rate: Callable[..., Any],
    initial_state: ArrayLike,
    parameters: Mapping[str, ArrayLike] | Sequence[ArrayLike] = (),
    names: Sequence[str] | None = None,
    observables: Mapping[str, Callable[..., Any]] | None = None,
) -> FunctionSystem:
    """Make a system from a function that numba compiles.

    The compiled integrator calls the function by its address, so a function of a few lines compiles in less than a
    second. A run of a system of three values took 1.05 times as long as with the rate compiled into the integrator.

    Parameters
    ----------
    name : str
        Name of the system.
    rate : callable
        ``rate(t, state, out, *parameters)`` writes d(state)/dt to `out`; `state` and `out` are (size,) arrays, t is in
        batch-size-1 steps. Every call must write every entry of `out`: one that is not written is NaN, and the run
        fails there. A plain function, or one decorated by `numba.njit`. The system counts as one that depends on
        time where the code of the function reads t.
    initial_state : (size,) array
        State at t = 0.
    parameters : sequence or mapping of str to float or array, optional
        Values of the arguments after `out`, in their order; a mapping must have their names.
    names : sequence of str, optional
        Names of the state values.
    observables : mapping of str to callable, optional
        ``function(state, *parameters)`` gives a number or an array; plain Python.

    Returns
    -------
    FunctionSystem
        A System of a class of its own, whose keyword arguments are the parameters.

    Raises
    ------
    InputError
        A function with other arguments, or that does not compile (with the line), shapes that differ, names used twice,
        or a start or rate at the start that is not finite.

    Examples
    --------
    >>> import snapdyn as sd
    >>> def oscillator(t, state, out, frequency):
    ...     out[0] = state[1]
    ...     out[1] = -(frequency**2) * state[0]
    >>> system = sd.System.from_function("Oscillator", oscillator, [1.0, 0.0], {"frequency": 2.0}, names=["x", "v"])
    >>> sd.integrate(system, [0.0, 1.0]).observable("x").round(4)
    array([ 1.    , -0.4161])
    >>> system.with_parameters(frequency=1.0)
    Oscillator(frequency=1.0)
    """
    start = finite_array("initial_state", initial_state, ("size",), advice="write [...]")
    defaults = _defaults(rate, parameters)
    if names is not None and (isinstance(names, str) or len(names) != start.size):
        raise InputError(f"expected {start.size} names of the state, received {shown(names)}; give one for each value")
    value_names = tuple(names or ())
    measures = {key: function(f"observable {key!r}", value) for key, value in (observables or {}).items()}
    require_names(name, state=value_names, parameters=defaults, observables=measures)
    shapes = tuple(np.shape(value) for value in defaults.values())
    made = new_class(
        FunctionSystem,
        name,
        defaults,
        state_shapes=dict.fromkeys(value_names, ()),
        value_names=value_names,
        compiled_rate=compiled_once(rate, shapes),
        measures=measures,
        start=start,
        plain_rate=staticmethod(getattr(rate, "py_func", rate)),
    )
    return made()


def _defaults(rate: Any, parameters: Any) -> dict[str, float | Floats]:
    """Parameters by the names that the function gives them."""
    function("rate", rate)
    try:
        listed = list(inspect.signature(getattr(rate, "py_func", rate)).parameters.values())
    except (TypeError, ValueError) as error:
        raise InputError(f"expected rate as a function (t, state, out, ...), received {shown(rate)}") from error
    if len(listed) < 3 or any(each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in listed):
        raise InputError(
            "expected a rate with arguments (t, state, out, parameters one by one), received "
            f"({', '.join(map(str, listed))}); write rate(t, state, out, ...)"
        )
    expected = [each.name for each in listed[3:]]
    if isinstance(parameters, Mapping):
        if set(parameters) != set(expected):
            raise InputError(
                f"expected parameters {', '.join(expected) or 'none'}, as the rate has them after out, received "
                f"{', '.join(map(str, parameters)) or 'none'}; give a value of each"
            )
        values = [parameters[each] for each in expected]
    else:
        try:
            values = list(parameters)
        except TypeError:
            raise InputError(
                f"expected parameters as a list of values, received {shown(parameters)}; write [...]"
            ) from None
        if len(values) != len(expected):
            raise InputError(
                f"expected {len(expected)} parameters, as the rate has them after out, received {len(values)}; give a "
                "value of each"
            )
    return {key: parameter_value(key, value, np.shape(value)) for key, value in zip(expected, values, strict=True)}
