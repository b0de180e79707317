"""Residuals of the symbolic derivations on which claims rest."""

from __future__ import annotations


def residuals(*ids: str) -> int:
    """Number of residuals of the derivations `ids` that sympy cannot bring to zero."""
    from snapdyn.analytic.symbolic import derivation_of

    return sum(value != 0 for id_ in ids for value in derivation_of(id_).verify().values())


def printed_residuals(id_: str) -> int:
    """Number of residuals that the printed right-hand side leaves in the derivation `id_`."""
    from snapdyn.analytic.symbolic import derivation_of

    derivation = derivation_of(id_)
    if derivation.printed is None:
        raise ValueError(f"expected derivation {id_!r} to carry a printed form, received none")
    return sum(value != 0 for value in derivation.verify(derivation.printed).values())
