"""Expressions of a system in sympy, the code generated from them, and its files, kept by content for numba's cache."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

from snapdyn.dynamics.storage import cache_folder, output_folder, source_hash, write_text
from snapdyn.errors import InputError

KERNEL = "@kernel(fastmath=EXACT)"  # of generated functions


@dataclass(frozen=True, eq=False)
class SymbolicTheory:
    """Expressions of a system in the symbols of the generated code, s0, s1, ... (state), p0, ... (parameters), t.

    Attributes
    ----------
    state, parameters : list of sympy.Symbol
        Flat, in the order of the arrays.
    start, rate : list of sympy.Expr
        Of the parameters; of all symbols.
    time : sympy.Symbol or None
        The symbol t of a system that depends on time.
    observables, conserved : mapping of str to (shape, expressions)
    """

    state: list[Any]
    parameters: list[Any]
    start: list[Any]
    rate: list[Any]
    time: Any
    observables: Mapping[str, tuple[tuple[int, ...], list[Any]]]
    conserved: Mapping[str, tuple[tuple[int, ...], list[Any]]]

    @cached_property
    def flow(self) -> ModuleType:
        """Compiled rate and integrator."""
        from snapdyn.dynamics.systems.own import code_generation as code

        statements = code.assignments([f"out[{i}]" for i in range(len(self.rate))], self.rate)
        rate = code.function_source("rate", code.FLOW, statements, self._loads(), KERNEL)
        return generated_module(code.HEADER + "\n" + rate + code.INTEGRATOR)

    @cached_property
    def product(self) -> ModuleType | None:
        """Compiled product of the Jacobian with a vector; None where a derivative has no compiled function."""
        from snapdyn.dynamics.systems.own import code_generation as code

        outputs = [f"out[{i}]" for i in range(len(self.rate))]
        statements = code.product_statements(self.rate, self.state, outputs)
        loads = self._loads() + [(f"v{i}", f"vector[{i}]") for i in range(len(self.state))]
        try:
            source = code.function_source("product", code.PRODUCT, statements, loads, KERNEL)
        except InputError:  # such as that of loggamma
            return None
        return generated_module(code.HEADER + "\n" + source)

    def derivatives(self, moving: tuple[int, ...]) -> ModuleType | None:
        """Compiled rate and integrator of the state with its derivatives; None where one has no compiled function.

        `moving` are the indices of the parameters that may change. The module has derivative(state, vector, out,
        parameters, move, reals), the derivative of the rate when the state moves along `vector` and the parameters
        along `move`; measure_derivative(state, vector, out, parameters, move), that of the observables, one after the
        other; and start_derivative(parameters, move, out), that of the start, which is not compiled.
        """
        if moving not in self._derivatives:
            self._derivatives[moving] = self._generated_derivatives(moving)
        return self._derivatives[moving]

    @cached_property
    def _derivatives(self) -> dict[tuple[int, ...], ModuleType | None]:
        return {}

    def _generated_derivatives(self, moving: tuple[int, ...]) -> ModuleType | None:
        from snapdyn.dynamics.systems.own import code_generation as code

        changed = [self.parameters[i] for i in moving]
        outputs = [f"out[{i}]" for i in range(len(self.rate))]
        of_rate = code.product_statements(self.rate, [*self.state, *changed], outputs)
        measured = [each for _, entries in self.observables.values() for each in entries]
        of_measures = code.product_statements(
            measured, [*self.state, *changed], [f"out[{i}]" for i in range(len(measured))]
        )
        of_start = code.product_statements(self.start, changed, outputs)
        n = len(self.state)
        moves = [f"move[{i}]" for i in moving]
        loads = self._loads() + [(f"v{i}", each) for i, each in enumerate([f"vector[{i}]" for i in range(n)] + moves)]
        start_loads = self._loads() + [(f"v{i}", each) for i, each in enumerate(moves)]
        rate = code.function_source("rate", code.FLOW, code.assignments(outputs, self.rate), self._loads(), KERNEL)
        try:
            derivative = code.function_source("derivative", code.DERIVATIVE, of_rate, loads, KERNEL)
            measure = code.function_source("measure_derivative", code.MEASURE_DERIVATIVE, of_measures, loads, KERNEL)
            start = code.function_source("start_derivative", "parameters, move, out", of_start, start_loads, "")
        except InputError:
            return None
        return generated_module("\n".join([code.HEADER, rate, "", derivative, "", measure, start, code.SENSITIVITY]))

    @cached_property
    def starting(self) -> ModuleType:
        """Start as a function of the parameters; not compiled."""
        return self._measure("start", self.start, "")

    @cached_property
    def measures(self) -> tuple[ModuleType | None, ModuleType | None]:
        """Compiled observables and conserved quantities."""
        found = []
        for named in (self.observables, self.conserved):
            entries = [each for _, expressions in named.values() for each in expressions]
            found.append(self._measure("measure", entries, "@kernel(fastmath=EXACT, nogil=True)") if entries else None)
        return found[0], found[1]

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the generated modules, which another process makes or finds for itself.
        return SymbolicTheory, tuple(getattr(self, field.name) for field in fields(self))

    def _loads(self) -> list[tuple[str, str]]:
        loads = [(str(each), f"state[{i}]") for i, each in enumerate(self.state)]
        loads += [(str(each), f"parameters[{i}]") for i, each in enumerate(self.parameters)]
        return [*loads, ("t", "reals[dormand_prince.NOW]")]

    def _measure(self, name: str, entries: list[Any], decorator: str) -> ModuleType:
        from snapdyn.dynamics.systems.own import code_generation as code

        statements = code.assignments([f"out[{i}]" for i in range(len(entries))], entries)
        source = code.function_source(name, "state, out, parameters", statements, self._loads(), decorator)
        return generated_module(code.HEADER + "\n" + source)


# Compiled into every generated integrator: numba's cache does not see that they changed.
BASIS = ("dynamics/kernels/dormand_prince", "dynamics/kernels/compilation", "dynamics/kernels/explicit_steps")


@cache
def generated_module(source: str) -> ModuleType:
    """Write `source` to a file named after its content, unless it is there, and import it.

    The folder is "theories" in the cache folder; where that cannot be written to, a temporary one.

    Parameters
    ----------
    source : str
        Source of a module.

    Returns
    -------
    module
    """
    source += f"# numba {numba.__version__}, snapdyn {_basis()}\n"
    name = f"theory_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    file = _folder() / f"{name}.py"
    # A file that is there keeps its time of writing, which numba's cache compares.
    if not file.is_file() or file.read_text(encoding="utf-8") != source:
        write_text(file, source)
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    sys.modules[name] = module
    return module


@cache
def _basis() -> str:
    return source_hash(*BASIS)


@cache
def _folder() -> Path:
    try:
        return output_folder(cache_folder() / "theories")
    except InputError:
        folder = tempfile.mkdtemp(prefix="snapdyn-theories-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)
