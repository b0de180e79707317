"""Formulas in plain text, such as eta_Z << eta_Y, as mathtext."""

from __future__ import annotations

import re

_WORDS = {
    "eta_Y": r"\eta_Y",
    "eta_Z": r"\eta_Z",
    "lambda_1": r"\lambda_1",
    "rho": r"\rho",
    "mu": r"\mu",
    "sqrt": r"\sqrt",
    "f_n": "f_n",
    "f_k": "f_k",
}
_SIGNS = {"<<": r"\ll", ">>": r"\gg", "<=": r"\leq", ">=": r"\geq", "<": "<", ">": ">", "=": "="}
# A formula: letters, numbers and signs of which at least one is a sign of mathematics, or a name of _WORDS.
_ATOM = r"(?<![A-Za-z_])(?:\d+(?:\.\d+)?(?:e-?\d+)?|eta_[YZ]|lambda_1|rho|mu|sqrt|f_[nk]|[A-Zhit])(?![A-Za-z_])"
_FORMULA = re.compile(
    rf"[|(]*{_ATOM}[|)]*(?:(?: ?(?:<<|>>|<=|>=|[<>=]) | ?[-+*/^.(|)]+ ?| ){{0,1}}[|(]*{_ATOM}[|)]*)*[|)]*"
)


def as_mathtext(text: str) -> str:
    """Return a text with its formulas as mathtext.

    Parameters
    ----------
    text : str

    Returns
    -------
    str
        Numbers and words outside formulas stay as they are.

    Examples
    --------
    >>> as_mathtext("printed: eta_Z << eta_Y, read as 1/10")
    'printed: $\\\\eta_Z \\\\ll \\\\eta_Y$, read as 1/10'
    >>> as_mathtext("|lambda_1(E)| K")
    '$|\\\\lambda_1(E)|\\\\,K$'
    """
    return text if "$" in text else _FORMULA.sub(lambda found: _formula(found[0]), text)


def _formula(text: str) -> str:
    if not re.search(r"[A-Za-z]", re.sub(r"\de-?\d", "", text)):
        return text  # a number
    found = text.strip()
    found = re.sub(r"sqrt\(([^)]*)\)", r"sqrt{\1}", found)
    found = re.sub(r"\b1e(\d+)", r"10^{\1}", found)
    found = re.sub("|".join(map(re.escape, sorted(_WORDS, key=len, reverse=True))), lambda word: _WORDS[word[0]], found)
    found = re.sub(r"(?<=[\w)}|]) (?=[\\\w(|])", r"\\,", found)
    found = re.sub("<<|>>|<=|>=|<|>|=", lambda sign: _SIGNS[sign[0]], found)
    return f"${found}$"
