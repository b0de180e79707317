"""Runs on a rung: the system or training that the table names, complete runs only, and errors that name the cause."""

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    FiniteLengthMeanField,
    FrozenDecoder,
    ModifiedDecoder,
    integrate,
    sgd,
)
from snapdyn.validation.rungs.run import (
    DESCENT,
    EXACT,
    FINITE_LENGTH,
    FINITE_T,
    LEADING,
    MEAN_FIELD,
    MODIFIED,
    ORBIT,
    RUNGS,
    SGD,
    run_on_rung,
    runs_on_rung,
)
from tests.validation.rungs.helpers import CLASSES

START = np.linspace(0.0, 0.3, CLASSES.num_tokens)[None]
TIMES = [1.0, 30.0]
FLOWS = {
    FINITE_LENGTH: FiniteLengthMeanField(CLASSES, 0.5, 0.1, 1000, z_initial=START),
    LEADING: ModifiedDecoder(CLASSES, 0.5, 0.1, beta="leading", z_initial=START),
    MODIFIED: FrozenDecoder(CLASSES, 0.5, modified=True, z_initial=START),
}


@pytest.mark.parametrize("rung", FLOWS)
def test_a_flow_is_its_system_with_start_and_precision(rung: str) -> None:
    """Assert that start, length and tolerances reach the system and the integrator."""
    length = {"seq_len": 1000} if rung == FINITE_LENGTH else {}
    run = run_on_rung(rung, CLASSES, 0.5, 0.1, TIMES, z_initial=START, rtol=1e-9, **length)
    expected = integrate(FLOWS[rung], TIMES, rtol=1e-9)
    assert np.array_equal(run.loss, expected.loss)
    assert np.array_equal(run.z, expected.z)


def test_training_takes_numbers_of_updates_and_seeds() -> None:
    """Assert that SGD, descent and finite T are the runs of `sgd`, recorded at the updates asked for."""
    options = {"momentum": 0.5, "seed": (3, 4)}
    for rung, batch, length in ((SGD, 2, None), (FINITE_T, 2, 7), (DESCENT, None, None)):
        own = {"batch_size": 2} | ({"seq_len": 7} if rung == FINITE_T else {}) if rung != DESCENT else {}
        runs = runs_on_rung(rung, CLASSES, 0.5, 0.1, [0, 20], **own, **options)
        expected = sgd(CLASSES, 0.5, 0.1, 20, batch, length, 0.5, seed=(3, 4), record=[0, 20])
        assert [run.z.tolist() for run in runs] == [run.z.tolist() for run in expected]


def test_the_orbit_has_the_loss_of_lemma_6_and_the_logits_of_its_beta() -> None:
    """Assert z of the orbit against Eq. (10) integrated, with both betas, and the loss -ln alpha_nn against its own."""
    for beta, rung in (("exact", EXACT), ("leading", LEADING)):
        orbit = run_on_rung(ORBIT, CLASSES, 0.5, 0.1, TIMES, beta=beta)
        run = run_on_rung(rung, CLASSES, 0.5, 0.1, TIMES, rtol=1e-10, atol=1e-13)
        assert orbit.z_support == pytest.approx(run.z_support, rel=1e-6)
        assert orbit.loss == pytest.approx(run.loss, rel=1e-8)
    K, V = CLASSES.num_classes, CLASSES.vocab_size
    assert orbit.loss == pytest.approx(
        -np.log(1 / (1 + (V - 1) * np.exp(-V * analytic.h(np.array(TIMES) / K, 0.5, V)))), rel=1e-9
    )


def test_errors_name_the_rung_the_classes_and_the_end_of_a_run() -> None:
    """Assert the sentences for an unknown rung, and a run that stopped early."""
    with pytest.raises(InputError, match="did you mean 'mean field'"):
        run_on_rung("meanfield", CLASSES, 0.5, 0.1, TIMES)
    with pytest.raises(RuntimeError, match="evaluations"):
        run_on_rung(MEAN_FIELD, CLASSES, 0.5, 0.1, [1e4], most_evaluations=20)
    assert set(FLOWS) < set(RUNGS)
