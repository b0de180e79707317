"""Sensitivities: against finite differences of runs, a complex step on plain numpy, and a solved equation."""

from typing import Any

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    System,
    integrate,
    random_classes,
    sensitivity,
    syn_small,
)

CLASSES = random_classes(3, 2, 3, num_queries=2, seed=1, uniform_prior=False)
TIMES = np.linspace(0.0, 100.0, 6)
ETA_Y, ETA_Z = 0.7, 0.4


def directions() -> tuple[Any, Any]:
    """Random directions of P and of the initial logits."""
    rng = np.random.default_rng(0)
    P = CLASSES.P.toarray()
    of_P = np.where(P > 0, rng.normal(size=P.shape), 0.0)
    for row, support in zip(of_P, P > 0, strict=True):
        row[support] -= row[support].mean()
    of_z = np.zeros((2, CLASSES.num_tokens))
    of_z[CLASSES.z_coordinates] = rng.normal(size=CLASSES.z_coordinates[0].size)
    return 0.01 * of_P, of_z


def run(parameter: int, change: float) -> Any:
    """The mean field with one parameter changed."""
    of_P, of_z = directions()
    classes, rates, z = CLASSES, [ETA_Y, ETA_Z], None
    if parameter < 2:
        rates[parameter] += change
    elif parameter == 2:
        P = CLASSES.P.toarray() + change * of_P
        classes = SequenceClasses(P, CLASSES.query, CLASSES.next_token, CLASSES.prior, CLASSES.vocab_size)
    else:
        z = change * of_z
    return integrate(MeanField(classes, *rates, z), TIMES, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_derivatives_are_finite_differences_of_runs() -> None:
    """Assert attention, entropy and loss, by rates, P and initial logits, to 1e-6 of central differences.

    The differences err by h^2/6 times third derivatives and by the tolerance over h, each below 1e-7 of the largest.
    """
    of_P, of_z = directions()
    result = sensitivity(MeanField(CLASSES, ETA_Y, ETA_Z), TIMES, ("eta_Y", "eta_Z", ("P", of_P), ("z_initial", of_z)))
    assert np.allclose(result.trajectory.attention, run(0, 0.0).attention, rtol=1e-7)
    for parameter, h in enumerate((1e-4, 1e-4, 1e-3, 1e-4)):
        above, below = run(parameter, h), run(parameter, -h)
        for name in ("attention", "entropy", "loss"):
            values = [getattr(each, name)() if name == "entropy" else getattr(each, name) for each in (above, below)]
            expected = (values[0] - values[1]) / (2 * h)
            own = result.entropy() if name == "entropy" else getattr(result, name)
            assert np.abs(own[:, parameter] - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize(("seq_len", "momentum", "step_size"), [(None, 0.9, 0.5), (100, 0.0, 1.0)])
def test_finite_steps_are_differentiated(seq_len: int | None, momentum: float, step_size: float) -> None:
    """Assert derivatives of 40 steps to 1e-6 against differences of `descend`, and that those of the flow differ."""
    classes = sd.random_classes(2, 1, 2, seed=1)

    def system(eta_Y: float, eta_Z: float) -> Any:
        if seq_len is None:
            return sd.MeanField(classes, eta_Y, eta_Z)
        return sd.FiniteLengthMeanField(classes, eta_Y, eta_Z, seq_len=seq_len)

    times = step_size * np.array([10, 40])
    result = sd.sensitivity(system(0.2, 0.3), times, step_size=step_size, momentum=momentum)
    for place, (dY, dZ) in enumerate(([1e-5, 0.0], [0.0, 1e-5])):
        above, below = (
            sd.descend(system(0.2 + s * dY, 0.3 + s * dZ), 40, step_size, momentum, record=[10, 40]) for s in (1, -1)
        )
        expected = (above.attention - below.attention) / 2e-5
        scale = np.abs(expected).max()
        assert np.abs(result.attention[:, place] - expected).max() < 1e-6 * scale
        flow = sd.sensitivity(system(0.2, 0.3), times)
        assert np.abs(flow.attention[:, place] - expected).max() > 1e-2 * scale
        assert np.abs(result.loss[:, place] - (above.loss - below.loss) / 2e-5).max() < 1e-6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"wrt": [("P", np.ones((2, 3)))]}, r"direction of P of shape"),
        ({"wrt": [("P", np.eye(2, 30))]}, "0 where P is 0|sum to 0"),
        ({"momentum": 0.5}, "step_size with momentum"),
        ({"step_size": 0.3}, "increasing whole multiples of step_size = 0.3"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], sentence: str) -> None:
    """Assert one sentence per wrong parameter or direction, for momentum without steps, and times between steps."""
    with pytest.raises(InputError, match=sentence):
        sensitivity(MeanField(syn_small(), 1.0, 1.0), [1.0, 2.0], **options)


class Decay(System):
    """x' = -x from start^2."""

    def __init__(self, start: float) -> None:
        self.parameters = {"start": start}

    def initial_state(self) -> Any:
        return np.array([self.parameters["start"] ** 2])

    def write_rate(self, state: Any, out: Any) -> None:
        out[0] = -state[0]


def test_time_at_which_the_loss_crosses_a_level() -> None:
    """Assert that the derivatives by the rates obey eta_Y dt/deta_Y + eta_Z dt/deta_Z = -t: both rates scale time."""
    result = sensitivity(MeanField(CLASSES, ETA_Y, ETA_Z), np.linspace(0.0, 20.0, 401))
    at, slopes = result.crossing("loss", level=float(result.trajectory.loss[200]))
    assert at == pytest.approx(10.0, rel=1e-9)
    assert np.array([ETA_Y, ETA_Z]) @ slopes == pytest.approx(-at, rel=1e-3)
    with pytest.raises(InputError, match="observable"):
        result.crossing("los", level=1.0)
