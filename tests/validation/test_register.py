"""The register: verdicts, their logic, and that a broken theory or a broken kernel is noticed."""

import pydoc
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.validation import CLAIMS, ClaimResult, load_claims
from snapdyn.validation.register import claim, first_sentence
from snapdyn.validation.verdicts import check_claim
from tests.validation.helpers import claim_of

# Every statement of the paper that the register must hold.
REQUIRED = {f"lemma{number}" for number in range(1, 19)} | {
    "remark1", "remark2", "assumption2", "theorem1-form", "theorem1a", "theorem1b", "theorem2a", "theorem2b",
    "corollary1", "corollary2", "theorem3-gain", "theorem3-bounds", "theorem4", "theorem5", "scanning", "snapping",
    "insight-a", "insight-b", "insight-c", "residual", "positional-prior", "initial-prior", "conservation", "clock",
}  # fmt: skip

# Claims whose check takes ten seconds or more: `make test-all` and `make report` check them.
LONG = {
    "adam-end", "adam-orders", "figure6", "insight-a", "orders", "slow-attention", "spurious-number", "theorem2b",
    "theorem3-bounds", "theorem3-gain",
}  # fmt: skip


def test_the_register_is_whole() -> None:
    """Assert every statement of the paper, and five headlines in order, where print fails or needs conditions.

    A conclusion begins with whole sentences: "Eq. (10)" ends none.
    """
    assert set(CLAIMS) >= REQUIRED
    chosen = [entry for entry in CLAIMS.values() if entry.headline]
    assert sorted(entry.headline.rank for entry in chosen) == [1, 2, 3, 4, 5]
    assert {entry.expected for entry in chosen} <= {"corrected", "conditional", "refuted"}
    assert all(entry.headline.printed != entry.headline.recomputed for entry in chosen)
    for entry in CLAIMS.values():
        assert len(entry.title) <= 90
        assert not entry.title.endswith(".")
        first, rest = first_sentence(entry.conclusion)
        for sentence in (first, first_sentence(rest)[0]):
            assert not sentence.endswith(("Eq.", "Eqs.", "Fig.", "Figs.", "Sec.", "App."))


# What only the formulas define. K, N, P, T, V, t, mu and the rates may stand in a title, which says what they are.
SYMBOL = re.compile(
    r"(?<!\w)(alpha|beta|gamma|Gamma|delta|epsilon|iota|lambda|omega|rho|theta|xi|chi|zeta|wbar|[BCUfhw])0?(_\w+)?(?!\w)|E'"
)


def test_titles_and_findings_are_free_of_symbols() -> None:
    """Assert that titles and the plain sentences of findings use no symbol that only the formulas define."""
    for wrong in ("B_n = (1/4) ln(C0 + 4 Gamma)", "E' is small", "beta", "f_n.f_k", "its size h*", "1 - U_n", "wbar"):
        assert SYMBOL.search(wrong), wrong
    for entry in CLAIMS.values():
        for text in (entry.title, entry.headline.plain if entry.headline else ""):
            assert not SYMBOL.search(text), text


@pytest.mark.parametrize(
    "id_",
    [
        pytest.param(id_, id=f"{entry.chapter}/{id_}", marks=[pytest.mark.long] * (id_ in LONG))
        for id_, entry in CLAIMS.items()
    ],
)
def test_each_claim_has_its_verdict(checked: Callable[[str], ClaimResult], id_: str) -> None:
    """Assert the verdict that the register states, on evidence that can fail, in one sentence; `passed` in JSON.

    `passed` of a control says that the wrong theory was rejected. What holds somewhere only comes with a map of where.
    """
    result = checked(id_)
    assert (result.verdict, result.fault) == (result.claim.expected, "")
    roles = [check.role for check in result.checks]
    assert {"statement", "control"} <= set(roles)
    assert all(not check.holds for check in result.checks if check.role == "control")
    picture = result.evidence.picture
    assert picture is None or all(np.isfinite(line.y).all() for line in picture.lines)
    assert result.evidence.map or result.claim.expected != "conditional"
    assert result.claim.latex
    assert result.sentence.endswith(".")
    assert len(result.sentence) <= 160
    written = result.to_dict()
    assert {"id", "source", "title", "verdict", "checks"} <= set(written)
    for check in written["checks"]:
        assert {"name", "rung", "measured", "bound", "passed"} <= set(check)
        assert check["role"] != "control" or check["passed"] is True


def scaled(factor: float) -> Callable[[Any], Any]:
    """From a function to one whose values are off by a factor."""
    return lambda right: lambda *args, **options: right(*args, **options) * factor


# Claim, what is replaced below snapdyn, and by what.
WRONG: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("lemma1", "dynamics.MeanField.derivative", scaled(1 + 1e-6)),
    ("lemma6", "analytic.h", lambda right: lambda s, eta_Y, vocab_size: right(s, 1.001 * eta_Y, vocab_size)),
    ("lemma9", "analytic.gamma", lambda right: lambda t, eta, V, K: right(t, eta, V, K) * np.log(V)),
    ("lemma14", "validation.claims.correlation.lemma13_14_15.e_prime", lambda right: lambda E: right(2 * E)),
    ("lemma16", "validation.claims.correlation.lemma16_17.e_prime", lambda right: lambda E: right(2 * E)),
    ("lemma18", "validation.claims.concentration._shared.tail", scaled(20.0)),
    (
        "theorem1b",
        "validation.claims.approximations.theorem1b.flow",
        lambda right: (
            lambda instance, rung, **options: right(replace(instance, eta_Y=instance.eta_Y / 8), rung, **options)
        ),
    ),
]
SLOW_TO_REJECT = {"lemma1", "lemma6", "lemma9", "lemma18"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id_", "replaced", "wrong"),
    [pytest.param(*each, id=each[0], marks=[pytest.mark.long] * (each[0] in SLOW_TO_REJECT)) for each in WRONG],
)
def test_a_wrong_theory_loses_the_verdict(
    monkeypatch: pytest.MonkeyPatch, id_: str, replaced: str, wrong: Callable[[Any], Any]
) -> None:
    """Assert that a claim notices a closed form, a right-hand side or a piece of its theory that is off."""
    right = pydoc.locate(f"snapdyn.{replaced}")
    monkeypatch.setattr(f"snapdyn.{replaced}", wrong(right))
    assert not check_claim(CLAIMS[id_], "quick").as_expected


def test_a_claim_id_is_registered_once() -> None:
    """Assert that a second claim with the same id is refused, and so is a verdict that is none."""
    with pytest.raises(InputError, match="expected a new name for a claim, received 'lemma6'"):
        claim("lemma6", source="", title="", statement="", latex="")(lambda evidence: None)
    with pytest.raises(InputError, match="did you mean 'holds'"):
        claim_of("new", expected="hold")


def test_a_notebooks_cell_may_run_again() -> None:
    """Assert that a claim of a notebook replaces the one of its id."""
    claim("own", source="", title="old", statement="")(lambda evidence: None)
    sd.register(claim_of("own", title="new"))
    assert CLAIMS["own"].title == "new"


DECORATED = '@sd.claim("{id}", source="", title="", statement="")\ndef f(evidence): pass\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "expected the path of a Python file, received '{file}', which is not a file; check the path"),
        ("x = 1\ny = = 2\n", "received '{file}' with an error in line 2: invalid syntax"),
        ("import snapdyn as sd\n\nsd.no_such_name\n", "received AttributeError in line 3 of mine.py: module 'snapdyn'"),
        ("import sys\nsys.exit('bye')\n", "received SystemExit in line 2 of mine.py: bye"),
        ("x = 1\n", "received none; decorate a function with @snapdyn.claim"),
        ("import snapdyn as sd\n" + 2 * DECORATED.format(id="new"), "line 4 of mine.py: expected a new name for"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_loaded(text: str | None, sentence: str, tmp_path: Path) -> None:
    """Assert one sentence with the line and the error, and the register as it was."""
    before = dict(CLAIMS)
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_claims(file)
    assert sentence.format(file=file) in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert dict(CLAIMS) == before
    assert not any(name.startswith("snapdyn_loaded") for name in sys.modules)
