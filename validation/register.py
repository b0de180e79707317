"""The register of claims: frozen values, with their source, statement, properties and expected verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from snapdyn.dynamics.files.user_files import file_being_loaded
from snapdyn.errors import InputError, choice, function, instance, list_of, optional_function, text, unknown_name, whole
from snapdyn.registry import Registry
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property

Verdict = Literal["holds", "corrected", "conditional", "refuted"]
# Where recomputation and print disagree, one sentence each.
FINDINGS: dict[str, str] = {
    "F1": "The printed B_n of (14), (124) and (129)-(131) is not 0 at t = 0: the integral from 0 gives (1/4) ln(1 + "
    "4 Gamma/C0), which lacks (1/4) ln C0; they agree only for C0 = 1.",
    "F2": "Remark 1 needs K = V, and a factor less: there w_n = (V-1) h(t/K) zeta_n with h at rate (1-rho) eta_Y and "
    "no prefactor, and beta/iota = 1/(V-1).",
    "F3": "Theorem 4's premise (13) contradicts (98)-(100): conservation shares the common token's fall among the K "
    "classes, so the printed growth exponent is K^2/(K-1) times too large while it is small, and K + 1/m times in the "
    "limit, m the number of most frequent distinct tokens (leading beta).",
    "F4": "The modified decoder is a small change in norm but not for attention: its beta is of the order of the "
    "overlap, that of the original flow of order 1/(V-1).",
    "F5": "(88) has a wrong sign: + q0 (1 + sum E') must be - q0 (1 - sum E'); with the right one xi_n > 0 for "
    "|lambda_1| <= 1/sqrt(K-2), without the lower bound of Assumption 2.",
    "F6": "Assumption 2 needs V > 36 K^2 (|lambda_1|/min|lambda|)^2: at least 36 K^2 for any classes, so that V = 10 "
    "K^2 never does, and 36 K^2 (K-1)^2 with equal overlaps, far more than V >> K^2.",
    "F7": "Eq. (10) is printed without p_n, on a clock that counts rounds, while gamma and Theorem 4 use t/K.",
    "F8": "Theorem 1(b) and Section 6 print ln(eta_Y t/K) where Lemma 9 has ln(V eta_Y t/K).",
    "F9": "(112) lacks a factor 2: dr/dt = 2 r(0) chi dz/dt.",
    "F10": "Theorem 2(a) can fail in the full mean field: when attention moves, Y remembers old attention, and late "
    "logits of distinct tokens can fall.",
    "F11": "Remark 2's late gap h* - h is not 2 eta_Y s0/(V s): it is [ln(eta_Y s)/2 + eta_Y (1/24 + 1/(8V))]/(V s).",
    "F12": "Figure 3's axis reaches 600, but from its own start exp(2 B) by (14) grows at most 143 times over all "
    "rho0 >= 1, and the consistent form at most 1.63 times.",
    "F13": "The lower bound in (93) needs 1 + |lambda_1| where 1 - |lambda_1| is printed; with it the step to 1/2 and "
    "xi_n > 0 stand.",
    "F14": "The condition of (132) falls with nu and lacks K and C0: with nu = eta_Y/eta_Z, as defined before (130), "
    "it is t >> (K/(V eta_Y)) exp(sqrt(nu C0/(2K))); the printed one is that of nu = eta_Z/eta_Y, as Fig. 9's "
    "caption has it, against its panels.",
    "F15": "The proof of Lemma 7(b) leaves every gap epsilon <= ln(2)/V open, whatever eta_Y: its s0' asks for "
    "h(s+1) - h(s) <= epsilon - ln(2)/V, which is at most 0 there. It is empty for eta_Y <= ln(2)/2, where "
    "epsilon <= 2 eta_Y/V allows no larger gap; epsilon/2 on the right repairs it.",
    "F16": "The second inequality of (58) is not true for every N and delta: it needs N ln(2/delta) > 6 + 4 sqrt(2) = "
    "11.7, which N >= 17 ensures.",
    "F17": "The text after (30) says that the added -F E' e_n lowers the learning rate; by (40)-(43) it raises it, "
    "from (1-rho) eta_Y to eta_Y.",
    "F18": "Appendix D.1 defines E' as (I+E)^{-1} - I; (28), Lemma 14 and all that follows need I - (I+E)^{-1}.",
}
# The symbols of the formulas, for the report and the site: LaTeX, and its meaning, with its shape.
SYMBOLS: dict[str, str] = {
    "V": "number of outputs of the decoder (M in the paper)",
    "M": "number of contextual token ids",
    "K": "number of sequence classes, each with its own next token",
    "Q": "number of query (last) tokens",
    "T": "sequence length: T-1 contextual tokens and the query",
    "t": "steps of SGD with batch size 1",
    "s": "visits of a class: steps that draw it, about p_n t",
    r"\eta_Y,\ \eta_Z": "learning rates of decoder and attention, per step of batch size 1",
    r"P(l\mid n)": "probability of contextual token l in class n, (K, M); rows sum to 1",
    r"\psi(n)": "query token of class n, (K)",
    "p_n": "probability of class n, (K); 1/K in the paper",
    "Y": "decoder logits, (M, V)",
    "z_m": "attention logits of query m, (M); rows of Z",
    "c_n": "attention of class n to its tokens, (M)",
    "f_n": "c_n over its 2-norm: the decoder's input, (M); f_nc is the entry of the common token",
    r"\alpha_n": "predicted probabilities of class n, (V): softmax of w_n",
    "w_n": "logits of class n, (V): Y^T f_n",
    r"\zeta_n": "direction of w_n, (V): V/(V-1) (e_n - 1/V)",
    "h": "size of the decoder after s visits: w_n = (V-1) h zeta_n when the classes are decoupled",
    "E,\\ E'": "overlaps E_nk = f_n.f_k, 0 on the diagonal, and E' = I - (I+E)^-1, (K, K)",
    r"\lambda_1": "eigenvalue of E that is largest in absolute value",
    r"\gamma,\ \Gamma": "speed of attention, (V-1)^2 h/(V-1+exp(V h)), and eta_Z times its integral up to t",
    "q_1,\\ q_0": "V/(V-1) and -V/(V-1)^2: zeta_n.zeta_k of equal and of different classes",
    r"\iota_n,\ \beta_{nk}": "coefficients of the gradient: Y (e_n - alpha_n) = gamma (iota_n f_n - sum_k beta_nk f_k)",
    r"\xi_n": "drive of the distinct tokens of class n: gamma sum_k beta_nk f_n.f_k",
    "m_n(t',t)": "memory of the decoder: eta_Y p_n times the product of e_n - alpha_n at t' and at t, at least 0",
    "U_n": "progress of class n: eta_Y p_n times the integral of 1 - alpha_n at its next token",
    "u_-,\\ u_+": "roots of exp(u) = (V-1) u, u_+ = (1+omega_1) ln V; u stands for V h",
    "t_0',\\ t^*,\\ t_0": "times K ln(V)/eta_Y, of the peak of gamma, and 2 u_+ K/eta_Y: (14) has its early form up to "
    "t0' and its late form from t0 on",
    r"\chi_l": "growth factor of token l: exp(2 (z_l(t) - z_l(0)))",
    "B_n": "growth exponent of class n: eta_Z times the integral of p_n xi_n up to t",
    r"\rho_0": "2-norm of P(.|n) over its entry of the common token, P(l_c|n)",
    "C_0": "rho0^4/K, in the printed growth exponent",
    r"\bar w": "concentration of the distinct tokens: sum of w_l^2, w_l = p_l^2/sum p^2 (1/m for m equal ones)",
}
# How a claim is known, from the strongest to the weakest.
Grade = Literal["proved", "certified", "searched", "measured"]
GRADES: tuple[Grade, ...] = get_args(Grade)


# First words of sources, as papers rank their statements; "": other sources.
KINDS = ("Theorem", "Corollary", "", "Assumption", "Lemma", "Remark")


@dataclass(frozen=True)
class Headline:
    r"""Print and recomputation as formulas, for the first screen of the report.

    Attributes
    ----------
    rank : int
        Place among the headlines, from 1.
    printed : str
        What the paper prints, as LaTeX.
    recomputed : str
        What holds instead, as LaTeX.

    Raises
    ------
    InputError
        A formula that is no text, or a rank that is no whole number from 1.

    Examples
    --------
    >>> from snapdyn.validation.register import Headline
    >>> Headline(1, r"\gamma=O(1/t)", r"\gamma=O(\ln(t)/t)").rank
    1
    """

    rank: int
    printed: str
    recomputed: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", whole("rank", self.rank, 1))
        text("printed", self.printed)
        text("recomputed", self.recomputed)


@dataclass(frozen=True)
class Claim:
    """An entry of the register: a statement as data.

    Attributes
    ----------
    id : str
        Name of the claim, for `validate` and the command line.
    source : str
        Where the statement stands: paper, equation, version; or "own".
    title : str
        One line for lists.
    statement : str
        The statement in words.
    latex : str
        The statement as a formula.
    conditions : tuple of str
        What the statement presupposes, in words.
    conclusion : str
        What was found; its first sentence answers the title. ``{name}`` or ``{name:format}`` inserts the number
        measured at the case, or worst in the domain of the property, of that name.
    expected : "holds", "corrected", "conditional" or "refuted"
        Verdict that the register states; another one counts as a difference.
    properties : tuple of Property
        The statement as properties of one instance: their domains are searched, their cases measured, and
        `snapdyn.check` answers for a user's instance. Those of the rung "mean field", or else of the first one's
        rung, give the answer.
    proved : tuple of str
        Ids of derivations (`snapdyn.analytic.symbolic`) whose residuals sympy brings to zero; where one has a printed
        form, sympy must reject that.
    certified : tuple of str
        Ids of interval proofs (`snapdyn.analytic.certificates`), with their false inequalities as controls.
    picture : callable or None
        ``picture()`` gives the Picture that shows the claim.
    map : callable or None
        ``map(level)`` gives the Map of where the statement holds.
    findings : tuple of str
        Ids of `FINDINGS` that the claim shows.
    headline : Headline or None
        Print and recomputation as formulas, for the first screen of the report.
    grade : "proved", "certified", "searched" or "measured"
        How the statement is known; default "searched" where a property has a domain, else "measured".
    run : callable or None
        ``run(evidence)`` adds what a function of the user measures (`claim`).
    chapter : str
        Folder of a claim of the package; empty for others.
    file : str
        The user's file that the claim was loaded from; empty for others.

    Raises
    ------
    InputError
        An attribute of another kind, an unknown verdict or grade.

    Examples
    --------
    >>> import snapdyn as sd
    >>> squares = sd.Property(
    ...     "x^2 over |x|", "arithmetic", lambda p: sd.Measured(p["x"] ** 2 / abs(p["x"]), at_most=1.0),
    ...     sd.Box(x=(-1.0, 1.0)), controls={"wrong theory: x + 1": lambda p: sd.Measured(p["x"] + 1, at_most=1.0)},
    ... )
    >>> entry = sd.Claim("squares", "own", "Squares", "x^2 is at most |x| on [-1, 1].", properties=(squares,))
    >>> entry.grade, entry.domain
    ('searched', 'x -1 to 1')
    """

    id: str
    source: str
    title: str
    statement: str
    latex: str = ""
    conditions: tuple[str, ...] = ()
    conclusion: str = ""
    expected: Verdict = "holds"
    properties: tuple[Property, ...] = ()
    proved: tuple[str, ...] = ()
    certified: tuple[str, ...] = ()
    picture: Callable[[], Picture] | None = None
    map: Callable[[str], Map] | None = None
    findings: tuple[str, ...] = ()
    headline: Headline | None = None
    grade: Grade | None = None
    run: Callable[[Evidence], None] | None = None
    chapter: str = ""
    file: str = field(default_factory=file_being_loaded)

    def __post_init__(self) -> None:
        for name in ("id", "source", "title", "statement", "latex", "conclusion"):
            text(name, getattr(self, name))
        for name in ("conditions", "proved", "certified", "findings"):
            object.__setattr__(self, name, tuple(list_of(name, getattr(self, name), str)))
        given = [self.properties] if isinstance(self.properties, Property) else self.properties
        object.__setattr__(self, "properties", tuple(list_of("properties", given, Property)))
        for name in ("picture", "map", "run"):
            optional_function(name, getattr(self, name))
        if self.headline is not None:
            instance("headline", self.headline, Headline, "give a Headline, or None")
        choice("the expected verdict", self.expected, get_args(Verdict))
        if self.grade is None:
            searched = any(prop.domain is not None for prop in self.properties)
            object.__setattr__(self, "grade", "searched" if searched else "measured")
        choice("grade", self.grade, GRADES)  # type: ignore[arg-type]

    @property
    def place(self) -> tuple[int, int]:
        """Place in a list as papers have it: theorems, corollaries, what follows from them, assumptions, lemmas."""
        found = re.match(r"([A-Z][a-z]+) (\d+)", self.source)
        kind = found[1] if found and found[1] in KINDS else ""
        return KINDS.index(kind), int(found[2]) if found and kind else 0

    @property
    def is_auxiliary(self) -> bool:
        """Whether it is an assumption, a lemma or a remark."""
        return KINDS[self.place[0]] in ("Assumption", "Lemma", "Remark")

    @property
    def answer(self) -> str:
        """First sentence of the conclusion."""
        return first_sentence(self.conclusion)[0]

    @property
    def domain(self) -> str:
        """Of what the claim speaks: the domains and conditions of its properties, or the names of their cases."""
        texts = []
        for prop in self.properties:
            if prop.domain is not None:
                texts.append(str(prop.domain) + "".join(f"; {each.required}" for each in prop.conditions))
        named = [name for prop in self.properties if prop.domain is None for name in prop.settings()]
        if not texts and named:
            texts.append("; ".join(dict.fromkeys(named)))
        return " | ".join(dict.fromkeys(texts))


# Our own claims are in it once `snapdyn.validation.claims` has been imported; take it from there.
CLAIMS: Registry[Claim] = Registry("claim", lambda entry: entry.id)


def claim(id: str, **facts: Any) -> Callable[[Callable[[Evidence], None]], Callable[[Evidence], None]]:
    """Register the decorated function ``run(evidence)`` as a claim; it adds numbers to the `Evidence` that it receives.

    Parameters
    ----------
    id : str
        Name of the claim, for `validate` and the command line.
    **facts : dict
        Attributes of `Claim`: at least source, title and statement.

    Returns
    -------
    callable
        Decorator that returns the function unchanged.

    Raises
    ------
    InputError
        What `Claim` and `add_claim` raise.

    Examples
    --------
    >>> import snapdyn as sd
    >>> @sd.claim("seven", source="own", title="Seven", statement="7 is less than 8.")
    ... def seven(evidence):
    ...     evidence.holds("seven", "arithmetic", 7.0, at_most=8.0)
    ...     evidence.control("wrong theory: nine", "arithmetic", 9.0, at_most=8.0)
    >>> sd.validate("seven").claims[0].verdict
    'holds'
    >>> del sd.validation.CLAIMS["seven"]
    """
    text("the id of a claim", id)
    known = [entry.name for entry in fields(Claim) if entry.name not in ("id", "run", "chapter", "file")]
    for name in facts:
        if name not in known:
            raise unknown_name("attribute of a claim", name, known)
    missing = [name for name in ("source", "title", "statement") if name not in facts]
    if missing:
        raise InputError(f"expected {', '.join(missing)} of claim {id!r}, received none; give a text for each")

    def register(run: Callable[[Evidence], None]) -> Callable[[Evidence], None]:
        add_claim(Claim(id, run=function("a claim", run), **facts))
        return run

    return register


def add_claim(entry: Claim) -> None:
    """Add a claim to the register; it replaces one of the same id that was made in this process and in no file.

    A notebook's cell may so run again.

    Raises
    ------
    InputError
        The id is that of a claim of the package or of a file.
    """
    before = CLAIMS.get(entry.id)
    if before is not None and not (entry.chapter or entry.file or before.chapter or before.file):
        del CLAIMS[entry.id]
    CLAIMS.add(entry)


def first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence of a text, and the rest; "Eq. (10)" does not end one."""
    first, *rest = re.split(r"(?<=[.!?])(?<!Eq\.)(?<!Eqs\.)(?<!Fig\.)(?<!Sec\.)\s+(?=[A-Z(])", text, maxsplit=1)
    return first, "".join(rest)
