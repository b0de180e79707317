"""Training of transformers: what a run records, options, wrong arguments. Needs torch."""

import inspect
import subprocess
import sys
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import train_transformer
from snapdyn.dynamics.training.transformer.settings import TransformerSettings
from snapdyn.errors import InputError
from tests.dynamics.training.transformer.helpers import assert_same, train
from tests.helpers import FABLE

pytestmark = pytest.mark.usefixtures("one_thread")


def test_what_a_run_records() -> None:
    """Assert shapes, the uniform start's entropy, that the loss falls, and that the same seed gives the same bits."""
    run = train(iterations=60, embedding_norm=1e-3)
    assert run.iteration.tolist() == [0, 20, 40, 60]
    assert run.attention.shape == (4, 6, 6)
    assert (run.corpus, run.num_layers, len(run.tokens)) == ("fable.txt", 1, 6)
    # Vectors of length 1e-3 make scores of at most 1e-6.
    assert run.entropy[0] == pytest.approx(np.log(np.arange(1, 6)).mean(), abs=1e-5)
    assert np.isnan(run.change[0])
    assert (run.change[1:] >= 0).all()
    learned = train(iterations=60)
    assert learned.loss[-1] < learned.loss[0]
    assert_same(learned, train(iterations=60))
    assert not np.array_equal(learned.entropy, train(iterations=60, seed=1).entropy)
    assert_same(train(clip=np.inf), train(clip=None))


def test_options_change_the_model() -> None:
    """Assert that depth, residual connection and exchanged words each give another run."""
    losses = [
        train(**options).loss[-1]
        for options in (
            {}, {"num_layers": 3}, {"num_layers": 3, "residual": False}, {"residual": True}, {"shuffle": True},
            {"clip": 0.01},
        )
    ]  # fmt: skip
    assert len(set(losses)) == len(losses)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"num_layers": 0}, "num_layers"),
        ({"iterations": 1.5}, "iterations"),
        ({"record": (0, 13)}, r"record as strictly increasing steps in 0\.\.12"),
        ({"record": (3, 3)}, "record as strictly increasing"),
        ({"shuffle": "no"}, "shuffle to be true or false"),
        ({"validation_share": 1.0}, "validation_share between 0 and 1"),
        ({"window": 1}, "window"),
        ({"window": 5000}, "a document of at least 5001 words in the training text"),
        ({"clip": -1}, "clip"),
        ({"device": "abacus"}, "a device that torch can use"),
        ({"corpus": ""}, "name of the data"),
        ({"learning_rate": 1e30, "clip": None}, "at which the loss is"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], message: str) -> None:
    """Assert one sentence for each argument that cannot be, and for training that diverges."""
    with pytest.raises(InputError, match=message) as caught:
        train(**changes)
    assert "\n" not in str(caught.value)


def test_every_setting_is_described_with_its_default() -> None:
    """Assert that help(train_transformer) names each setting, with its default where it is a value."""
    described = inspect.getdoc(train_transformer) or ""
    for setting in fields(TransformerSettings):
        value = setting.default
        default = "" if value is None or value is MISSING else f" = {value!r}"
        assert setting.name == "paths" or f"`{setting.name}`{default}" in described
    with pytest.raises(TypeError, match="rate"):
        train(rate=1.0)


def test_without_torch_one_sentence_says_how_to_install_it() -> None:
    """Assert that importing the package does not import torch, and what a run says where there is none."""
    code = (
        "import sys, snapdyn as sd, snapdyn.dynamics\n"
        "print('torch' in sys.modules)\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise ImportError('No module named torch')\n"
        "sys.meta_path.insert(0, Without())\n"
        f"try: sd.train_transformer({str(FABLE)!r}, learning_rate=1)\n"
        "except sd.InputError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("False\nexpected PyTorch")
    assert told.endswith("install it with pip install 'snapdyn[text]'\n")
