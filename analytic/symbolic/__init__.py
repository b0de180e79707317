"""Symbolic derivations of the theory's formulas, verified by sympy, and the exact gradient of the loss."""

from snapdyn.analytic.symbolic import (
    attention,
    decoder,
    loss_gradient,
    orbit,
    overlapping_decoder,
    rules,
    speed,
    stages,
    theorem_1,
    transition,
)
from snapdyn.analytic.symbolic.derivation import DECLARED, Derivation, declare
from snapdyn.analytic.symbolic.loss_gradient import gradient

__all__ = ["Derivation", "declare", "derivation_of", "derivations", "gradient", "ids_of_users"]

# Modules in the order of the paper's appendix; each declares its derivations in the same order.
MODULES = (
    loss_gradient,
    decoder,
    speed,
    stages,
    theorem_1,
    attention,
    orbit,
    transition,
    overlapping_decoder,
    rules,
)
_BUILDERS = {id_: build for module in MODULES for id_, build in DECLARED.items() if build.__module__ == module.__name__}


def derivation_of(id_: str) -> Derivation:
    """Return one derivation by its id: one of snapdyn, or one that a user's file declares.

    Parameters
    ----------
    id_ : str
        Id of the derivation, such as "h-closed".

    Returns
    -------
    Derivation

    Raises
    ------
    KeyError
        If `id_` is unknown.

    Examples
    --------
    >>> from snapdyn.analytic.symbolic import derivation_of
    >>> derivation_of("entry-bound").statement
    Eq(\\max |E'_{kn}|, 1/(K - 1))
    >>> derivation_of("entry-bound").verify()
    {'|lambda_1|/(1-|lambda_1|)': 0}
    """
    return DECLARED[id_]()


def derivations() -> tuple[Derivation, ...]:
    """Return every derivation, in the order of the paper's appendix.

    Returns
    -------
    tuple of Derivation

    Examples
    --------
    >>> from snapdyn.analytic.symbolic import derivations
    >>> [derivation.id for derivation in derivations()][:3]
    ['sequence-gradient', 'sequence-counts', 'decoder-gradient']
    """
    return tuple(build() for build in _BUILDERS.values())


def ids_of_users() -> tuple[str, ...]:
    """Return the ids of the derivations that users' files have declared, in the order of their declaration.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from snapdyn.analytic.symbolic import ids_of_users
    >>> "h-closed" in ids_of_users()
    False
    """
    return tuple(id_ for id_ in DECLARED if id_ not in _BUILDERS)
