"""snapdyn: ODE and analytic-dynamics simulator for how a 1-layer transformer learns where to look.

The public names are loaded on first use, so importing the package compiles nothing and is quick:

>>> import snapdyn as sd
>>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
>>> trajectory = sd.integrate(system, sd.log_times(0.1, 100, 50))
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def _homes() -> dict[str, str]:
    """Where each public name lives: the module from which the stub beside this file imports it."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOMES = _homes()
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib import metadata

        value = metadata.version("snapdyn")
    elif name in _HOMES:
        home = _HOMES[name]
        value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
        _attach_plot()
    else:
        from snapdyn.core.errors import suggest

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{suggest(name, __all__)}")
    globals()[name] = value
    return value


def _attach_plot() -> None:
    """Give trajectories, reports and fits their method `plot`; their own modules may not import the drawing code."""
    homes = {
        "snapdyn.dynamics.trajectories.trajectory": "Trajectory",
        "snapdyn.validation.instance_checks": "InstanceReport",
        "snapdyn.validation.fitting.result": "Fit",
    }
    for module, name in homes.items():
        owner = vars(sys.modules[module]).get(name) if module in sys.modules else None
        if owner is not None and not hasattr(owner, "plot"):
            owner.plot = _plot


def _plot(self: Any, what: str | None = None, ax: Any = None, **options: Any) -> Any:
    """Draw one quantity of this result; see `snapdyn.figures.plot`."""
    from snapdyn.figures.plotting import plot

    return plot(self, what, ax, **options)


def __dir__() -> list[str]:
    return __all__
