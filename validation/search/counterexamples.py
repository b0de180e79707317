"""Counterexamples and worst cases: those stored as JSON, and simplification to fewer classes and rounder numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

import numpy as np

from snapdyn.core.errors import InputError, real
from snapdyn.dynamics.classes.table import Floats
from snapdyn.validation.register_folder import OURS, Register, register_in_use
from snapdyn.validation.search.instance import Instance

Thing = TypeVar("Thing")
FOLDER = "counterexamples"  # of a register
WORST = "worst.json"  # of this folder


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A stored counterexample.

    Attributes
    ----------
    name : str
        Name of the counterexample and of its file.
    statement : str
        The statement that fails.
    rung : str
        Rung of the ladder on which it fails.
    violation : float
        Violation when the counterexample was stored; the claim that names it measures the violation again.
    tried : int
        Number of instances that the search tried.
    mechanism : str
        What breaks the statement there, in one sentence.
    instance : Instance or dict of str to float
        The instance on which the statement fails; the parameters of a Box.
    """

    name: str
    statement: str
    rung: str
    violation: float
    tried: int
    mechanism: str
    instance: Any


def load(name: str) -> Counterexample:
    """Read the counterexample `name` of the package."""
    return _read(OURS.folder / FOLDER / f"{name}.json")


def _read(file: Traversable) -> Counterexample:
    try:
        entries = json.loads(file.read_text(encoding="utf-8-sig"))
        return Counterexample(**(entries | {"instance": _instance(entries["instance"])}))
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # InputError of an instance is a ValueError
        raise InputError(
            f"expected a counterexample as snapdyn attack stores it in {str(file)!r}, received {type(error).__name__}: "
            f"{error}; correct or remove it"
        ) from error


def _instance(entries: dict[str, Any]) -> Instance | dict[str, float]:
    """Instance of sequence classes, or the parameters of a Box, which are numbers."""
    if "P" in entries:
        return Instance.from_dict(entries)
    for name, value in entries.items():
        real(f"the parameter {name!r}", value)
    return entries


def stored_counterexamples() -> tuple[Any, ...]:
    """Instances of all counterexamples of the register in use, in the order of their names."""
    return _stored(register_in_use())


@cache
def _stored(register: Register) -> tuple[Any, ...]:
    folder = register.folder / FOLDER
    files = list(folder.iterdir()) if folder.is_dir() else []
    names = sorted(file.name for file in files if file.name.endswith(".json") and file.name != WORST)
    return tuple(_read(folder / name).instance for name in names)


def worst_cases(claim: str, property_name: str) -> tuple[Any, ...]:
    """Instances of the register in use that a search of a property tries first.

    On these it came nearest to its bound in any search, or it fails without one of its conditions.
    """
    return _worst(register_in_use()).get((claim, property_name), ())


@cache
def _worst(register: Register) -> dict[tuple[str, str], tuple[Any, ...]]:
    file = register.folder / FOLDER / WORST
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    try:
        entries = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
        for entry in entries:
            key = entry["claim"], entry["property"]
            found[key] = (*found.get(key, ()), _instance(entry["instance"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"expected worst cases as snapdyn attack stores them in {str(file)!r}, received {type(error).__name__}: "
            f"{error}; remove the file"
        ) from error
    return found


def shrink(instance: Thing, violates: Callable[[Thing], bool], simpler_of: Callable[[Thing], Iterator[Thing]]) -> Thing:
    """Simplify a counterexample: fewer classes and tokens, rounder numbers, smaller V, simpler rates.

    Simplifications are tried one by one, the coarsest first. One is kept if the statement still fails. The result has
    no further simplification on which the statement fails.

    Parameters
    ----------
    instance : Instance or mapping
        The counterexample.
    violates : callable
        ``violates(instance)`` tells whether the statement fails on an instance.
    simpler_of : callable
        ``simpler_of(instance)`` gives simpler instances, the coarsest simplification first: a domain's `simpler`.

    Returns
    -------
    Instance or mapping
        The simplified counterexample.
    """
    while True:
        simpler = next(filter(violates, simpler_of(instance)), None)
        if simpler is None:
            return instance
        instance = simpler


def simpler_instances(instance: Instance) -> Iterator[Instance]:
    """Instances that are strictly simpler, the coarsest simplification first."""
    K, M = instance.P.shape
    if instance.eta_Y != 1.0:  # the flows depend on eta_Y t and the ratio only
        yield replace(instance, eta_Y=1.0, eta_Z=instance.ratio, t_end=instance.horizon)
    if K > 2:
        for n in range(K):
            kept = np.delete(np.arange(K), n)
            yield instance.only(kept)
    for token in range(M):
        P = np.delete(instance.P, token, axis=1)
        if (P.sum(axis=1) > 0).all():
            start = None if instance.start is None else np.delete(instance.start, token, axis=1)
            yield replace(instance, P=P, start=start)
    if np.ptp(instance.query) > 0 and instance.start is None:
        yield replace(instance, query=np.zeros(K, dtype=np.int64))
    if not instance.uniform:
        yield replace(instance, weights=np.ones(K))
    for V in (max(K, 2), 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000):
        if K <= V < instance.vocab_size:
            yield replace(instance, vocab_size=V)
    for name in ("eta_Z", "t_end"):
        value = getattr(instance, name)
        for digits in (0, 1, 2):
            rounder = _rounded(value, digits)
            if rounder == value:
                break
            changed: dict[str, Any] = {name: rounder}
            yield replace(instance, **changed)
    for name in ("P", "weights"):
        for table in _rounder_tables(getattr(instance, name)):
            changed = {name: table}
            yield replace(instance, **changed)


def _rounder_tables(table: Floats) -> Iterator[Floats]:
    """Tables whose rows have 1 as largest entry and fewer decimals: all rows at once, then row by row."""
    scaled = table / table.max(axis=-1, keepdims=True)

    def rounded(rows: Floats, decimals: int) -> Floats:
        # A token that occurs keeps a positive share.
        return np.where(rows > 0, np.maximum(rows.round(decimals), 10.0**-decimals), 0.0)

    for decimals in range(4):
        if np.array_equal(rounded(scaled, decimals), table):
            break
        yield rounded(scaled, decimals)
    for n in range(len(table) if table.ndim == 2 else 0):
        for decimals in range(3):
            row = rounded(scaled[n], decimals)
            if np.array_equal(row, table[n]):
                break
            rounder = table.copy()
            rounder[n] = row
            yield rounder


def _rounded(value: float, digits: int) -> float:
    """Nearest power of ten (digits 0), or the value to that many significant digits."""
    if digits == 0:
        return float(10.0 ** round(math.log10(value)))
    return float(f"{value:.{digits - 1}e}")
