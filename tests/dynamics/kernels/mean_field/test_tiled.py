"""The right-hand side tile by tile, against plain dense numpy and the kernel that goes class by class."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn.dynamics import FiniteLengthMeanField, MeanField, SequenceClasses
from snapdyn.dynamics.kernels.mean_field.tiled import TILE
from snapdyn.dynamics.systems.mean_field import TiledRate
from tests.dynamics.dense_reference import Instance, mean_field, random_instance
from tests.dynamics.helpers import ROUNDING_OF_SUMS, dense_state

NEXT = tuple(n % 70 for n in range(80))
INSTANCES = {
    "one tile": random_instance(1),
    "no shared column": random_instance(2, num_classes=5, vocab_size=5),
    "two whole tiles": random_instance(3, num_classes=2 * TILE, vocab_size=2 * TILE),
    "one column beyond a tile": random_instance(4, num_classes=TILE, vocab_size=2 * TILE),
    "shared next tokens": random_instance(5, num_classes=80, next_token=NEXT, vocab_size=90),
    "one class": random_instance(6, num_classes=1, query=(3,), next_token=(6,)),
}


def dense_and_tiled(instance: Instance, vocab_size: int, threads: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """[Y', z', loss] from dense numpy with `vocab_size` outputs and from the tiles, at a random state."""
    system = MeanField(instance.classes(), 0.7, 1.3)
    state = np.random.default_rng(8).normal(0.0, 2.0, system.size)
    out = np.full(system.size, np.nan)
    loss = TiledRate(system.layout, 0.7, 1.3, threads).write(state, out)
    (Y, z), found = (dense_state(system, each) for each in (state, out))
    Y = np.append(Y, Y[:, [-1] * (vocab_size - instance.vocab_size)], axis=1)
    dY, dz, expected_loss = mean_field(replace(instance, vocab_size=vocab_size), Y, z, 0.7, 1.3)
    return [dY[:, : instance.vocab_size], dz, np.array([expected_loss])], [*found, np.array([loss])]


def error(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(expected, found, strict=True))


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize("name", INSTANCES)
def test_rates_against_dense_numpy(name: str) -> None:
    """Assert Y', z' and the loss to rounding; an output more in the theory is told apart."""
    instance = INSTANCES[name]
    assert error(*dense_and_tiled(instance, instance.vocab_size, 1)) < ROUNDING_OF_SUMS
    assert error(*dense_and_tiled(instance, instance.vocab_size + 1, 1)) > 1e3 * ROUNDING_OF_SUMS


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_change_no_number(threads: int) -> None:
    """Assert the same bits from any number of threads, more than there are tiles among them."""
    for name in ("two whole tiles", "one class"):
        one, several = (dense_and_tiled(INSTANCES[name], INSTANCES[name].vocab_size, n)[1] for n in (1, threads))
        for a, b in zip(one, several, strict=True):
            np.testing.assert_array_equal(a, b)


def many_classes() -> SequenceClasses:
    rng = np.random.default_rng(3)
    P = rng.random((100, 900)) * (rng.random((100, 900)) < 0.7)
    return SequenceClasses(P / P.sum(axis=1, keepdims=True), rng.integers(0, 9, 100), vocab_size=500)


def test_large_systems_take_the_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a large mean field takes them, and equals the kernel class by class; others and a residual do not."""
    written = []
    write = TiledRate.write
    monkeypatch.setattr(TiledRate, "write", lambda self, *values: written.append(1) or write(self, *values))
    classes, rates = many_classes(), []
    for system in (
        MeanField(classes, 1.0, 0.5),
        FiniteLengthMeanField(classes, 1.0, 0.5, None),
        MeanField(classes, 1.0, 0.5, residual=True),
        MeanField(INSTANCES["shared next tokens"].classes(), 1.0, 0.5),
    ):
        state = np.random.default_rng(1).normal(size=system.size)
        rates.append((system.derivative(0.0, state), np.array([system.loss(state)])))
    assert len(written) in (1, 2)
    assert error([*rates[1]], [*rates[0]]) < ROUNDING_OF_SUMS
