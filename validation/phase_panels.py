"""The eight phase diagrams, each a design on a grid with a measure over all its cells, and the theory's lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray

from snapdyn import analytic
from snapdyn.dynamics.classes.table import Floats
from snapdyn.validation import phase_grids as grids
from snapdyn.validation.observables import OF_THEORY

Sections = dict[str, dict[str, Any]]
SLOW = {"eta_Y": 1e-2, "eta_Z": 1e-5}  # attention so slow that it does not disturb the decoder
# Slow for 10^6 classes together too, and long enough for them.
SLOW_FOR_MANY = {"eta_Y": 1.0, "eta_Z": 1e-12}
VOCABULARY, NUMBER, SHARE = "classes.vocab_size", "classes.num_classes", "classes.common_probability"
# Of (eta_Z/eta_Y) (V h)^2, just below the first falls of distinct tokens that were seen (F10, docs/how_to/sweeps.md).
ONSET = 4.5


@dataclass(frozen=True)
class Theory:
    """Quantities that the theory's lines depend on, each a number or an array over the diagram; NaN where unknown.

    K, V, eta_Y, eta_Z; T the end of the run, batch-size-1 steps; V below 4 counts as unknown; rho0 = |c~_n|/P(l_c|n) of
    classes with one common token; `system`: what is integrated, "" for SGD and ladders.
    """

    K: Floats
    V: Floats
    eta_Y: Floats
    eta_Z: Floats
    T: Floats
    rho0: Floats
    system: str

    @property
    def slowness(self) -> Floats:
        """(eta_Z/eta_Y) (V h)^2 at the end of the run: 2/K times eta_Z int gamma dt, which drives attention (128)."""
        u = _known(lambda V, T, K, eta_Y: V * analytic.h(T / K, eta_Y, V), self.V, self.T, self.K, self.eta_Y)
        return self.eta_Z / self.eta_Y * u**2

    def time(self, kind: str) -> Floats:
        """t* ("peak"), t0' ("start") or t0 ("end"); all are proportional to K."""
        return self.K * _known(lambda V, eta_Y: analytic.transition_time(1, V, eta_Y, kind=kind), self.V, self.eta_Y)

    @property
    def rho(self) -> Floats:
        """Overlap f_n.f_k at the start."""
        return self.rho0**-2

    @property
    def driven_by_transition(self) -> Floats:
        """4 A Gamma(t0) = 2 K (K-1) u_+^2 (eta_Z/eta_Y)/rho0^4; below 1, ln chi grows about like Gamma until t0."""
        u = _known(lambda V: analytic.u_plus(V), self.V)
        return 2 * self.K * (self.K - 1) * u**2 * self.eta_Z / (self.eta_Y * self.rho0**4)


def _known(function: Callable[..., Floats], V: Floats, *others: Floats) -> Floats:
    """Return function(V, ...) where all arguments are known, else NaN; it is interpolated linearly between whole V."""
    arrays = np.broadcast_arrays(V, *others)
    known = np.all([np.isfinite(array) for array in arrays], axis=0)
    values = np.full(known.shape, np.nan)
    if known.any():
        whole, *rest = (array[known] for array in arrays)
        low = np.floor(whole)
        share = whole - low
        values[known] = (1 - share) * function(low, *rest) + share * function(low + 1, *rest)
    return values


# Lines of a diagram: label, and a function of the theory that is 0 on the line (in logarithms).
Line = tuple[str, Callable[[Theory], Floats]]
REACHED: tuple[Line, ...] = (
    ("$t^*$ = end of the run", lambda theory: np.log(theory.time("peak") / theory.T)),
    ("$t_0$ = end of the run", lambda theory: np.log(theory.time("end") / theory.T)),
)
MEMORY: tuple[Line, ...] = (
    (rf"$(\eta_Z/\eta_Y)(Vh)^2$ = {ONSET:g} at the end", lambda theory: np.log(theory.slowness / ONSET)),
)
SNAPPING: tuple[Line, ...] = (
    (r"$2K(K-1)u_+^2\eta_Z/\eta_Y = \rho_0^4$", lambda theory: np.log(theory.driven_by_transition)),
)
LADDER: tuple[Line, ...] = (
    (r"printed: $\rho = 1/(K(K-1))$", lambda theory: np.log(theory.rho * theory.K * (theory.K - 1))),
    (r"$V\rho = 1$", lambda theory: np.log(theory.V * theory.rho)),
    *MEMORY,
)


def lines_of(variable: str, theory: Theory) -> dict[str, Floats]:
    """Return the theory's lines for a diagram of this variable: label, and an array that is 0 on the line."""
    remembers = theory.system in ("", "MeanField", "FiniteLengthMeanField")  # earlier attention, in the decoder
    if variable == "transition_time":
        lines = REACHED[:1]
    elif variable in ("largest_gap", "gap"):
        lines = LADDER
    elif theory.system == "ModifiedDecoder" and variable in ("phase", "late_speed", "winner_share"):
        lines = (*REACHED, *SNAPPING)
    else:
        lines = (*REACHED, *MEMORY) if remembers else REACHED
    with np.errstate(invalid="ignore", divide="ignore"):
        return {label: function(theory) for label, function in lines}


def theory_of(settings: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Any]) -> Theory:
    """Read the theory's quantities from the sections of a run and from swept values.

    Parameters
    ----------
    settings : mapping of str to mapping
        Sections of the run file.
    changes : mapping of str to array_like
        Swept values by dotted name ("system.eta_Y").

    Returns
    -------
    Theory
    """
    sections: dict[str, dict[str, Any]] = {name: dict(values) for name, values in settings.items()}
    for dotted, value in changes.items():
        section, _, key = dotted.partition(".")
        sections.setdefault(section, {})[key] = value
    rates = sections.get("system") or sections.get("sgd") or sections.get("ladder") or {}
    classes = sections.get("classes", rates)

    def number(values: Mapping[str, Any], key: str, default: Any = np.nan) -> Floats:
        value = values.get(key)
        return np.asarray(default if value is None else value, dtype=float)

    K, V, rho0 = number(classes, "num_classes"), number(classes, "vocab_size"), np.asarray(np.nan)
    kind = classes.get("kind")
    if kind == "syn_small":
        K, V = np.asarray(2.0), np.asarray(34.0)
    elif kind == "syn_medium":
        Q = number(classes, "num_queries", 10)
        K, V = 2 * Q, 10 + 23 * Q  # 10 + 10 K + Q + K
    elif kind == "single_common_token":
        d = number(classes, "num_distinct")
        V = number(classes, "vocab_size", 1 + K * d)
        share = number(classes, "common_probability")
        share = np.where((share > 0) & (share < 1), share, np.nan)
        rho0 = grids.rho0_of(share, d)
    times = sections.get("run") or sections.get("ladder") or {}
    T = number(times, "last", max(times.get("times") or [np.nan]))
    # t*, t0 and V h hold for plain descent: not for Adam, a random start or weight decay.
    for name, usual in OF_THEORY.items():
        V = np.where(np.asarray(rates.get(name, usual)) == usual, V, np.nan)
    if "sgd" in sections:
        T = number(rates, "steps") / (1 - number(rates, "momentum", 0.0))  # late
    # The edges of the outermost cells of a linear axis may lie outside the domain.
    eta_Y, eta_Z, T = (
        np.where(value > 0, value, np.nan) for value in (number(rates, "eta_Y"), number(rates, "eta_Z"), T)
    )
    K, V = np.where(K >= 1, K, np.nan), np.where(V >= 4, V, np.nan)
    return Theory(K, V, eta_Y, eta_Z, T, rho0, str(rates.get("kind", "")))


@dataclass(frozen=True)
class Panel:
    """One diagram: a design on a grid, and its variable.

    Attributes
    ----------
    variable : str
    settings : mapping
        Sections of the sweep file that gives the same diagram.
    axes : mapping of dotted names to arrays
        The horizontal axis (X,), then the vertical one (Y,).
    measure : callable
        ``measure(settings, x, y)``, the values (Y, X).
    """

    variable: str
    settings: Sections
    axes: Mapping[str, Floats]
    measure: Callable[[Sections, Floats, Floats], Floats]

    def table(self) -> xarray.Dataset:
        """Measure the variable in all cells; return the dataset that a sweep with these settings gives."""
        found = self.measure(self.settings, *self.axes.values())
        coordinates = {
            name.rpartition(".")[2]: (name.rpartition(".")[2], values, {"parameter": name})
            for name, values in reversed(list(self.axes.items()))
        }
        data = {self.variable: (tuple(coordinates), found)}
        return xarray.Dataset(data, coordinates, {"settings": json.dumps(self.settings)})


def panels(
    cells: int = 61,
    instances: int = 2,
    num_classes: int = 5,
    vocab_size: int = 1000,
    num_distinct: int = 5,
    common_probability: float = 0.5,
    gap_probability: float = 0.03,
    last_entropy: float = 1e3,
    last_time: float = 1e4,
) -> dict[str, Panel]:
    """Return the eight diagrams; the parameters are those of figure `phase`."""

    def of_flow(classes: dict[str, Any], last: float, kind: str = "MeanField", **rates: float) -> Sections:
        run = {"first": 0.1, "last": last, "count": 100}
        return {"classes": classes, "system": {"kind": kind} | rates, "run": run}

    equal = {"kind": "single_common_token", "num_distinct": num_distinct}
    whole = equal | {"num_classes": num_classes, "vocab_size": vocab_size}
    pair = equal | {"num_classes": 2, "vocab_size": 100}
    drawn = {"kind": "random_classes", "num_classes": 3, "num_common": 1, "num_distinct": 4, "vocab_size": 100}
    # The two rates have the same spacing: cells of equal eta_Z/eta_Y are one run.
    rates = {"system.eta_Y": 10.0 ** np.linspace(-2, 1, cells), "system.eta_Z": 10.0 ** np.linspace(-3, 0, cells)}
    shares = {SHARE: np.linspace(0.05, 0.95, cells), "system.eta_Z": np.geomspace(1e-3, 50, cells)}
    sizes = {VOCABULARY: whole_numbers(10, 1e15, cells), NUMBER: whole_numbers(2, 1e9, cells)}
    entropy = of_flow(whole | {"common_probability": common_probability}, last_entropy)
    # K times as much is slow still.
    slow = of_flow(equal | {"common_probability": 0.05}, 1e12, eta_Y=1.0, eta_Z=1e-14)
    few = {VOCABULARY: whole_numbers(max(10, num_classes), 1e5, cells), SHARE: np.geomspace(1e-3, 0.3, cells)}
    many = {VOCABULARY: whole_numbers(10, 1e9, cells), NUMBER: whole_numbers(2, 1e6, cells)}
    gap_rates = {"ladder.eta_Y": 10.0 ** np.linspace(-2, 1, cells), "ladder.eta_Z": 10.0 ** np.linspace(-6, 0, cells)}
    # No descent: the gaps begin with the mean field.
    ladder = {"first": 1.0, "last": last_time, "count": 10, "seeds": 0, "max_steps": 1}
    of_few: Sections = {"classes": equal | {"num_classes": num_classes}, "ladder": SLOW | ladder}
    of_many: Sections = {
        "classes": equal | {"common_probability": gap_probability},
        "ladder": SLOW_FOR_MANY | ladder | {"last": 1e8},
    }
    of_rates: Sections = {"classes": whole | {"common_probability": gap_probability}, "ladder": ladder}
    fallen = partial(grids.fallen_share, instances=instances)

    def gaps(axes: dict[str, Floats]) -> Callable[[Sections, Floats, Floats], Floats]:
        x, y = (name.partition(".")[2] for name in axes)
        return partial(grids.largest_gaps, over=(x, y))

    return {
        "entropy": Panel("entropy", entropy, rates, grids.final_entropy),
        "fallen": Panel("fallen_share", of_flow(drawn, last_time), rates, fallen),
        "times": Panel("transition_time", slow, sizes, grids.transition_times),
        "gaps": Panel("largest_gap", of_few, few, gaps(few)),
        "number_gaps": Panel("largest_gap", of_many, many, gaps(many)),
        "rate_gaps": Panel("largest_gap", of_rates, gap_rates, gaps(gap_rates)),
        "flow": Panel("phase", of_flow(pair, last_time, eta_Y=1.0), shares, grids.phases),
        "modified": Panel("phase", of_flow(pair, last_time, "ModifiedDecoder", eta_Y=1.0), shares, grids.phases),
    }


def whole_numbers(first: float, last: float, count: int) -> Floats:
    """Return `count` different whole numbers, log-spaced where log-spaced numbers are more than 1 apart."""
    places = np.arange(count)
    return np.maximum.accumulate(np.geomspace(first, last, count).round() - places) + places


def dataset_of(shown: Mapping[str, Panel]) -> xarray.Dataset:
    """Measure all panels: PANEL_VARIABLE over (PANEL_Y, PANEL_X), and the attribute settings_PANEL, as JSON."""
    datasets = []
    for name, panel in shown.items():
        data = panel.table()
        renamed = data.rename({each: f"{name}_{each}" for each in data.variables})
        renamed.attrs = {f"settings_{name}": data.attrs["settings"]}
        datasets.append(renamed)
    return xarray.merge(datasets, combine_attrs="no_conflicts")


def settings_of(dataset: xarray.Dataset, name: str) -> Sections:
    """Return the sections of the sweep file that gives the same diagram."""
    return dict(json.loads(dataset.attrs[f"settings_{name}"]))


def panel_of(dataset: xarray.Dataset, name: str) -> xarray.Dataset:
    """Return the data of one diagram as a sweep would give them."""
    (variable,) = (each for each in dataset.data_vars if str(each).startswith(f"{name}_"))
    data = dataset[[variable]]
    names = {each: str(each).removeprefix(f"{name}_") for each in data.variables}
    return data.rename(names).assign_attrs(settings=dataset.attrs[f"settings_{name}"])


def panel_theory(dataset: xarray.Dataset, name: str) -> Theory:
    """Return the theory on the cells of one diagram."""
    (data,) = panel_of(dataset, name).values()
    y, x = (data[dim] for dim in data.dims)
    changes = dict(zip((x.attrs["parameter"], y.attrs["parameter"]), np.meshgrid(x, y), strict=True))
    return theory_of(settings_of(dataset, name), changes)
