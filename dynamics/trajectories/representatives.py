"""What a run of symmetric classes keeps: one value in place of all that stay equal; how all are made from these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.systems.layout import Layout, build_layout
from snapdyn.dynamics.systems.quotient import KindsQuotient, logit_of_z, quotient_of, value_of_decoder

REMEDY = "trajectory.of_class(kind), fewer times or fewer classes"


@dataclass
class Representatives:
    """Values of a run of symmetric classes, one in place of all that stay equal.

    Attributes
    ----------
    classes : SymmetricClasses
    z : (N, num_slots) array
        Attention logits.
    Y : (N, number of values) array or None
        Decoder logits.
    saves_decoder : bool
        Whether the trajectory has Y: that of a run with `save_decoder`.
    """

    classes: SymmetricClasses
    z: Floats
    Y: Floats | None = None
    saves_decoder: bool = True

    @property
    def _carried(self) -> KindsQuotient:
        kinds, V = self.classes.exchangeable, self.classes.vocab_size
        return self.classes.kept.get_or_make(("quotient", False), b"", lambda: quotient_of(kinds, V))

    @property
    def _logits(self) -> Ints:
        return logit_of_z(self.classes, self.classes.exchangeable, self.classes.check_z(None))

    @cached_property
    def _layout(self) -> Layout:
        self.classes.require_all()
        return build_layout(self.classes, self.classes.check_z(None))

    def lifted(self, name: str) -> Any:
        """The field `name` of a trajectory for all classes, one by one; None if the run kept no Y."""
        if name == "z_initial":
            return self.classes.check_z(None)
        if name == "z_support":
            return self.z_of_all_classes(self.z)
        if self.Y is None or not self.saves_decoder:
            return None
        if name != "Y":
            return {"decoder_rows": self._layout.row_of_token, "decoder_outputs": self._layout.output_token}[name]
        places = value_of_decoder(self.classes, self._layout, self._carried, self._logits) - self.z.shape[1]
        return self._take("the decoder of all classes", self.Y, places)

    def z_of_all_classes(self, values: Floats) -> Floats:
        """Logits on classes.z_coordinates, (..., nz), from `values` (..., num_slots)."""
        self.classes.require_all()
        return self._take("attention logits of all classes", values, self._logits)

    def _take(self, what: str, values: Floats, places: Ints) -> Floats:
        times = values.shape[0] if values.ndim > 1 else 1
        require_memory(f"{what} at {times} times", 8.0 * times * places.size, REMEDY)
        return values.take(places, axis=-1)

    def z_of_kind(self, values: Floats, kind: int) -> Floats:
        """Logits of the tokens of one class, the common ones first, (..., C + D), from `values` (..., num_slots)."""
        return values.take(self.classes.slots_of_kind(kind), axis=-1)

    def Y_of_kind(self, kind: int) -> Floats | None:
        """Y of the tokens of one class, (N, C + D, outputs); the outputs are those of `outputs_of_kind`."""
        if self.Y is None:
            return None
        carried, slots = self._carried, self.classes.slots_of_kind(kind)
        first, c = carried.kinds.first_own[0], self.classes.kind_of_block
        shared, own = slots[slots < first], slots[slots >= first] - first
        rest = carried.y_shared.shape[1] - 1
        columns = [rest if output < 0 else c[output - 1] for output in outputs_of_kind(self.classes, kind)[1:]]
        of_shared = carried.y_shared[shared][:, [c[kind], *columns]]
        of_own = carried.y_own[own][:, [0, *(1 + column for column in columns)]]
        return self.Y.take(np.concatenate([of_shared, of_own]) - self.z.shape[1], axis=-1)


def outputs_of_kind(classes: SymmetricClasses, kind: int) -> list[int]:
    """Outputs for a class of a kind: 0, its next token; 1 + b, next tokens of other classes of kind b; -1, the rest."""
    others = [
        1 + b for b, each in enumerate(classes.kinds) if classes.num_queries * each.classes_per_query > (b == kind)
    ]
    return [0, *others, *([-1] if classes.vocab_size > classes.num_classes else [])]


def numbers_of_outputs(classes: SymmetricClasses, kind: int) -> Floats:
    """How many outputs each of `outputs_of_kind` stands for; they sum to V."""
    N = classes.num_queries * np.array([each.classes_per_query for each in classes.kinds])
    N[kind] -= 1
    number = {0: 1, -1: classes.vocab_size - classes.num_classes}
    return np.array([number[o] if o <= 0 else N[o - 1] for o in outputs_of_kind(classes, kind)], dtype=np.float64)
