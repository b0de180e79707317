"""Models of the sections [sgd], [compare], [ladder] and [transformer] of run files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from snapdyn.dynamics import SequenceClasses, Trace, read_trace, train_transformer
from snapdyn.dynamics.training.settings import MOST_SEEDS, MOST_STEPS_WITH_RECORD, SGDSettings
from snapdyn.dynamics.training.transformer.settings import TransformerSettings
from snapdyn.experiments.system_sections import Times
from snapdyn.experiments.toml_files import FileName, Section, section_model
from snapdyn.validation.rungs.build import ladder

if TYPE_CHECKING:
    from snapdyn.dynamics import TransformerRun
    from snapdyn.validation.rungs.gaps import Ladder


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


SGD: type[SGDSection] = section_model("SGD", SGDSettings, SGDSection, skip=NOT_IN_FILES)


class CompareSection(Section):
    """Observables, each a list of indices (class, then tokens), and the theory's curves.

    Curves as in `snapdyn.validation.comparison.compute`: mean_field, finite_length, descent,
    modified_decoder, closed_form.
    """

    curves: list[str] = Field(default_factory=lambda: ["mean_field"])
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

    The rates are those of one update of the trace, divided by rate_factor. `seq_len = inf` stands for infinitely
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
