"""The theory of a phase diagram: the quantities of its cells, and the lines that are drawn on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike

from snapdyn import analytic
from snapdyn.core.errors import InputError, shown
from snapdyn.dynamics.classes.synthetic import profile
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.files.user_files import described
from snapdyn.validation.phases import OBSERVABLES, OF_THEORY

# Value of (eta_Z/eta_Y) (V h)^2 just below the first falls of distinct tokens that were seen (F10).
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


def rho0_of(common: ArrayLike, num_distinct: ArrayLike) -> Floats:
    """|c~_n|/P(l_c|n) of `single_common_token` classes whose common token has the probability `common`."""
    norm = np.vectorize(lambda d: float(np.linalg.norm(profile(max(1, int(d))))))(num_distinct)
    return np.hypot(common, (1 - np.asarray(common)) * norm) / common


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


def parameters_of(field: xarray.DataArray) -> dict[str, xarray.DataArray]:
    """Return the coordinates of a diagram by the dotted names of their parameters."""
    return {each.attrs["parameter"]: each for each in field.coords.values() if "parameter" in each.attrs}


def theory_on(field: xarray.DataArray, *points: Floats) -> Theory:
    """Read the theory's quantities on a diagram, from its settings; arguments as of `sections_on`."""
    return theory_of(sections_on(field, *points))


def own_lines(field: xarray.DataArray, *points: Floats) -> dict[str, Floats]:
    """Return the lines that a diagram's observable declares, as `lines_of` does; arguments as of `sections_on`."""
    entry = OBSERVABLES.get(field.attrs["observable"])
    if entry is None or not entry.lines:
        return {}
    sections = sections_on(field, *points)
    system = sections.pop("system", {})
    parameters = {key: value for section in (*sections.values(), system) for key, value in section.items()}
    lines = {}
    for label, line in entry.lines.items():
        try:
            with np.errstate(invalid="ignore", divide="ignore"):
                lines[label] = np.asarray(line(parameters), dtype=float)
        except Exception as error:  # whatever the code of a user raises
            raise InputError(
                f"expected numbers of the line {shown(label)} of {entry.name}, received {described(error, '')}; its "
                f"parameters are {', '.join(parameters)}"
            ) from error
    return lines


def sections_on(field: xarray.DataArray, *points: Floats) -> dict[str, dict[str, Any]]:
    """Return the sections of a run, with the swept values on a diagram in place of those of the file.

    Parameters
    ----------
    field : xarray.DataArray
        A `snapdyn.figures.heat_maps.diagram`. Swept parameters that are not along its axes have one value each.
    *points : arrays of one shape
        Values along the horizontal and the vertical axis; default those of the cells.
    """
    y, x = (field[name] for name in field.dims)
    changes = {name: each.values.flat[0] for name, each in parameters_of(field).items()}
    places = zip((x, y), points or np.meshgrid(x, y), strict=True)
    changes |= {place.attrs["parameter"]: values for place, values in places}
    sections: dict[str, dict[str, Any]] = json.loads(field.attrs["settings"])
    for dotted, value in changes.items():
        section, _, key = dotted.partition(".")
        sections.setdefault(section, {})[key] = value
    return sections


def theory_of(sections: Mapping[str, Mapping[str, Any]]) -> Theory:
    """Read the theory's quantities from the sections of a run, whose values may be arrays."""
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
        rho0 = rho0_of(share, d)
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
