"""What every system offers to the integrator and to a trajectory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints, SequenceClasses
from snapdyn.dynamics.systems.layout import Layout
from snapdyn.errors import InputError


class System(ABC):
    """A system of ODEs whose time t counts batch-size-1 SGD steps.

    Attributes
    ----------
    classes : SequenceClasses or None
        None for the reduced system (13), which has one logit and no classes.
    parameters : dict
        What besides the classes defines the system; stored with every trajectory.
    z_initial : (Q, M) array
        Attention logits at t = 0.
    """

    classes: SequenceClasses | None
    parameters: dict[str, Any]
    z_initial: Floats
    eta_Y: float
    size: int
    _arguments: tuple[Any, ...]  # of the compiled right-hand side after state and out, where there is one

    @property
    def name(self) -> str:
        """Name of the system."""
        return type(self).__name__

    @property
    def rate_ratio(self) -> float:
        """eta_Z/eta_Y, the quantity that makes the system stiff (0: attention frozen)."""
        return 0.0

    @abstractmethod
    def initial_state(self) -> Floats:
        """State at t = 0, (size,)."""

    @abstractmethod
    def write_rate(self, state: Floats, out: Floats) -> float:
        """Write d(state)/dt to `out`; return the loss where the kernel has it as a by-product."""

    def derivative(self, t: float, state: Floats) -> Floats:
        """d(state)/dt, a fresh (size,) array; the systems are autonomous, t is not used."""
        # Implicit solvers hand over columns of a matrix; the kernels are compiled for contiguous arrays only.
        if not state.flags.c_contiguous:
            state = np.ascontiguousarray(state)
        out = np.empty_like(state)
        self.write_rate(state, out)
        return out

    @abstractmethod
    def loss(self, state: Floats) -> float:
        """-sum_n p_n ln alpha_n[next], nats."""

    @abstractmethod
    def z_support(self, state: Floats) -> Floats:
        """Attention logits on classes.z_coordinates, (..., nz), of states (..., size)."""

    @abstractmethod
    def invariants(self, state: Floats) -> dict[str, Floats]:
        """Largest violation of each conserved quantity, (...), of states (..., size); 0 when kept exactly."""

    @abstractmethod
    def quantity(self, index: int) -> str:
        """Name of one state value, for messages."""

    def extra(self, state: Floats) -> dict[str, Floats]:
        """Further quantities this system carries, by name, (..., k), of states (..., size): h (S), B (1)."""
        return {}

    def decoder(self, state: Floats) -> Floats:
        """Decoder logits Y, (rows, columns), in the compressed form of `decoder_ids`."""
        raise InputError(f"expected a system that carries Y, received {self.name}; use MeanField or FrozenDecoder")

    def decoder_ids(self) -> tuple[Ints, Ints]:
        """(row of Y for each token id, -1 if none; output id of each column, -1: every other output)."""
        raise InputError(f"expected a system that carries Y, received {self.name}; use MeanField or FrozenDecoder")

    def __repr__(self) -> str:
        listed = ", ".join(f"{key}={value!r}" for key, value in self.parameters.items())
        return f"{self.name}({self.classes!r}, {listed})"


def checked_classes(classes: Any) -> SequenceClasses:
    """Return `classes` after checking its type."""
    if not isinstance(classes, SequenceClasses):
        raise InputError(
            f"expected SequenceClasses, received {type(classes).__name__}; build it with SequenceClasses(P, query)"
        )
    return classes


def z_row_sums(layout: Layout, z_slots: Floats, start: Floats) -> Floats:
    """Largest |sum_l (z_ml - z_ml(0))| over queries m, (...), from logits on the slots (..., num_slots)."""
    first_slots = np.flatnonzero(np.diff(layout.slot_query, prepend=-1))
    change = layout.slot_multiplicity * (z_slots - start)
    return np.abs(np.add.reduceat(change, first_slots, axis=-1)).max(axis=-1)


def require_one_class_per_next_token(classes: SequenceClasses, name: str) -> None:
    """Raise when several classes share a next token: the modified flow (8) is defined without that."""
    if classes.next_tokens.size != classes.num_classes:
        raise InputError(
            f"expected classes with different next tokens for {name} (Eq. 8 decouples one row per next token), "
            f"received {classes.num_classes} classes for {classes.next_tokens.size} next tokens; use MeanField"
        )
