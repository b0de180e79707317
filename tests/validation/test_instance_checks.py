"""The register on a user's instance: three unlike data sets, bad input, and the forms of the report."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.dynamics import log_times
from snapdyn.validation.claims.adam._winner import base
from snapdyn.validation.instance_checks import STATUSES
from snapdyn.validation.search.instance import Instance
from tests.validation.helpers import claim_of, typeset, with_latex

WORDS = (
    "the cat sat on the mat and the dog sat on the log while the bird sang to the sun and the cat ran to the dog "
    "but the dog did not run and the bird did not sing when the sun had gone and the moon was on the log "
)


def text_classes(folder: Path) -> sd.SequenceClasses:
    """Classes of a small text, several of which share a next token."""
    file = folder / "words.txt"
    file.write_text(WORDS * 5, encoding="utf-8")
    return sd.from_text(file, window=4, min_count=1)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["unequal", "syn_medium", "text"])
def test_every_claim_answers_on_unlike_data(data: str, tmp_path: Path) -> None:
    """Assert a status with its reason for every claim, and that none fails that the register lets hold."""
    classes = {
        "unequal": lambda: sd.random_classes(12, 20, 10, 4, 300, "strong", uniform_prior=False, seed=12),
        "syn_medium": lambda: sd.syn_medium(3),
        "text": lambda: text_classes(tmp_path),
    }
    report = sd.check(classes[data](), eta_Y=0.5, eta_Z=1e-3, rungs="all")
    assert {result.id for result in report.claims} == set(sd.validation.CLAIMS)
    for result in report.claims:
        assert result.status in STATUSES
        assert "measurement failed" not in result.sentence, result
        if result.status in ("holds", "fails"):
            assert np.isfinite(result.measured), result
            assert (result.number.margin >= 0) == (result.status == "holds"), result
        if result.status == "outside":
            assert any(not condition.holds for condition in result.conditions)
    # The register says of no statement that it holds where it does not.
    expected = {entry.id: entry.expected for entry in sd.validation.CLAIMS.values()}
    assert not [result.id for result in report.fails if expected[result.id] == "holds"]


def test_forms_of_the_report() -> None:
    report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only=["conservation", "figure6"])
    document = json.loads(report.to_json())
    assert [entry["id"] for entry in document["claims"]] == ["conservation", "figure6"]
    assert set(document["claims"][0]) >= {"id", "status", "conditions", "measured", "bound", "sentence"}
    assert [entry["status"] for entry in document["claims"]] == ["holds", "not applicable"]
    assert document["claims"][1]["measured"] is None
    assert document["settings"]["eta_Z"] == 0.01
    latex = report.to_latex()
    assert "The row sums of" in latex
    assert "Does not apply here: figure6." in latex
    assert "<td>holds</td>" in report._repr_html_()
    assert "conservation: Holds: " in report.to_text()
    assert repr(report) == "InstanceReport(1 holds, 1 does not apply)"


def test_a_failing_number_is_not_written_as_a_true_inequality() -> None:
    """Assert "must be at most" in the text and in LaTeX."""
    report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=1.0, only="theorem3-gain")
    assert report["theorem3-gain"].status == "outside"
    for text in (report.to_latex(), report["theorem3-gain"].sentence):
        assert "must be at most" in text
    assert str(sd.Measured(0.0977, at_least=1.0, where="class 0")) == "0.0977, must be at least 1 (class 0)"
    assert str(sd.Measured(2.0, at_most=1.0, error=3.0)) == "2, must be at most 1, but the numerical error is 3"


def test_a_corrected_statement_says_how_the_printed_one_fares() -> None:
    """Assert both verdicts in the terminal's words, in the sentence, in JSON and in LaTeX, and the order of a paper."""
    report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only=["lemma6", "theorem1-form", "conservation"])
    result = report["theorem1-form"]
    assert (result.status, result.printed.status) == ("holds", "fails")
    assert {"status": "holds", "as_printed": "fails"}.items() <= result.to_dict().items()
    for text in (result.verdict, report.to_latex()):
        assert re.search("fails as printed.* holds as corrected", text)
    assert report.summary == "2 hold, 1 holds only as corrected"
    assert [each.id for each in report.in_order()] == ["theorem1-form", "conservation", "lemma6"]
    assert [each.id for each in report.theorems().claims] == ["conservation", "theorem1-form"]


def test_a_statement_outside_does_not_hide_one_that_holds() -> None:
    """Assert that Theorem 2(a) says that distinct tokens rise where attention moves too much for linear response."""
    answer = sd.check(sd.single_common_token(3, 2, 0.3, 1000), 1.0, 0.01, 1e5, "theorem2a").claims[0]
    assert answer.status == "outside"
    assert "Of its other statements these hold here: largest fall of a distinct logit" in answer.reason


@with_latex
def test_the_table_compiles_and_fits(tmp_path: Path) -> None:
    """Assert that a table of all statements compiles, with no box that is more than 5 pt too wide."""
    report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only=["theorem", "lemma", "remark", "corollary"])
    assert "Overfull" not in typeset(tmp_path, report.to_latex(), r"\usepackage[margin=1in]{geometry}\hfuzz=5pt")


# By claim: P, queries, V, eta_Z, t_end.
ROUNDING = {
    # The largest logit of the first class is 3e-16.
    "scanning": ([[0.76904, 0.23096, 0], [0.073564, 0, 0.926436]], [0, 1], 922527225330, 2.2921, 0.65),
    # The symmetric path of these classes is unstable: rounding grows until it is all of z.
    "insight-b": (
        [[0.41163, 0.38422, 0.19078, 0.013359, 0], [0.41163, 0.38422, 0.19078, 0, 0.013359]],
        [0, 1],
        3,
        5.3594,
        211.19,
    ),
    # Some token of probability 1e-14 occurs once in 1e12 tokens.
    "lemma2": ([[1 - 59e-14] + [1e-14] * 59], [0], 100, 1.0, 1.0),
}


@pytest.mark.parametrize("claim", list(ROUNDING))
def test_a_number_within_its_rounding_is_undecided(claim: str) -> None:
    """Assert that an exact statement is undecided where its number exceeds the bound by rounding or by chance."""
    P, query, V, eta_Z, t_end = ROUNDING[claim]
    rows = np.array(P) / np.sum(P, axis=1, keepdims=True)
    result = sd.check(sd.SequenceClasses(rows, query, vocab_size=V), 1.0, eta_Z, t_end, only=claim)[claim]
    assert result.status == "undecided"
    assert "the numerical error is" in result.sentence


def test_statuses_follow_margins_and_conditions() -> None:
    def answer(measure, *conditions) -> sd.validation.InstanceResult:
        sd.register(claim_of(properties=sd.Property("x", "r", measure, sd.Family("f"), conditions)))
        return sd.check(sd.syn_small(), 1.0, 0.1, 10.0, only="x")["x"]

    unmet = sd.Requirement("large V", "V >= 100", lambda i: i.vocab_size, at_least=100)
    for measured, conditions, status in (
        (sd.Measured(1, at_most=2), (), "holds"),
        (sd.Measured(3, at_most=2), (), "fails"),
        (sd.Measured(2.05, at_most=2, error=0.1), (), "undecided"),
        (None, (), "undecided"),
        (sd.Measured(1, at_most=2), (unmet,), "outside"),
    ):
        assert answer(lambda i, measured=measured: measured, *conditions).status == status

    def broken(instance: Instance) -> sd.Measured:
        raise np.linalg.LinAlgError("singular matrix")

    assert answer(broken).status == "undecided"
    assert "singular matrix" in answer(broken).sentence


def test_start_length_and_momentum_reach_the_run() -> None:
    """Assert that "conservation" holds on runs with each, and the overlaps of the attention of a start."""
    classes = sd.syn_small()
    start = np.zeros((2, classes.num_tokens))
    start[:, 0] = 1.0
    for options in ({"start": start}, {"seq_len": 2000}, {"momentum": 0.9}):
        (result,) = sd.check(classes, 1.0, 0.01, t_end=50.0, only="conservation", **options).claims
        assert (result.rung, result.status) == ("mean field", "holds")
    weights = classes.P.toarray() * np.exp(start[classes.query_index])
    f = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    assert np.allclose(Instance.of(classes, 1.0, 0.01, 50.0, start=start).gram, f @ f.T, atol=1e-12)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"t_end": 1e200}, "t_end"),
        ({"eta_Z": 1e300}, "eta_Z"),
        ({"start": np.zeros((3, 2))}, "shape"),
        ({"rungs": ["nowhere"]}, "rung"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(odd: dict[str, Any], message: str) -> None:
    """Assert an InputError of one line for times and rates that float64 does not hold, and for wrong arguments."""
    with pytest.raises(sd.InputError, match=rf"^expected .*{message}"):
        sd.check(**({"classes": sd.syn_small(), "eta_Y": 1.0, "eta_Z": 1.0} | odd))


def test_without_a_bias_the_claim_on_biases_is_not_applicable() -> None:
    """Assert that no bias, and one that is equal for all tokens, is not counted as a case that holds."""
    classes = sd.syn_small()
    equal = np.ones((classes.queries.size, classes.num_tokens))
    for start in (None, equal):
        report = sd.check(classes, 1.0, 0.01, 10.0, "positional-prior", start=start)
        assert report["positional-prior"].status == "not applicable"
    assert sd.check(
        classes, 1.0, 0.01, 10.0, "positional-prior", start=equal * np.arange(classes.num_tokens)
    ).count() == {"holds": 1}


def test_a_flow_that_takes_too_many_evaluations_is_undecided() -> None:
    """Assert "undecided" with the reason for a flow beyond its limit: two equal classes, fast attention, late times."""
    classes = sd.SequenceClasses([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]], query=[3, 3], vocab_size=1000)
    answer = sd.check(classes, 1.0, 1000.0, t_end=1e9, only="conservation")["conservation"]
    assert answer.status == "undecided"
    assert "stopped after 500000 evaluations" in answer.sentence


@pytest.fixture
def bandit() -> sd.Claim:
    """A claim of another theory in the register: its parameters are those of a Box."""
    slow = sd.Requirement("slow", "eta <= 1", lambda p: p["eta"], at_most=1.0)
    measure = lambda p: sd.Measured(p["eta"] * p["r"] * p["arms"], at_most=5.0)  # noqa: E731
    box = sd.Box(eta=(1e-3, 10.0, "log"), r=(0.1, 0.9), arms=(2, 10))
    prop = sd.Property("product", "closed form", measure, box, (slow,), {"wrong": lambda p: None})
    return sd.register(claim_of("bandit-limit", properties=prop))


@pytest.mark.usefixtures("bandit")
def test_parameters_of_another_theory() -> None:
    """Assert the three answers of a claim over a Box, and that claims of sequence classes are not applicable."""
    for eta, arms, status in ((0.3, 3, "holds"), (1.0, 10, "fails"), (2.0, 3, "outside")):
        report = sd.check({"eta": eta, "r": 0.9, "arms": arms}, only=["bandit-limit", "lemma13"])
        assert report["bandit-limit"].status == status
        assert report["bandit-limit"].measured == pytest.approx(eta * 0.9 * arms)
        assert report["lemma13"].status == "not applicable"
        assert report.settings["arms"] == arms
    beyond = sd.check({"eta": 20.0, "r": 0.9, "arms": 3}, only="bandit-limit")["bandit-limit"]
    on_classes = sd.check(sd.syn_small(), 1.0, 1.0, only="bandit-limit")["bandit-limit"]
    for answer in (beyond, on_classes):
        assert "it is about eta 0.001 to 10, r 0.1 to 0.9, arms 2-10" in answer.sentence
    assert beyond.status == "outside"
    assert "and eta is 20" in beyond.sentence
    assert "it fails here" in beyond.sentence
    assert beyond.measured == pytest.approx(54)


@pytest.mark.usefixtures("bandit")
def test_one_file_of_parameters_serves_a_theory() -> None:
    """Assert that each claim takes its own parameters, and names those that are missing; two boxes are told apart."""
    measure = lambda p: sd.Measured(p["beta"], at_most=1.0)  # noqa: E731
    wrong = {"wrong": lambda p: None}
    short, long = (sd.Property(name, "closed form", measure, box, (), wrong) for name, box in (
        ("short", sd.Box(beta=(0.0, 1.0))), ("long", sd.Box(beta=(1.0, 2.0), eta=(0.1, 1.0)))))  # fmt: skip
    sd.register(claim_of("bandit-noise", properties=(short, long)))
    ids = ["bandit-limit", "bandit-noise"]
    report = sd.check({"eta": 0.3, "r": 0.9, "arms": 3, "beta": 0.5}, only=ids)
    assert [result.status for result in report.claims] == ["holds", "holds"]
    assert report["bandit-noise"].sentence == "Holds: short: 0.5 <= 1 (beta 0 to 1)."
    alone = sd.check({"beta": 1.5, "eta": 0.3}, only=ids)
    assert alone["bandit-limit"].sentence.endswith("give r, arms too.")
    assert alone["bandit-noise"].status == "fails"
    assert "(beta 1 to 2, eta 0.1 to 1)" in alone["bandit-noise"].sentence


@pytest.mark.usefixtures("bandit")
@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (
            {"eta": 0.3, "r": 0.2, "arm": 3},
            {},
            "parameters of one of these claims or more .eta, r, arms.*received eta, r, arm;",
        ),
        ({"eta": 0.3, "r": 0.2, "arms": 2.5}, {}, "arms to be a whole number, received 2.5"),
        ({"eta": np.nan, "r": 0.2, "arms": 2}, {}, "eta to be a finite number"),
        ({"eta": 0.3, "r": 0.2, "arms": 2}, {"eta_Y": 1.0}, "put rates and times into the mapping"),
    ],
)
def test_parameters_that_no_claim_has(given, options, message: str) -> None:
    with pytest.raises(sd.InputError, match=message):
        sd.check(given, only="bandit-limit", **options)


def test_a_rule_of_descent_is_outside_what_speaks_of_gradient_descent() -> None:
    """Assert what survives Adam and what does not, numbers of the rule's own run, and which claim says why."""
    classes = base().classes
    ids = ["theorem2a", "theorem2b", "theorem3-gain", "lemma6", "lemma13", "conservation", "adam-winner", "sign-equal"]
    report = sd.check(classes, 0.01, 0.01, only=ids, optimizer="adam")
    status = {result.id: result.status for result in report.claims}
    assert status.pop("lemma13") == status.pop("adam-winner") == "holds"
    assert set(status.values()) == {"outside"}
    assert report.settings["optimizer"] == "adam"
    assert report.settings["t_end"] == pytest.approx(4000)
    assert "it requires gradient descent" in report["theorem2a"].sentence
    assert "it fails here" in report["theorem2a"].sentence
    assert "see adam-winner" in report["theorem2a"].sentence
    assert "Measured all the same, it holds here" in report["theorem2b"].sentence
    assert report["lemma6"].number is None
    # The number is that of training on the expectation by this rule.
    record = np.unique(np.maximum(1, log_times(4.0, 4000.0, 60).round())).astype(int)
    run = sd.sgd(classes, 0.01, 0.01, 4000, None, optimizer="adam", record=record)
    own = run.z[:, 0, 1:]
    fall = (np.maximum.accumulate(np.vstack([np.zeros(9), own]), axis=0)[1:] - own).max() / np.abs(run.z).max()
    assert report["theorem2a"].measured == pytest.approx(fall, rel=1e-6)
    # The numbers of docs/theory/rules_of_descent.md.
    assert report["theorem2a"].measured == pytest.approx(0.96, abs=0.005)
    assert report["theorem3-gain"].measured == pytest.approx(3.8, abs=0.05)
    insights = sd.check(classes, 0.01, 0.01, only=["insight-a", "insight-b"], optimizer="adam")
    assert insights["insight-a"].measured == pytest.approx(0.52, abs=0.005)
    assert insights["insight-b"].measured == pytest.approx(0.03, abs=0.006)
    # Gradient descent by another name is gradient descent, and claims about a rule need one.
    plain = sd.check(classes, 0.01, 0.01, only=ids, optimizer=sd.GradientDescent(0.5))
    assert plain.settings["momentum"] == 0.5
    assert plain["adam-winner"].status == "not applicable"
    assert plain["conservation"].status == "holds"
    with pytest.raises(sd.InputError, match="expected seq_len=None with optimizer='adam', received 30"):
        sd.check(classes, 0.01, 0.01, seq_len=30, optimizer="adam")


def test_sentences_on_other_rules_name_claims_of_the_register() -> None:
    """Assert that every claim that such a sentence names exists, and is not itself about gradient descent."""
    named = 0
    for entry in sd.validation.CLAIMS.values():
        for id_ in re.findall(r"(?:adam|sign|figure5)-[a-z]+", entry.under_rules):
            assert sd.validation.CLAIMS[id_].chapter == "adam"
            named += 1
    assert named >= 10
