"""Residuals of the symbolic derivations on which claims rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdyn.errors import InputError, shown, text

if TYPE_CHECKING:
    from snapdyn.analytic.symbolic.derivation import Derivation


def residuals(*ids: str) -> int:
    """Number of residuals of the derivations `ids` that sympy cannot bring to zero."""
    return sum(value != 0 for id_ in ids for value in _derivation(id_).verify().values())


def printed_residuals(id_: str) -> int:
    """Number of residuals that the printed right-hand side leaves in the derivation `id_`."""
    derivation = _derivation(id_)
    if derivation.printed is None:
        raise InputError(f"expected derivation {id_!r} to carry a printed form, received none; take another one")
    return sum(value != 0 for value in derivation.verify(derivation.printed).values())


def _derivation(id_: str) -> Derivation:
    from snapdyn.analytic.symbolic import derivation_of

    try:
        return derivation_of(text("the id of a derivation", id_))
    except KeyError:
        raise InputError(
            f"expected the id of a derivation, received {shown(id_)}; snapdyn.analytic.symbolic.derivations() has all"
        ) from None
