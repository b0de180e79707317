"""snapdyn: ODE and analytic-dynamics simulator for how a 1-layer transformer learns where to look.

The public names are loaded on first use, so importing the package compiles nothing and is quick:

>>> import snapdyn as sd
>>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
>>> trajectory = sd.integrate(system, sd.log_times(0.1, 100, 50))
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapdyn import analytic, dynamics, experiments, figures, validation
    from snapdyn.core.errors import InputError
    from snapdyn.dynamics import (
        SGD,
        ClassKind,
        Event,
        FiniteLengthMeanField,
        FrozenDecoder,
        MeanField,
        ModifiedDecoder,
        Sensitivity,
        SequenceClasses,
        SingleCommonToken,
        SymmetricClasses,
        System,
        TextClasses,
        Trace,
        Trajectory,
        TransformerRun,
        descend,
        descend_samples,
        from_text,
        integrate,
        integrate_many,
        linear_conserved,
        load,
        log_times,
        random_classes,
        read_trace,
        sensitivity,
        sgd,
        sgd_runs,
        single_common_token,
        symmetric_classes,
        syn_medium,
        syn_small,
        train_transformer,
    )
    from snapdyn.dynamics.observables import Observable
    from snapdyn.figures import FigureEntry
    from snapdyn.registration import register
    from snapdyn.validation import (
        Box,
        Claim,
        Evidence,
        Family,
        Fit,
        IdentifiabilityWarning,
        Instance,
        InstanceReport,
        Measured,
        Picture,
        Property,
        Requirement,
        boundary,
        check,
        claim,
        compare,
        fit,
        ladder,
        ladder_of,
        validate,
    )

    __version__: str

_ROOMS = ("analytic", "dynamics", "experiments", "figures", "validation")
# Where each public name lives.
_HOMES = {
    **dict.fromkeys(
        (
            "ClassKind", "Event", "FiniteLengthMeanField", "FrozenDecoder", "MeanField",
            "ModifiedDecoder", "SGD", "Sensitivity", "SequenceClasses", "SingleCommonToken", "SymmetricClasses",
            "System", "TextClasses", "Trace", "Trajectory", "TransformerRun", "descend", "descend_samples",
            "from_text", "integrate", "integrate_many", "linear_conserved", "load", "log_times",
            "random_classes", "read_trace", "sensitivity", "sgd", "sgd_runs", "single_common_token",
            "symmetric_classes", "syn_medium", "syn_small", "train_transformer",
        ),
        "snapdyn.dynamics",
    ),
    **dict.fromkeys(
        (
            "Box", "Claim", "Evidence", "Family", "Fit", "IdentifiabilityWarning", "Instance", "InstanceReport",
            "Measured", "Picture", "Property", "Requirement", "boundary", "check", "claim", "compare", "fit", "ladder",
            "ladder_of", "validate",
        ),
        "snapdyn.validation",
    ),
    "InputError": "snapdyn.core.errors",
    "Observable": "snapdyn.dynamics.observables",
    "FigureEntry": "snapdyn.figures",
    "register": "snapdyn.registration",
}  # fmt: skip

__all__ = sorted([*_ROOMS, *_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        room = import_module(f"snapdyn.{name}")  # the import itself sets the attribute
        _attach_plot()
        return room
    value: Any
    if name == "__version__":
        from importlib import metadata

        value = metadata.version("snapdyn")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
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
