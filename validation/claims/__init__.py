"""The claims, one file per family of statements. Take the filled register from here."""

from __future__ import annotations

import os

from snapdyn.dynamics.user_files import load_file
from snapdyn.validation.claims import (
    assumption_2,
    attention,
    clocks,
    common_tokens,
    concentration,
    correlation,
    decoder,
    gains,
    gradient,
    ladder,
    orders,
    priors,
    published,
    readings,
    remark_1,
    reparameterisation,
    speed,
    stages,
    theorem_1,
    theorem_1a,
    theorem_5,
    transition,
)
from snapdyn.validation.register import CLAIMS, claim

__all__ = ["CLAIMS", "claim", "load_claims"]

# The order of the register.
FAMILIES = (
    gradient,
    decoder,
    speed,
    remark_1,
    concentration,
    theorem_5,
    correlation,
    assumption_2,
    theorem_1a,
    attention,
    common_tokens,
    gains,
    transition,
    stages,
    readings,
    priors,
    theorem_1,
    clocks,
    orders,
    ladder,
    reparameterisation,
    published,
)
_NAMES = [family.__name__ for family in FAMILIES]
CLAIMS.declare(sorted(CLAIMS.values(), key=lambda entry: _NAMES.index(entry.run.__module__)))


def load_claims(path: str | os.PathLike[str]) -> list[str]:
    """Run a user's Python file, which adds claims to the register, and return their ids.

    Parameters
    ----------
    path : str or os.PathLike
        The file. It may import modules that lie beside it, and register entries of other kinds as well. Loading a
        file again replaces its entries.

    Returns
    -------
    list of str
        Ids of the file's claims.

    Raises
    ------
    InputError
        As `snapdyn.dynamics.user_files.load_file`; the register is then as it was.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from snapdyn.validation import CLAIMS, load_claims
    >>> text = '''
    ... import snapdyn as sd
    ... @sd.claim("eight", source="own", title="Eight", statement="8 is less than 9.")
    ... def eight(level):
    ...     return sd.Evidence([sd.Check("eight", "arithmetic", 8.0, 9.0)])
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "my_claims.py"
    ...     _ = file.write_text(text)
    ...     load_claims(file)
    ['eight']
    >>> del CLAIMS["eight"]
    """
    return load_file(path).get(CLAIMS.kind, [])
