"""Settings of SGD on drawn sequences: their checks, and their form in saved files."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, choice, finite_array, flag, flag_or, positive, shown, whole
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.rules import DescentRule, GradientDescent, Optimizer, optimizer_as_json, rules_of_layers
from snapdyn.dynamics.systems.base import checked_classes
from snapdyn.dynamics.systems.finite_length import LONGEST_SEQUENCE
from snapdyn.dynamics.training.steps import Schedule, checked_record, checked_schedule

STARTS = ("zeros", "uniform")
MOST_STEPS = 10_000_000  # when every step is recorded
MOST_STEPS_WITH_RECORD = 1_000_000_000
LARGEST_BATCH = 1_000_000
MOST_SEEDS = 1_000_000
LARGEST_DECODER = 100_000_000  # values, 0.8 GB per run

Init = str | Mapping[str, ArrayLike] | tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False)
class SGDSettings:
    """Settings of one training run, checked at construction; `SGD` documents them."""

    classes: SequenceClasses
    eta_Y: float
    eta_Z: float
    steps: int
    batch_size: int | None = 1
    seq_len: int | None = None
    momentum: float = 0.0
    optimizer: Optimizer = "sgd"
    init: Init = "zeros"
    seed: int = 0
    record: ArrayLike | None = None
    residual: bool = False
    save_decoder: bool = False
    reduce: bool | str = "auto"
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        def store(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        checked_classes(self.classes)
        for name in ("eta_Y", "eta_Z"):
            store(name, positive(name, getattr(self, name)))
        for name in ("residual", "save_decoder"):
            store(name, flag(name, getattr(self, name)))
        store("steps", whole("steps", self.steps, 0, MOST_STEPS if self.record is None else MOST_STEPS_WITH_RECORD))
        if self.batch_size is not None:
            store("batch_size", whole("batch_size", self.batch_size, 1, LARGEST_BATCH))
        if self.seq_len is not None:
            store("seq_len", whole("seq_len", self.seq_len, 1, LONGEST_SEQUENCE, "give None for infinite sequences"))
            if self.batch_size is None:
                raise InputError(
                    f"expected seq_len=None with batch_size=None (the gradient of the expectation takes infinite "
                    f"sequences), received seq_len={self.seq_len}; give a batch_size or drop seq_len"
                )
        rules = rules_of_layers(self.optimizer, self.momentum)
        named = optimizer_as_json(rules)
        store("optimizer", named if isinstance(named, str) else rules)
        store("momentum", rules[0].numbers.beta1 if named == GradientDescent.name else 0.0)
        store("seed", whole("seed", self.seed, 0))
        store("reduce", flag_or("reduce", self.reduce, "auto"))
        record = self.record
        store("record", np.arange(self.steps + 1) if record is None else checked_record(record, self.steps))
        store("schedule", checked_schedule(self.schedule, self.steps))
        store("init", self._checked_init())
        if self.reduce is True and not (self.batch_size is None and self.decoder_starts_at_zero):
            raise InputError(
                f"expected batch_size=None and Y(0) = 0 for reduce=True (draws break symmetries), received batch_size="
                f"{self.batch_size}{'' if self.decoder_starts_at_zero else ' and another Y(0)'}; use reduce='auto'"
            )

    def with_seed(self, seed: int) -> Self:
        """The same settings with another seed, which is checked; the others are not checked again."""
        other = copy.copy(self)
        object.__setattr__(other, "seed", seed)
        return other

    @property
    def rules(self) -> tuple[DescentRule, DescentRule]:
        """Rules of Y and of z."""
        return rules_of_layers(self.optimizer, self.momentum)

    @property
    def num_decoder_rows(self) -> int:
        """Rows of Y when it is given or drawn: M, or with the residual max(M, largest query id + 1)."""
        classes = self.classes
        return max(classes.num_tokens, int(classes.query.max()) + 1) if self.residual else classes.num_tokens

    @property
    def decoder_starts_at_zero(self) -> bool:
        """Whether Y(0) = 0: all outputs that are no next token then share one column of Y."""
        return self.init == "zeros" or (isinstance(self.init, dict) and "Y" not in self.init)

    def _checked_init(self) -> str | dict[str, Floats]:
        init = self.init
        if isinstance(init, str):
            choice("init", init, STARTS)
            values = self.num_decoder_rows * self.classes.vocab_size
            if init == "uniform" and values > LARGEST_DECODER:
                raise InputError(
                    f"expected at most {LARGEST_DECODER} values of Y with init='uniform', received "
                    f"{values} ({self.num_decoder_rows} tokens x V = {self.classes.vocab_size}); start from zeros"
                )
            return init
        if isinstance(init, tuple) and len(init) == 2:
            init = {"Y": init[0], "z": init[1]}
        if not isinstance(init, Mapping) or not set(init) <= {"Y", "z"}:
            received = sorted(map(str, init)) if isinstance(init, Mapping) else type(init).__name__
            raise InputError(
                f"expected init as 'zeros', 'uniform', arrays {{'Y': ..., 'z': ...}} or a tuple (Y, z), "
                f"received {received}"
            )
        arrays = {}
        if "z" in init:
            arrays["z"] = self.classes.check_z(init["z"])
        if "Y" in init:
            shape = (self.num_decoder_rows, self.classes.vocab_size)
            arrays["Y"] = finite_array("the initial Y", init["Y"], shape, advice="give a row per token, V columns")
        return arrays

    @property
    def parameters(self) -> dict[str, Any]:
        """Every setting that determines results, except the classes, as JSON values; arrays by shape and SHA-256."""
        values = {name: value for name, value in vars(self).items() if name not in ("classes", "reduce")}
        record = np.asarray(self.record)
        values["optimizer"] = optimizer_as_json(self.rules)
        values["record"] = None if record.size == self.steps + 1 else record.tolist()
        values["schedule"] = None if self.schedule is None else np.asarray(self.schedule).tolist()
        if isinstance(self.init, dict):
            values["init"] = {
                name: {"shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
                for name, array in self.init.items()
            }
        return values


def seed_list(seed: int | Iterable[int]) -> tuple[bool, list[int]]:
    """Return whether a single trajectory is requested, and the seeds."""
    if isinstance(seed, np.ndarray) and seed.ndim == 0:
        seed = seed.item()
    if isinstance(seed, Iterable) and not isinstance(seed, str):
        if isinstance(seed, bytes):
            raise InputError(f"expected seed as a whole number or a list of them, received {shown(seed)}")
        seeds: list[int] = []
        for each in seed:
            seeds.append(whole("seed", each, 0))
            if len(seeds) > MOST_SEEDS:
                raise InputError(f"expected at most {MOST_SEEDS} seeds, received more; make several calls")
        if not seeds:
            raise InputError("expected at least one seed, received none; give one or a list")
        return False, seeds
    return True, [whole("seed", seed, 0)]
