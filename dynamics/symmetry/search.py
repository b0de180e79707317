"""The search for a balanced colouring, made once for all systems of the same classes and pattern of starts."""

from __future__ import annotations

from collections.abc import Hashable

from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.dynamics.memory import fits, require_memory
from snapdyn.dynamics.symmetry.colouring import Colouring, balanced_colouring, has_equivalent_classes
from snapdyn.dynamics.symmetry.pairs import Incidence

# The systems whose attention moves share a colouring: `finite_length` and `modified_decoder` say why it serves them.
MOVING, FROZEN = "moving", "frozen"
BYTES_PER_PAIR = 160  # of the search, per pair of an output and a class, row or entry; measured


def colouring_of(
    classes: SequenceClasses,
    kind: Hashable,
    incidence: Incidence,
    start: Floats,
    pattern: bytes,
    at_most: float | None,
    most: float | None = None,
) -> Colouring | None:
    """The coarsest colouring, or what an earlier search found.

    Parameters
    ----------
    classes : SequenceClasses
        They keep what is found.
    kind : hashable
        What tells the sums from other sums over the same classes: MOVING (or FROZEN) attention and whether there is a
        residual connection.
    incidence : Incidence
    start : array
        Logits at t = 0, one for each slot.
    pattern : bytes
        `start_pattern` of the logits of all tokens.
    at_most : float or None
        Share of the values that may remain. The search then begins only where half of the classes have an equivalent
        one, and where it fits into the free memory. None: always.
    most : float, optional
        Number of colours of z and Y at which to give up.

    Returns
    -------
    Colouring or None
        None after giving up.

    Raises
    ------
    InputError
        With `at_most` None: the search does not fit into memory.
    """
    most_pairs = max(incidence.prior.size, incidence.num_rows, incidence.entry_row.size)
    need = float(BYTES_PER_PAIR * incidence.num_columns * most_pairs)
    if at_most is None:
        require_memory("the search for symmetries", need, "reduce=False")
    elif not fits(need):
        return None

    def search() -> Colouring | None:
        likely = at_most is None or has_equivalent_classes(incidence, start)
        return balanced_colouring(incidence, start, most) if likely else None

    return classes.kept.get_or_make(("colouring", kind, at_most, most), pattern, search)
