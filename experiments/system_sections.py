"""Models of the sections of run files: [system], [run], [output], [sgd], [compare], [ladder], [transformer].

Each section is a model of its own, so that any command whose file says what to run can be made of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_type_hints

from pydantic import Field, create_model

from snapdyn.dynamics import (
    Event,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    System,
    Trajectory,
    integrate,
    log_times,
)
from snapdyn.errors import InputError
from snapdyn.experiments.toml_files import Section
from snapdyn.validation.comparison import Observable

if TYPE_CHECKING:
    from snapdyn.dynamics.training.transformer.runs import TransformerRun
    from snapdyn.validation.rungs.gaps import Ladder


# -- [system] ----------------------------------------------------------------------------------------------
class ClassSystem(Section):
    """A system of sequence classes."""

    eta_Y: float
    z_initial: list[list[float]] | None = None

    def checked_z(self) -> Any:
        """z_initial, after checking that its rows have one length."""
        if len({len(row) for row in self.z_initial or ()}) > 1:
            raise InputError(
                "expected z_initial with rows of one length, a number per token, received rows of several "
                "lengths; write 0.0 for a token without initial logit"
            )
        return self.z_initial


class MeanFieldSection(ClassSystem):
    """The full mean-field system."""

    kind: Literal["MeanField"]
    eta_Z: float
    residual: bool = False

    def build(self, classes: SequenceClasses) -> System:
        return MeanField(classes, self.eta_Y, self.eta_Z, z_initial=self.checked_z(), residual=self.residual)


class FiniteLengthMeanFieldSection(ClassSystem):
    """The mean field of sequences of seq_len = T-1 contextual tokens, to second order."""

    kind: Literal["FiniteLengthMeanField"]
    eta_Z: float
    seq_len: int
    lump: bool = True

    def build(self, classes: SequenceClasses) -> System:
        return FiniteLengthMeanField(classes, self.eta_Y, self.eta_Z, self.seq_len, self.checked_z(), self.lump)


class FrozenDecoderSection(ClassSystem):
    """The decoder alone, Eq. (7) or (8)."""

    kind: Literal["FrozenDecoder"]
    modified: bool = False
    residual: bool = False

    def build(self, classes: SequenceClasses) -> System:
        return FrozenDecoder(
            classes, self.eta_Y, modified=self.modified, z_initial=self.checked_z(), residual=self.residual
        )


class ModifiedDecoderSection(ClassSystem):
    """Attention under Theorem 1 and Eq. (10)."""

    kind: Literal["ModifiedDecoder"]
    eta_Z: float
    beta: str = "exact"

    def build(self, classes: SequenceClasses) -> System:
        return ModifiedDecoder(classes, self.eta_Y, self.eta_Z, beta=self.beta, z_initial=self.checked_z())


class SingleCommonTokenSection(Section):
    """The reduced system, Eq. (13), which has no classes."""

    kind: Literal["SingleCommonToken"]
    num_classes: int
    vocab_size: int
    eta_Y: float
    eta_Z: float
    rho0: float
    form: str = "consistent"

    def build(self) -> System:
        return SingleCommonToken(**self.model_dump(exclude={"kind"}))


SystemSection = (
    MeanFieldSection
    | FiniteLengthMeanFieldSection
    | FrozenDecoderSection
    | ModifiedDecoderSection
    | SingleCommonTokenSection
)
SYSTEMS: dict[str, type[Section]] = {
    "MeanField": MeanFieldSection,
    "FiniteLengthMeanField": FiniteLengthMeanFieldSection,
    "FrozenDecoder": FrozenDecoderSection,
    "ModifiedDecoder": ModifiedDecoderSection,
    "SingleCommonToken": SingleCommonTokenSection,
}


# -- [run] and [output] ------------------------------------------------------------------------------------
class Times(Section):
    """Log-spaced times from first to last, or a list of times, in batch-size-1 steps."""

    first: float | None = None
    last: float | None = None
    count: int | None = Field(default=None, ge=2)
    times: list[float] | None = None
    section: ClassVar[str] = "run"

    def t_eval(self) -> Any:
        """Times to save, in batch-size-1 steps."""
        spaced = [name for name in ("first", "last", "count") if getattr(self, name) is not None]
        if self.times is not None:
            if spaced:
                raise InputError(
                    f"expected times, or first, last and count in [{self.section}], received times and "
                    f"{', '.join(spaced)}; keep one way"
                )
            return self.times
        if self.first is None or self.last is None:
            raise InputError(
                f"expected first and last, or times, in [{self.section}], received {', '.join(spaced) or 'none'}; "
                "add, for example, first = 0.1 and last = 1000.0"
            )
        return log_times(self.first, self.last, 100 if self.count is None else self.count)


class Run(Times):
    """Times and solver."""

    method: str = "auto"
    rtol: float = 1e-8
    atol: float = 1e-10
    save_decoder: bool = False

    def integrate(
        self,
        system: System,
        progress: Callable[[float, float], None] | None = None,
        events: Mapping[str, Event] | None = None,
    ) -> Trajectory:
        """Integrate `system` as this section says."""
        return integrate(
            system,
            self.t_eval(),
            method=self.method,
            rtol=self.rtol,
            atol=self.atol,
            save_decoder=self.save_decoder,
            progress=progress,
            events=events,
        )


class Output(Section):
    """Where the result goes; relative to the run file's folder."""

    file: str | None = None


# -- [sgd] and [compare] -----------------------------------------------------------------------------------
class SGDSection(Section):
    """SGD over several seeds; what `sgd` takes."""

    eta_Y: float
    eta_Z: float
    steps: int = Field(ge=1)
    seeds: int | list[int] = 20
    batch_size: int | None = 1
    seq_len: int | None = None
    momentum: float = 0.0
    optimizer: str = "sgd"
    init: str = "zeros"
    residual: bool = False
    weight_decay: float = 0.0
    record: list[int] | None = None

    def seed_list(self) -> list[int]:
        """Seeds: the list itself, or 0, 1, ..., n-1."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def settings(self) -> dict[str, Any]:
        """Arguments of `sgd` besides the rates, the steps, the seeds and the record."""
        return self.model_dump(exclude={"eta_Y", "eta_Z", "steps", "seeds", "record"})


class CompareSection(Section):
    """Observables, each a list of indices (class, then tokens), and the theory's curves.

    Curves as in `snapdyn.figures.comparison.compute`: mean_field, finite_length, modified_decoder, closed_form.
    """

    curves: list[str] = Field(default_factory=lambda: ["mean_field"])
    loss: bool = False
    entropy: list[int] = Field(default_factory=list)
    attention: list[list[int]] = Field(default_factory=list)
    growth_factor: list[list[int]] = Field(default_factory=list)
    relative_gain: list[list[int]] = Field(default_factory=list)

    def observables(self) -> list[Observable]:
        """Observables in the order of this section's keys."""
        chosen = [Observable("loss")] if self.loss else []
        chosen += [Observable("entropy", (n,)) for n in self.entropy]
        for kind in ("attention", "growth_factor", "relative_gain"):
            chosen += [Observable(kind, tuple(indices)) for indices in getattr(self, kind)]
        return chosen


# -- [ladder] and [transformer] ----------------------------------------------------------------------------
class LadderSection(Times):
    """The ladder of approximations; what `snapdyn.validation.rungs.runs` takes."""

    eta_Y: float
    eta_Z: float
    tolerance: float = 0.05
    seeds: int = 20
    seq_len: int | None = None
    batch_size: int = 1
    momentum: float = 0.0
    form: str = "consistent"
    seed: int = 0
    max_steps: int = 100_000
    branch: str = "attention"
    section: ClassVar[str] = "ladder"

    def compute(self, classes: SequenceClasses) -> Ladder:
        """Run every rung."""
        from snapdyn.validation.rungs.runs import ladder

        settings = self.model_dump(exclude={"eta_Y", "eta_Z", "first", "last", "count", "times"})
        return ladder(classes, self.eta_Y, self.eta_Z, self.t_eval(), **settings)


class TransformerSection(Section):
    """Training of a transformer on text: the keys are the arguments of `snapdyn.dynamics.train_transformer`.

    Built by `transformer_section` from the function itself.
    """

    paths: str | list[str]
    validation: str | list[str] | None = None

    def texts(self, folder: Path) -> dict[str, list[Path]]:
        """Files and folders of text by key; relative ones lie beside the run file."""
        given = {"paths": self.paths, "validation": self.validation}
        return {
            name: [folder / path for path in ([paths] if isinstance(paths, str) else paths)]
            for name, paths in given.items()
            if paths is not None
        }

    def files(self, folder: Path) -> list[Path]:
        return [path for paths in self.texts(folder).values() for path in paths]

    def train(self, folder: Path, **options: Any) -> TransformerRun:
        """Train; `options` are those that no file sets (progress, checkpoint)."""
        settings = self.model_dump(exclude={"paths", "validation"}, exclude_unset=True)
        return trainer()(**self.texts(folder), **settings, **options)


# Arguments that belong to the caller, not to the run.
NOT_IN_FILES = ("checkpoint", "progress")
SIMPLE_TYPES = (bool, int, float, str, NoneType)


def trainer() -> Callable[..., TransformerRun]:
    """Find `snapdyn.dynamics.train_transformer`, which imports PyTorch when it is called."""
    from snapdyn.dynamics import train_transformer

    return train_transformer


def transformer_section() -> type[TransformerSection]:
    """Build the model of [transformer]: a key per argument, of its type where that is a number, text or true/false."""
    function = trainer()
    hints = get_type_hints(function)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in NOT_IN_FILES or name in TransformerSection.model_fields:
            continue
        hint = hints.get(name, Any)
        simple = set(get_args(hint) or (hint,)) <= set(SIMPLE_TYPES)
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hint if simple else Any, default)
    return create_model("TransformerSection", __base__=TransformerSection, **fields)
