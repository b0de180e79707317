"""Models of what run files run: the sections [system], [run], [output], [sgd], [compare], [ladder], [transformer]."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    SYSTEMS,
    Event,
    SequenceClasses,
    System,
    Trace,
    Trajectory,
    integrate,
    log_times,
    read_trace,
    train_transformer,
)
from snapdyn.dynamics.observables import Observable
from snapdyn.dynamics.training import descent
from snapdyn.dynamics.training.descent import MOST_SEEDS, MOST_STEPS_WITH_RECORD
from snapdyn.dynamics.training.transformer.trainer import TransformerSettings
from snapdyn.experiments.toml_files import FileName, Section, section_model
from snapdyn.validation.phases import transition_event
from snapdyn.validation.rungs.build import ladder

if TYPE_CHECKING:
    from snapdyn.dynamics import TransformerRun
    from snapdyn.validation.rungs.gaps import Ladder

# Arguments of `integrate` that a file sets; the others are objects, or for whoever calls it.
SOLVER_SETTINGS = {"method", "rtol", "atol", "save_decoder", "most_evaluations", "max_step"}


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


class RunSection(Times):
    """Times and solver."""

    def integrate(
        self,
        system: System,
        progress: Callable[[float, float], None] | None = None,
        events: Mapping[str, Event] | None = None,
    ) -> Trajectory:
        """Integrate `system` as this section says."""
        settings = self.model_dump(include=SOLVER_SETTINGS)
        return integrate(system, self.t_eval(), progress=progress, events=events, **settings)


_OTHERS = set(inspect.signature(integrate).parameters) - SOLVER_SETTINGS
RUN: type[RunSection] = section_model("Run", integrate, RunSection, skip=_OTHERS)


class Output(Section):
    """Where the result goes; relative to the run file's folder."""

    file: FileName | None = None

    def target(self, run_file: Path) -> Path:
        """File of the result, by default beside the run file; InputError if it is outside the run file's folder."""
        target = run_file.parent / self.file if self.file else run_file.with_suffix(".nc")
        # A run file may come from somebody else, and links beside it with it.
        if not Path(os.path.realpath(target)).is_relative_to(os.path.realpath(run_file.parent)):
            raise InputError(
                f"expected a result below the folder of {str(run_file)!r}, received {str(target)!r}, which leads out "
                "of it; if you trust the file, give this place with --out"
            )
        return target


class SystemSection(Section):
    """A system and its parameters."""

    kind: str
    system: ClassVar[Callable[..., System]]

    @classmethod
    @cache
    def takes_classes(cls) -> bool:
        """Whether the system is one of sequence classes."""
        return "classes" in inspect.signature(cls.system).parameters

    def build(self, classes: SequenceClasses | None) -> System:
        """Build the system of the classes of the file.

        Raises
        ------
        InputError
            Classes are missing, or given to a system that has none; or the system's constructor refuses a value.
        """
        arguments = self.model_dump(exclude={"kind"})
        if not self.takes_classes():
            if classes is not None:
                raise InputError(
                    f"expected no [classes] with the system {self.kind}, which has no sequence classes, received "
                    "some; remove the section or choose another system"
                )
            return self.system(**arguments)
        if classes is None:
            raise InputError(
                f"expected a section [classes] for the system {self.kind}, received none; "
                'add it, for example with kind = "syn_small"'
            )
        return self.system(classes, **arguments)


def system_models(named: object = None) -> dict[str, type[SystemSection]]:
    """Model of [system] for each system of the register, and for the one `named`, which a plugin may give."""
    SYSTEMS.load_named([named])
    return {name: _system_model(system) for name, system in SYSTEMS.items()}


@cache
def _system_model(system: type[System]) -> type[SystemSection]:
    model = section_model(f"{system.__name__}Section", system, SystemSection, skip=("classes",))
    model.system = system
    return model


class RunFailed(Exception):
    """A run of a cell failed; the message is that of the run."""


def finished(run: Trajectory) -> Trajectory:
    """Return a run that has reached its end; an interrupted run raises KeyboardInterrupt, a failed one RunFailed."""
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if run.status != "finished":
        raise RunFailed(run.message)
    return run


def run_for(
    observables: Iterable[Observable], section: SystemSection, run: RunSection, classes: SequenceClasses | None
) -> Trajectory:
    """Integrate the system of a cell to the end, with the events and the decoder that the observables need.

    Raises
    ------
    InputError
        The system cannot be built, or an observable needs classes that it does not have.
    RunFailed
        The run did not reach its end.
    """
    system, events = section.build(classes), {}
    if transition := " and ".join(each.name for each in observables if each.needs_transition):
        if classes is None:
            raise InputError(
                f"expected a system of classes for {transition}, received {section.kind}; leave these out of "
                "observables"
            )
        events["transition"] = transition_event(classes.vocab_size)
    if any(each.needs_decoder for each in observables):
        run = run.model_copy(update={"save_decoder": True})
    return finished(run.integrate(system, events=events))


# Arguments that belong to the caller, or of which a file sets none.
NOT_IN_FILES = {
    "classes",
    "seed",
    "save_decoder",
    "reduce",
    "threads",
    "t_eval",
    "progress",
}


class SeedsSection(Section):
    """Seeds of SGD: a list, or how many."""

    seeds: Annotated[int, Field(le=MOST_SEEDS)] | list[int] = 20

    def seed_list(self) -> list[int]:
        """Seeds: the list itself, or 0, 1, ..., n-1."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)


class SGDSection(SeedsSection):
    """SGD over several seeds; its other keys are the arguments of `sgd`."""

    eta_Y: float
    eta_Z: float
    steps: int = Field(ge=1, le=MOST_STEPS_WITH_RECORD)
    record: list[int] | None = None
    init: str = "zeros"

    def settings(self) -> dict[str, Any]:
        """Arguments of `sgd` besides the rates, the steps, the seeds and the record."""
        return self.model_dump(exclude={"eta_Y", "eta_Z", "steps", "seeds", "record"})


SGD: type[SGDSection] = section_model("SGD", descent.SGD, SGDSection, skip=NOT_IN_FILES)


class CompareSection(Section):
    """Observables, each a list of indices (class, then tokens), and the theory's curves.

    Curves as in `snapdyn.validation.comparison.compute`: mean_field, finite_length, descent,
    modified_decoder, closed_form; mean_map and flow for a rule such as Adam.
    """

    curves: list[str] | None = None
    loss: bool = False
    entropy: list[int] = Field(default_factory=list)
    attention: list[list[int]] = Field(default_factory=list)
    growth_factor: list[list[int]] = Field(default_factory=list)
    relative_gain: list[list[int]] = Field(default_factory=list)

    def observables(self) -> list[str]:
        """Observables in the order of this section's keys."""
        chosen = ["loss"] if self.loss else []
        chosen += [f"entropy {n}" for n in self.entropy]
        for kind in ("attention", "growth_factor", "relative_gain"):
            chosen += [" ".join(map(str, (kind, *indices))) for indices in getattr(self, kind)]
        return chosen


class TraceSection(Section):
    """The clock and length of a trace recorded elsewhere (the arguments of `read_trace`), and the rates of the theory.

    The rates are those of one update of the trace where its schedule is 1. `seq_len = inf` stands for infinitely
    long sequences.
    """

    eta_Y: float
    eta_Z: float
    seq_len: Annotated[float, Field(allow_inf_nan=True)] | None = None

    def read(self, path: Path) -> Trace:
        """Read a trace with this clock and length."""
        return read_trace(path, **self.model_dump(exclude={"eta_Y", "eta_Z"}))


TRACE: type[TraceSection] = section_model("Trace", read_trace, TraceSection, skip={"path"})


class LadderSection(Times):
    """The ladder of approximations; its other keys are the arguments of `snapdyn.validation.ladder`."""

    eta_Y: float
    eta_Z: float
    section: ClassVar[str] = "ladder"

    def compute(self, classes: SequenceClasses) -> Ladder:
        """Run every rung."""
        return ladder(classes, t_eval=self.t_eval(), **self.model_dump(exclude=set(Times.model_fields)))


LADDER: type[LadderSection] = section_model("Ladder", ladder, LadderSection, skip=NOT_IN_FILES)


class TransformerSection(Section):
    """Training of a transformer on text; its other keys are the arguments of `snapdyn.dynamics.train_transformer`."""

    paths: FileName | list[FileName]
    validation: FileName | list[FileName] | None = None
    device: str | None = None

    def texts(self, folder: Path) -> dict[str, Any]:
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
        """Train; `options` are those that no file sets (progress)."""
        settings = self.model_dump(exclude={"paths", "validation"}, exclude_unset=True)
        return train_transformer(**self.texts(folder), **settings, **options)


TRANSFORMER: type[TransformerSection] = section_model(
    "Transformer", TransformerSettings, TransformerSection, skip=NOT_IN_FILES - {"seed"}
)
