"""Fixtures of the tests of experiments."""

import pytest

from tests.experiments.sweep.helpers import fake_training


@pytest.fixture
def instant_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the training of transformers by made-up runs."""
    monkeypatch.setattr("snapdyn.experiments.run_sections.train_transformer", fake_training)
