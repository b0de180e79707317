"""How results are written: mathematics in plain sentences (eta_Y <= 1e-3), and small tables that notebooks show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eps": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "Wbar": "W̄", "wbar": "w̄", "chi": "χ", "psi": "ψ", "omega": "ω",
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Omega": "Ω",
}  # fmt: skip
SIGNS = {
    "<=": "≤", ">=": "≥", "!=": "≠", "<<": "≪", ">>": "≫", "=>": "⇒", "->": "→", "+-": "±", "...": "…", "..": "…",
}  # fmt: skip
NAMES = "|".join(sorted(GREEK, key=len, reverse=True))
INDEX = r"\{[^{}]*\}|[A-Za-z0-9]+'?|[-+](?![\w.])"
POWER = r"\{[^{}]*\}|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[-+]?\d+(?:\.\d+)?|[A-Za-z]+"
PIECES = re.compile(
    rf"""
    (?P<reading>(?<![A-Za-z])\([a-d]\))                                     # (a) of Theorem 1
  | (?<!\w)(?<!\d\.)(?P<mantissa>\d+(?:\.\d+)?)e(?P<sign>[-+]?)0*(?P<exponent>\d+)(?!\w|\.\d)
  | (?P<sqrt>(?<![A-Za-z_])sqrt(?![A-Za-z_])\s?)
  | (?<![A-Za-z_])(?P<big>sum|max|min)_(?P<range>{INDEX})
  | (?P<integral>(?<![A-Za-z_])int(?![A-Za-z_]))
  | (?<![A-Za-z_'’])(?<!\b[a-z]\.)
    (?P<base>{NAMES}|d[a-z](?=_)|[A-Za-z])(?P<tilde>~?)(?P<digits>(?:(?<=[a-zC])\d)?)(?P<prime>'?)(?P<star>\*?)(?:_(?P<index>{INDEX}))?
    (?![A-Za-z]|\d|_[A-Za-z]|\.[a-z](?![a-z_]))
  | (?<=[)\]])_(?P<late>{INDEX})
  | \^(?P<power>{POWER})
  | (?P<dot>(?<=\w)\.(?=[a-z]_))
  | (?P<minus>(?<![\w)])-(?=\d)|(?<=[\s(])-(?=[\sA-Za-z|])|(?<=(?<![A-Za-z])[A-Z])-(?=[A-Z\d])|(?<=\b1)-(?=[A-Za-z|]))
  | (?P<equals>[ ]=[ ](?=[-+\d.]))
  | (?P<operator>{"|".join(re.escape(sign) for sign in SIGNS)})
    """,
    re.VERBOSE,
)
# Articles, the pronoun and numeral I, and the sign O(...) of orders stay upright. A, a and I are variables where these
# cannot stand: beside a sign or between variables, and "a" also before a word that follows nouns and at a clause's end.
UPRIGHT = frozenset("aAIO")
LETTER = rf"(?:{NAMES}|[A-Za-z])(?![A-Za-z'’-])"
AFTER_SIGN = re.compile(rf"(?:(?:[\[(+*/=<>|^]|(?<!\w)-)\s?|(?<![\w'’]){LETTER} |\d )$")
BEFORE_SIGN = re.compile(r"[\^'*/|\]([]| ?(?:[+*/=<>!]|-[ >])")
BEFORE_WORD = re.compile(
    r" (?:is|are|was|be|and|or|in|at|of|to|on|by|with|from|for|as|has|than|that|which|where|when|if|but|over|under|"
    r"above|below|between|grows|falls|goes|tends|times|plus|minus|equals|exceeds|vanishes|stays|does)\b(?!-)"
)
LETTER_AFTER, CLAUSE_ENDS = re.compile(f" {LETTER}"), re.compile(r"\s*(?:$|[,;:)]|\.(?!\w))")

Piece = tuple[str, str]  # "text", "italic", "sub" or "sup", and its characters


def pieces(text: str) -> Iterator[Piece]:
    """Cut a text into plain, italic, lowered and raised pieces."""
    end = 0
    for match in PIECES.finditer(text):
        yield "text", text[end : match.start()]
        yield from _piece(match)
        end = match.end()
    yield "text", text[end:]


def _piece(match: re.Match[str]) -> Iterator[Piece]:
    found = match.groupdict()
    if found["mantissa"]:
        yield "text", "10" if found["mantissa"] == "1" else f"{found['mantissa']}·10"
        yield "sup", found["sign"].replace("-", "−").replace("+", "") + found["exponent"]
    elif found["sqrt"]:
        yield "text", "√"
    elif found["big"]:
        yield "text", {"sum": "∑"}.get(found["big"], found["big"])
        yield "sub", _inner(found["range"])
    elif found["integral"]:
        yield "text", "∫"
    elif found["base"]:
        base = GREEK.get(found["base"], found["base"]) + ("\u0303" if found["tilde"] else "")
        yield ("text" if found["base"] in UPRIGHT and not found["index"] and not _variable(match) else "italic"), base
        if found["digits"]:
            yield "sub", found["digits"]
        yield "text", "′" if found["prime"] else ""
        if found["star"]:
            yield "sup", "*"
        if found["index"]:
            yield "sub", _inner(found["index"])
    elif found["late"]:
        yield "sub", _inner(found["late"])
    elif found["power"]:
        power = found["power"]
        yield "sup", _inner(power[1:-1] if power[0] == "(" else power)
    else:
        signs = {"dot": "·", "minus": "−", "equals": "\u00a0=\u00a0"}
        kind = match.lastgroup or "reading"
        yield "text", signs.get(kind, SIGNS.get(match[0], match[0]))


def _variable(match: re.Match[str]) -> bool:
    """Whether an A, a or I is a variable, to judge by its neighbours."""
    letter, before, after = match["base"], match.string[: match.start()], match.string[match.end() :]
    if letter == "O":
        return False
    if match["prime"] or match["digits"] or BEFORE_SIGN.match(after):
        return True
    if AFTER_SIGN.search(before) and (LETTER_AFTER.match(after) or CLAUSE_ENDS.match(after)):
        return True
    begins = not before and re.match(r" [a-z](?![a-z-])", after)  # "a b = c", not "a K x K table"
    return letter == "a" and bool(begins or BEFORE_WORD.match(after) or CLAUSE_ENDS.match(after))


def _inner(text: str) -> str:
    """Return an index or a power as characters, without indices of its own."""
    inner = text[1:-1] if text[:1] == "{" else text
    inner = re.sub(rf"(?<![A-Za-z])({NAMES})(?![a-z])", lambda match: GREEK[match[1]], inner)
    for sign, character in (*SIGNS.items(), ("^2", "²"), ("^4", "⁴"), ("_", "")):
        inner = inner.replace(sign, character)
    return inner.replace("'", "′").replace("-", "−")


def as_mathtext(text: str) -> str:
    """Return a text with its mathematics as mathtext; a text that has mathtext already is returned unchanged.

    Examples
    --------
    >>> as_mathtext("eta_Z << 1e-3")
    '$\\\\mathit{η}_{\\\\mathrm{Z}}$ ≪ 10$^{\\\\mathrm{−3}}$'
    """
    if "$" in text:
        return text
    shapes = {
        "italic": "$\\mathit{{{}}}$",
        "sub": "$_{{\\mathrm{{{}}}}}$",
        "sup": "$^{{\\mathrm{{{}}}}}$",
        "text": "{}",
    }
    return "".join(shapes[kind].format(part) for kind, part in pieces(text) if part).replace("$$", "")


def html_table(title: str, rows: Mapping[str, Any]) -> str:
    """HTML table of two columns, names and values, under a title.

    Parameters
    ----------
    title : str
    rows : mapping of str to anything
        A value is shown as text, a float with six digits.

    Returns
    -------
    str
    """
    left = 'style="text-align:left"'
    cells = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(_shown(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{cells}</table>"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
