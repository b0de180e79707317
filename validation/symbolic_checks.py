"""Checks of claims that rest on a symbolic derivation."""

from __future__ import annotations

from snapdyn.validation.checks import Check


def symbolic(*ids: str) -> Check:
    """Check that sympy leaves no residual of the derivations `ids`."""
    from snapdyn.analytic.symbolic import derivation_of

    open_residuals = sum(value != 0 for id_ in ids for value in derivation_of(id_).verify().values())
    return Check(f"residuals sympy cannot bring to zero ({', '.join(ids)})", "symbolic", open_residuals, 0)


def symbolic_printed(id_: str, name: str) -> Check:
    """Control: the printed right-hand side in the same derivation must leave a residual."""
    from snapdyn.analytic.symbolic import derivation_of

    derivation = derivation_of(id_)
    if derivation.printed is None:
        raise ValueError(f"expected derivation {id_!r} to carry a printed form, received none")
    open_residuals = sum(value != 0 for value in derivation.verify(derivation.printed).values())
    return Check(name, "symbolic", open_residuals, 0, role="control")
