"""snapdyn: ODE and analytic-dynamics simulator for how a 1-layer transformer learns where to look.

The public names, loaded on first use, so that importing the package compiles nothing and costs little:

>>> import snapdyn as sd
>>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
>>> trajectory = sd.integrate(system, sd.log_times(0.1, 100, 50))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapdyn import analytic, dynamics, figures, validation
    from snapdyn.dynamics import (
        SGD,
        Event,
        FiniteLengthMeanField,
        Fluctuations,
        FrozenDecoder,
        InputError,
        MeanField,
        ModifiedDecoder,
        SequenceClasses,
        SingleCommonToken,
        TextClasses,
        Trajectory,
        TransformerRun,
        fluctuations,
        from_text,
        integrate,
        integrate_many,
        load,
        log_times,
        random_classes,
        sgd,
        sgd_runs,
        single_common_token,
        syn_medium,
        syn_small,
        train_transformer,
    )
    from snapdyn.validation import Check, Evidence, Picture, claim, validate
    from snapdyn.validation.ladder import ladder

    __version__: str

__all__ = [
    "SGD",
    "Check",
    "Event",
    "Evidence",
    "FiniteLengthMeanField",
    "Fluctuations",
    "FrozenDecoder",
    "InputError",
    "MeanField",
    "ModifiedDecoder",
    "Picture",
    "SequenceClasses",
    "SingleCommonToken",
    "TextClasses",
    "Trajectory",
    "TransformerRun",
    "__version__",
    "analytic",
    "claim",
    "dynamics",
    "figures",
    "fluctuations",
    "from_text",
    "integrate",
    "integrate_many",
    "ladder",
    "load",
    "log_times",
    "random_classes",
    "sgd",
    "sgd_runs",
    "single_common_token",
    "syn_medium",
    "syn_small",
    "train_transformer",
    "validate",
    "validation",
]

_ROOMS = ("analytic", "dynamics", "figures", "validation")
_OF_VALIDATION = ("Check", "Evidence", "Picture", "claim", "ladder", "validate")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any
    if name in _ROOMS:
        return import_module(f"snapdyn.{name}")  # the import itself sets the attribute
    if name == "__version__":
        from importlib import metadata

        value = metadata.version("snapdyn")
    elif name in _OF_VALIDATION:
        value = getattr(import_module("snapdyn.validation"), name)
    else:
        value = getattr(import_module("snapdyn.dynamics"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
