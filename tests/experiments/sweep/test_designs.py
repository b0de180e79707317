"""Designs of a sweep: grid, random, list."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.experiments.sweep.files import read_sweep
from tests.experiments.sweep.helpers import GOOD, dataset, swept

RANDOM = GOOD.replace('design = "grid"', 'design = "random"\ncount = 6').replace("[0.1, 0.5]", "SPREAD")
RANDOM = RANDOM.replace("[2, 3]", "{ low = 2, high = 4 }")
SPREAD = '{ low = 0.01, high = 1.0, distribution = "log-uniform" }'


def test_random_designs(tmp_path: Path) -> None:
    """Assert the ranges, whole numbers, that more cells keep the first, and that parameters do not disturb others."""
    file = tmp_path / "random.toml"

    def drawn(text: str) -> dict[str, list[Any]]:
        file.write_text(text.replace("SPREAD", SPREAD))
        return dict(read_sweep(file).design.parameters)

    six, many = drawn(RANDOM), drawn(RANDOM.replace("count = 6", "count = 4000"))
    assert {name: values[:6] for name, values in many.items()} == six
    assert drawn(RANDOM.replace("classes.num_classes", "classes.vocab_size"))["system.eta_Z"] == six["system.eta_Z"]
    assert drawn(RANDOM.replace("count = 6", "count = 6\nseed = 1"))["system.eta_Z"] != six["system.eta_Z"]
    rates, numbers = np.log10(many["system.eta_Z"]), many["classes.num_classes"]
    assert set(numbers) == {2, 3, 4}
    # Uniform on [-2, 0]: mean -1, standard error sqrt(1/3/4000); 5 of them.
    assert abs(rates.mean() + 1) < 5 * np.sqrt(1 / 3 / 4000)
    assert rates.min() >= -2
    assert rates.max() <= 0
    with pytest.raises(sd.InputError, match=r"a range that contains a whole number for classes\.num_classes"):
        drawn(RANDOM.replace("low = 2, high = 4", "low = 2.2, high = 2.8"))
    assert swept(RANDOM.replace("SPREAD", SPREAD), tmp_path, name="random") == 0
    data = dataset(tmp_path, "random")
    assert data.entropy.dims == ("cell",)
    assert data.eta_Z.values.tolist() == six["system.eta_Z"]


def test_a_parameter_of_a_rule_is_swept(tmp_path: Path) -> None:
    """Assert that "sgd.optimizer.beta2" changes the rule, and that a key of what is no table is unknown."""
    text = """
[classes]
kind = "syn_small"
[sgd]
eta_Y = 0.05
eta_Z = 0.05
steps = 20
seeds = 1
optimizer = "adam"
[sweep]
design = "grid"
observables = ["entropy"]
"sgd.optimizer.beta2" = [0.9, 0.999]
"""
    assert swept(text, tmp_path, name="rule") == 0
    data = dataset(tmp_path, "rule")
    found = [
        sd.sgd(sd.syn_small(), 0.05, 0.05, 20, seed=0, optimizer=sd.Adam(beta2=beta2)).entropy()[-1].mean()
        for beta2 in (0.9, 0.999)
    ]
    assert data.entropy.values.ravel() == pytest.approx(found, rel=1e-12)
    assert found[0] != found[1]
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace("optimizer.beta2", "steps.beta2"))
    with pytest.raises(sd.InputError, match=r"received 'steps\.beta2'"):
        list(read_sweep(file).cells())
