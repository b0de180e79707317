"""`snapdyn validate`: exit codes, exported tables, interruptions, claims from a file."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from snapdyn.commands.options import complete_claims
from snapdyn.validation import CLAIMS, Claim, Evidence
from snapdyn.validation.register import Verdict
from tests.helpers import EXAMPLES, Command
from tests.validation.helpers import check, claim_of

EXAMPLE = EXAMPLES / "my_claims.py"


def invented_claim(id: str, measured: float, expected: Verdict = "holds") -> Claim:
    """A claim whose statement passes up to 1, with a control that fails."""
    checks = [
        check("statement", "closed form", measured, 1.0),
        check("wrong theory", "closed form", 5.0, 1.0, role="control"),
    ]
    facts = {"source": "[own]", "title": f"Title of {id}", "expected": expected}
    return claim_of(id, run=lambda evidence: evidence.checks.extend(checks), **facts)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put invented claims in place of the register's, and run them in this process unless --jobs says otherwise."""
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)

    def replace(*invented: Claim) -> None:
        CLAIMS.clear()  # `tests/conftest.py` restores it
        CLAIMS.update({claim.id: claim for claim in invented})

    return replace


def test_verdicts(register: Callable[..., None], tmp_path: Path, command: Command) -> None:
    """Assert that ids select claims, disagreements with print come first, then counts, and --json's documented form.

    A verdict other than the register's gives exit code 1 and leads the table.
    """
    register(
        invented_claim("agrees", 0.5),
        invented_claim("disagrees", 2.0, expected="refuted"),
        invented_claim("news", 2.0),
    )
    target = tmp_path / "new folder" / "verdicts.json"
    header, first, second, counts = command("validate", "agrees", "disagrees", "--json", target).out.splitlines()
    assert header.split() == ["id", "source", "title", "verdict", "decisive", "check"]
    assert first.startswith("disagrees")
    assert "statement: 2 <= 1 fails" in first
    assert "[own]" in second
    assert re.fullmatch(r"2 claims: 1 holds, 1 refuted; 0 differ from the register; \d+ s", counts)
    written = json.loads(target.read_text())
    assert [claim["id"] for claim in written["claims"]] == ["agrees", "disagrees"]
    assert list(target.parent.iterdir()) == [target]
    lines = command("validate", code=1).out.splitlines()
    assert "refuted (register: holds)" in lines[1]
    assert "1 differ from the register" in lines[-1]


def test_partial_result_replaces_no_complete_one(
    register: Callable[..., None], tmp_path: Path, command: Command
) -> None:
    """Assert that after Ctrl-C the complete file is as before, and a marked one beside it, until the next whole run.

    Exit code 130, one sentence, and in each format the claims that were finished, and which are missing.
    """
    stops = [False]

    def stopped(evidence: Evidence) -> None:
        if stops[0]:
            raise KeyboardInterrupt
        sound.run(evidence)

    sound = invented_claim("sound", 0.5)
    register(sound, claim_of("two_a", run=stopped), invented_claim("never", 0.5))
    file, partial, note = tmp_path / "a.json", tmp_path / "a.partial.json", '"complete": false'
    arguments = ["validate", "--json", file]
    command(*arguments)
    complete = file.read_text()
    assert note not in complete
    assert json.loads(complete)["missing"] == []
    stops[0] = True
    for form, words in (
        ("latex", r"% Partial result of an interrupted run; not checked: two\_a"),
        ("text", "Partial result of an interrupted run; not checked: two_a"),
    ):
        printed = command(*arguments, "--format", form, code=130)
        assert file.read_text() == complete
        document = json.loads(partial.read_text())
        assert (document["complete"], document["missing"]) == (False, ["two_a", "never"])
        assert [claim["id"] for claim in document["claims"]] == ["sound"]
        assert words in printed.out
        assert f"'{file}' is of a complete run and is kept" in printed.err
        assert "snapdyn: interrupted" in printed.err
    # A partial file makes room for the next result.
    partial.replace(file)
    assert "1 claims: 1 holds" in command(*arguments, code=130).out
    assert note in file.read_text()
    stops[0] = False
    command(*arguments)
    assert note not in file.read_text()
    assert not partial.exists()


def test_own_claims_from_a_file(tmp_path: Path, command: Command) -> None:
    """Assert that --load adds claims, that ids select them, and that JSON has the command that repeats them."""
    target = tmp_path / "verdicts.json"
    printed = command("validate", "common-tokens-fall", "--load", EXAMPLE, "--json", target)
    assert "1 claims: 1 holds" in printed.out
    (written,) = json.loads(target.read_text())["claims"]
    assert written["command"] == f"snapdyn validate common-tokens-fall --level quick --load {EXAMPLE}"


def test_formats_and_completion(register: Callable[..., None], command: Command) -> None:
    """Assert that --format prints that form and nothing else; the shell completes ids and chapters of claims."""
    assert {"lemma6", "lemma9"} < set(complete_claims("lemma")) < set(CLAIMS)
    chapter = CLAIMS["lemma6"].chapter
    assert chapter in complete_claims(chapter[:3])
    register(invented_claim("one", 0.5))
    assert complete_claims("o") == ["one"]
    for form, start in (
        ("text", "id   source  statement     verdict"),
        ("latex", "% Needs \\usepackage{booktabs"),
        ("json", '{\n  "level": "quick"'),
    ):
        printed = command("validate", "--format", form)
        assert printed.out.startswith(start)
        assert printed.out.endswith("\n")
        assert printed.err == ""


@pytest.mark.slow
def test_process_that_dies(register: Callable[..., None], command: Command) -> None:
    """Assert that a process ended from outside gives exit code 1 and a sentence with what ran and what to do."""

    def killed(evidence: Evidence) -> None:
        os.kill(os.getpid(), 9)
        raise AssertionError

    register(claim_of("killed", run=killed), claim_of("too", run=killed))
    err = command("validate", "--jobs", 2, code=1).err
    assert err.startswith("snapdyn: a process ended without a result while these claims ran: ")
    assert "killed" in err
    assert "fewer jobs" in err
    assert err.count("\n") == 1
