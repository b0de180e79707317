"""The Runge-Kutta-Chebyshev method: order, stability, tolerance, and the mean field against other solvers."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from snapdyn.dynamics.integration.scipy_solvers import RKC, _chebyshev_step


@pytest.mark.parametrize("stages", [2, 5, 20])
def test_second_order(stages: int) -> None:
    """Assert that halving the step divides the error of y' = -y^2 cos(t), y(0) = 1, by four."""

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        return -(y**2) * np.cos(t)

    errors = []
    for steps in (40, 80, 160):
        h, y = 2.0 / steps, np.ones(1)
        for i in range(steps):
            y = _chebyshev_step(slope, i * h, y, slope(i * h, y), h, stages)
        errors.append(abs(float(y[0]) - 1.0 / (1.0 + np.sin(2.0))))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    # The error is C h^2 + O(h^3): a tenth of an order off at these steps is the second term.
    assert np.abs(orders - 2.0).max() < 0.1


def test_stable_on_a_long_negative_axis() -> None:
    """Assert the exact solution of y_i' = -lambda_i y_i + 1, lambda up to 1e5, in far fewer evaluations than DOP853."""
    rates = np.geomspace(1.0, 1e5, 50)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        return 1.0 - rates * y

    solver = RKC(slope, 0.0, np.zeros(50), 5.0, rtol=1e-4, atol=1e-8)
    while solver.status == "running":
        solver.step()
    assert solver.status == "finished"
    # Local errors of at most rtol y per step add up over the steps; a rate that is not damped would be at 1e5.
    exact = -np.expm1(-5.0 * rates) / rates
    assert np.abs(solver.y / exact - 1).max() < 1e-2
    # DOP853 is stable to about h lambda = 6 with 12 evaluations a step: 1e6 evaluations.
    assert solver.nfev < 20_000
    assert 1e5 < solver.spectral_radius < 1.25e5


def test_radius_where_eigenvalues_come_in_pairs() -> None:
    """Assert the radius 1 of y' = J y, eigenvalues 1 and -1, between whose directions a power changes by 1e4.

    Growth over one iteration is 100 or 0.01.
    """
    solver = RKC(lambda t, y: np.array([1e2 * y[1], 1e-2 * y[0]]) + 1.0, 0.0, np.zeros(2), 1.0)
    assert 1.0 < solver.spectral_radius < 1.3
    assert solver.nfev < 10


@pytest.mark.long
def test_states_inside_a_step_whose_square_is_zero() -> None:
    """Assert that the state inside a step of 1e-200 is the parabola of a rate that is linear in t."""
    solver = RKC(lambda t, y: np.array([1e200 * t]), 0.0, np.zeros(1), 1e-200)
    while solver.status == "running":
        solver.step()
    middle = (solver.t_old + solver.t) / 2
    np.testing.assert_allclose(solver.dense_output()(middle), 1e200 * middle * middle / 2)


def test_bits_do_not_depend_on_the_threads_of_blas() -> None:
    """Assert that RKC gives the same bits with one and with two threads of OpenBLAS, on 150,000 values."""
    script = textwrap.dedent("""
        import hashlib
        import numpy as np
        import snapdyn as sd

        class Decay(sd.System):
            start, rates = np.random.default_rng(0).random(150_000), np.geomspace(1.0, 100.0, 150_000)

            def initial_state(self):
                return self.start.copy()

            def write_rate(self, state, out):
                np.multiply(-self.rates, state, out=out)

        run = sd.integrate(Decay(), [0.5], method="RKC", rtol=1e-3, atol=1e-6)
        print(hashlib.sha256(run.state.tobytes()).hexdigest())
    """)
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1
