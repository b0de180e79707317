"""Every certificate: its statement is proved, and the prover refutes each wrong theory about the same quantities."""

import pytest

from snapdyn.analytic.certificates import CERTIFICATES, prove
from snapdyn.analytic.certificates.certificate import Statement
from snapdyn.report.mathematics import formula_html

WRONG = [(id_, i) for id_, statement in CERTIFICATES.items() for i in range(len(statement.wrong))]


@pytest.mark.parametrize("id_", CERTIFICATES)
def test_the_statement_is_certified(id_: str) -> None:
    """Assert that every inequality is proved with a positive bound, on a number of sub-boxes that seconds allow."""
    certificate = CERTIFICATES[id_].run(max_boxes=10_000)
    assert certificate.proved, certificate.failing
    assert certificate.failing is None
    assert certificate.id == id_
    assert certificate.box == CERTIFICATES[id_].box
    assert all(proof.lower_bound > 0 for proof in certificate.proofs)
    assert certificate.boxes == sum(proof.boxes for proof in certificate.proofs)
    assert str(certificate) == (
        f"{id_}: certified on {certificate.boxes} sub-boxes of {len(certificate.proofs)} inequalities"
    )


@pytest.mark.parametrize(("id_", "i"), WRONG)
def test_the_wrong_theory_is_refuted(id_: str, i: int) -> None:
    """Assert that the prover finds a sub-box inside the box on which the wrong inequality is false everywhere."""
    wrong = CERTIFICATES[id_].wrong[i]
    found = prove(wrong, max_boxes=50_000)
    assert not found.proved
    assert found.false_there
    assert found.failing is not None
    for name, (low, high) in found.failing.items():
        assert wrong.box[name][0] <= low <= high <= wrong.box[name][1]


def test_every_statement_has_a_wrong_theory() -> None:
    """Assert a negative control, words, formula and reduction for each certificate."""
    for statement in CERTIFICATES.values():
        assert statement.wrong
        assert statement.words
        assert statement.latex
        assert statement.reduction
        assert statement.box


@pytest.mark.parametrize("id_", CERTIFICATES)
def test_the_formula_is_drawn(id_: str) -> None:
    """Assert that a report can draw the formula of each certificate."""
    assert "<code>" not in formula_html(CERTIFICATES[id_].latex)


def test_ids_are_unique() -> None:
    """Assert that the register of certificates loses none to an id used twice."""
    from snapdyn.analytic.certificates import MODULES

    assert len(CERTIFICATES) == sum(len(module.STATEMENTS) for module in MODULES)


def test_a_certificate_that_fails_names_its_sub_box() -> None:
    """Assert that a statement made of a wrong inequality is not proved, and that its sentence gives the sub-box."""
    base = CERTIFICATES["gamma-single-maximum"]
    failed = Statement(
        "toy", base.title, base.source, base.words, base.latex, base.box, "", base.wrong, base.wrong
    ).run()
    assert not failed.proved
    assert failed.failing is failed.proofs[0]
    assert "toy: not proved: gamma increases up to t0'" in str(failed)
    assert "false on the sub-box V in [" in str(failed)
