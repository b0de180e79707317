"""Odd arguments of claims' evidence, checks, properties and pictures: one sentence each."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import snapdyn as sd
from snapdyn.validation.pictures import Line

FAMILY = sd.Family("two")
CALLS: dict[str, Callable[[], object]] = {
    "evidence of None": lambda: sd.Evidence(None),  # type: ignore[arg-type]
    "level": lambda: sd.Evidence(level="slow"),
    "number as text": lambda: sd.Measured("x", at_most=1.0),  # type: ignore[arg-type]
    "role": lambda: sd.Measured(1.0, at_most=1.0, role="x"),  # type: ignore[arg-type]
    "name": lambda: sd.Measured(1.0, at_most=1.0, name=3),  # type: ignore[arg-type]
    "measured": lambda: sd.Evidence().holds("error", "SGD", pd.Series([1.0, 2.0]), at_most=1.0),  # type: ignore[arg-type]
    "cases": lambda: sd.Property("p", "SGD", lambda i: None, FAMILY, cases=[FAMILY]),  # type: ignore[arg-type]
    "empty box": lambda: sd.Box(),
    "range of a box": lambda: sd.Box(eta=(1.0, 0.1)),
    "logarithm of 0": lambda: sd.Box(eta=(0.0, 0.1, "log")),
    "one end": lambda: sd.Box(eta=(1.0,)),  # type: ignore[arg-type]
    "text in a box": lambda: sd.Box(eta=("a", "b")),  # type: ignore[arg-type]
    "no number in a box": lambda: sd.Box(eta=(0.0, np.nan)),
    "attribute of a claim": lambda: sd.claim("x", source="own", title="t", statement="s", answer="No."),
    "claim without a title": lambda: sd.claim("x", source="own", statement="s"),
    "verdict": lambda: sd.Claim("x", "own", "t", "s", expected="true"),  # type: ignore[arg-type]
    "bound": lambda: sd.Measured(1.0, at_most=np.array("x")),  # type: ignore[arg-type]
    "measure": lambda: sd.Requirement("r", "Q = 1", 3, at_most=1.0),  # type: ignore[arg-type]
    "domain": lambda: sd.Property("p", "SGD", lambda i: None, "two"),  # type: ignore[arg-type]
    "evaluations": lambda: sd.Property("p", "SGD", lambda i: None, FAMILY, evaluations=(0, 1)),
    "range": lambda: sd.Family("two", vocab_size=(100, 10)),
    "no range": lambda: sd.Family("two", eta_Y=1.0),  # type: ignore[arg-type]
    "line": lambda: Line("l", [1.0, 2.0], [1.0]),  # type: ignore[arg-type]
    "lines": lambda: sd.Picture("x", "y", "line"),  # type: ignore[arg-type]
    "claim": lambda: sd.claim(["a"], source="own", title="t", statement="s"),  # type: ignore[arg-type]
    "masked instance": lambda: sd.Instance(
        np.ma.masked_array([[0.5, 0.5]], mask=[[True, False]]), np.zeros(1), np.ones(1), 9, 1.0, 1.0, 1.0
    ),
    "method": lambda: sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [1.0], method=np.array("RK45")),
    "token": lambda: sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), [1.0]).growth_factor(0, True),
    "rho0": lambda: sd.SingleCommonToken(2, 10, 1.0, 1.0, rho0=1e300),
    "rho0 of a closed form": lambda: sd.analytic.growth_exponent(1.0, 1.0, 1.0, 10, 2, 1e-200),
    "system of a table": lambda: sd.integrate(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}), [1.0]),  # type: ignore[arg-type]
    "times of a table": lambda: sd.integrate(
        sd.MeanField(sd.syn_small(), 1.0, 1.0), pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]})
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments_are_refused_in_one_line(name: str) -> None:
    """Assert an InputError whose message is one line with what was expected and what was received."""
    with pytest.raises(sd.InputError, match=r"^expected .*received") as caught:
        CALLS[name]()
    assert str(caught.value).isprintable()


def test_fluctuations_of_a_run_that_fails_at_once() -> None:
    """Assert that rates beyond all solvers give a failed trajectory and a covariance at the times reached: none."""
    classes = sd.single_common_token(2, 1, 0.3, vocab_size=10)
    result = sd.fluctuations(classes, 1.0, 1e300, [1.0])
    assert result.trajectory.status == "failed"
    assert result.z_covariance.shape == (0, 3, 3)
    assert [edge.shape for edge in result.band()] == [(0, 3), (0, 3)]


def test_instances_keep_their_numbers() -> None:
    """Assert that the checks change no number of an instance, and that a draw survives its own JSON form."""
    for number in range(20):
        instance = FAMILY.draw(0, number)
        again = sd.Instance.from_dict(instance.to_dict())
        assert again.to_dict() == instance.to_dict()
