"""What sympy and interval arithmetic show of a claim, as numbers against bounds: what is left open is 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from snapdyn.errors import InputError, choice, shown
from snapdyn.validation.measured import Measured, Role
from snapdyn.validation.register import Claim

# Rungs of proofs, whose numbers are counts.
SYMBOLIC, CERTIFIED = "symbolic", "interval proof"


def proofs_of(entry: Claim) -> Iterator[Measured]:
    """Give the numbers of a claim's derivations and interval proofs, with what must be rejected as controls.

    They show the corrected statement where the claim corrects the printed one.
    """
    role: Role = "corrected" if entry.expected == "corrected" else "statement"
    if entry.proved:
        yield from _derived(entry.proved, role)
    for id_ in entry.certified:
        yield from _certified(id_, role)


def _derived(ids: tuple[str, ...], role: Role) -> Iterator[Measured]:
    from snapdyn.analytic.symbolic import derivation_of

    try:
        found = [derivation_of(id_) for id_ in ids]
    except KeyError as error:
        raise InputError(
            f"expected ids of derivations, received {shown(error.args[0])}; snapdyn.analytic.symbolic.derivations() "
            "has all"
        ) from None
    left = sum(_nonzero(derivation.verify()) for derivation in found)
    name = f"residuals sympy cannot bring to zero ({', '.join(ids)})"
    yield Measured(left, at_most=0).labelled(role, name, SYMBOLIC)
    for derivation in found:
        if derivation.printed is not None:
            rejected = _nonzero(derivation.verify(derivation.printed))
            name = f"{derivation.id} as printed, residuals in sympy"
            yield Measured(rejected, at_most=0).labelled("control", name, SYMBOLIC)


def _certified(id_: str, role: Role) -> Iterator[Measured]:
    from snapdyn.analytic.certificates import CERTIFICATES, prove

    choice("the id of a certificate", id_, CERTIFICATES)
    statement = CERTIFICATES[id_]
    found = statement.run()
    left = sum(not proof.proved for proof in found.proofs)
    place = f"; {found.failing}" if found.failing else f", {found.boxes} sub-boxes"
    name = f"inequalities that the interval proof {id_} leaves open{place}"
    yield Measured(left, at_most=0).labelled(role, name, CERTIFIED)
    for wrong in statement.wrong:
        proof = prove(wrong)
        yield Measured(not proof.proved, at_most=0).labelled("control", f"false inequality: {proof}", CERTIFIED)


def _nonzero(residuals: Mapping[str, Any]) -> int:
    return sum(value != 0 for value in residuals.values())
