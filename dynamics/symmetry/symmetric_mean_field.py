"""The mean field of symmetric classes in any number, on the quotient that they carry."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.dynamics.symmetry.quotient_system import COMPILED, QuotientSystem
from snapdyn.dynamics.symmetry.symmetric_quotient import (
    SymmetricQuotient,
    slot_of_z,
    symmetric_quotient,
    value_of_decoder,
)
from snapdyn.dynamics.systems.mean_field import MeanField


class SymmetricMeanField(QuotientSystem):
    """A MeanField of symmetric classes on one value for all that stay equal; `integrate` makes and uses it.

    What has the size of all classes (`z_support`, `decoder`, `full_state`) is lifted when it is asked for.

    Parameters
    ----------
    full : MeanField
        Of symmetric classes, without residual connection, from z = 0.
    classes : SymmetricClasses
        Its classes.
    """

    classes: SymmetricClasses

    compiled = COMPILED

    def __init__(self, full: MeanField, classes: SymmetricClasses) -> None:
        self.full, self.classes, self.parameters = full, classes, full.parameters
        self.carried: SymmetricQuotient = symmetric_quotient(classes)
        carried = self.carried
        super().__init__(carried.lists, carried.sums, full.eta_Y, full.eta_Z)
        if full.needs_quotient:
            # Weighted by their copies, N^2 values of Y that hardly move would hide errors of the N that matter: with
            # 10^9 classes, an error of 10^4 tolerances in the own next token. No full run is there to agree with.
            self.norm_weights = np.full(self.size, 1.0 / self.size)

    @property
    def name(self) -> str:
        return self.full.name

    @property
    def has_z(self) -> bool:
        return True

    @property
    def z_initial(self) -> Floats:  # type: ignore[override]  # built when it is read
        return self.full.z_initial

    @cached_property
    def value_names(self) -> list[str]:  # type: ignore[override]
        return self.carried.names()

    def z_support(self, state: Floats) -> Floats:
        return state.take(self.slot_of_z, axis=-1)

    @cached_property
    def slot_of_z(self) -> Ints:
        """State value of each logit on classes.z_coordinates."""
        return slot_of_z(self.classes, self.carried)

    def full_state(self, state: Floats) -> Floats:
        L = self.full.layout
        slots = np.empty(L.num_slots, np.int64)
        slots[L.slot_of_z] = self.slot_of_z
        return state.take(np.concatenate([slots, self.value_of_decoder.ravel()]), axis=-1)

    def decoder(self, state: Floats) -> Floats:
        return state.take(self.value_of_decoder, axis=-1)

    @cached_property
    def value_of_decoder(self) -> Ints:
        """State value of each value of Y, (rows, columns) of the layout of all classes."""
        return value_of_decoder(self.classes, self.carried, self.full.layout)

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.full.decoder_ids()
