"""The explorer's curves of own classes: those of a run file, and the symmetric ones of the sliders as a table."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import SequenceClasses
from snapdyn.explorer.curves import RTOL, compute_curves, verdicts
from snapdyn.explorer.own_curves import curves_of_class
from snapdyn.explorer.sliders import OwnSettings, Settings
from tests.helpers import EXAMPLES

SYMMETRIC = Settings(num_classes=4, vocab_size=100, eta_Z=0.5)


def table(settings: Settings) -> OwnSettings:
    """The classes of the sliders as a table that says nothing of its symmetry."""
    classes = settings.classes
    P = SequenceClasses(classes.P.toarray(), classes.query, classes.next_token, vocab_size=classes.vocab_size)
    return OwnSettings(P, settings.eta_Y, settings.eta_Z)


def test_a_table_has_the_curves_of_its_symmetric_classes() -> None:
    """Assert every curve, in which the theory is integrated here and a quadrature there, and the times."""
    own, symmetric = curves_of_class(table(SYMMETRIC), 2), compute_curves(SYMMETRIC)
    np.testing.assert_array_equal(own.t, symmetric.t)
    assert own.marks == pytest.approx(symmetric.marks)
    tolerance = {"rtol": 100 * RTOL, "atol": 100 * RTOL}
    for name, values in symmetric.named.items():
        np.testing.assert_allclose(own.named[name], values, **tolerance, err_msg=name)
    faster = curves_of_class(table(replace(SYMMETRIC, eta_Z=1.0)), 2)
    assert not any(np.allclose(faster.named[name], symmetric.named[name], **tolerance) for name in faster.attention)


def test_classes_and_rates_are_those_of_the_file() -> None:
    """Assert classes, rates and verdicts of the example, its unequal priors, and a class of one distinct token."""
    own = OwnSettings.read(EXAMPLES / "check_own_classes.toml")
    assert (own.num_classes, own.eta_Y, own.eta_Z) == (4, 0.5, 0.001)
    first, last = curves_of_class(own, 0), curves_of_class(own, 3)
    assert first.marks["peak"] == pytest.approx(last.marks["peak"] / 2)  # class 0 is twice as frequent
    assert first.attention["dominant"][0] == pytest.approx(0.6)
    assert first.relative_gain[0] == pytest.approx((0.6 / 0.35) ** 2 - 1, rel=1e-4)
    assert np.isnan(last.relative_gain).all()
    assert verdicts(own)["lemma9"].status == "holds"


def test_where_theory_does_not_reach_it_says_so() -> None:
    """Assert a note in place of the theory for a shared next token, and a refusal of a class without distinct token."""
    shared = SequenceClasses([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [0, 0], next_token=[1, 1], vocab_size=9)
    curves = curves_of_class(OwnSettings(shared, 1.0, 0.1), 0)
    assert "received 2 classes for 1 next tokens" in curves.note
    assert np.isnan(curves.gamma_modified).all()
    assert np.isnan(curves.attention_modified["common"]).all()
    assert np.isfinite(curves.attention["common"]).all()
    without = SequenceClasses([[0.5, 0.3, 0.2], [0.5, 0.5, 0.0]], [0, 0], vocab_size=9)
    with pytest.raises(InputError, match="received class 1, which has none; choose another"):
        curves_of_class(OwnSettings(without, 1.0, 0.1), 1)
