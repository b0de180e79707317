"""A system from one temporary file is seen wherever names appear."""

from pathlib import Path

import numpy as np
import pytest

import snapdyn
from snapdyn.figures import FIGURES
from snapdyn.validation.phases import OBSERVABLES
from tests.helpers import Command

SYSTEM = '''
import numpy as np
import snapdyn as sd


@sd.register
class Pendulum(sd.System):
    """A pendulum of small or large swings."""

    value_names = ("angle", "velocity")

    def __init__(self, length: float, start: float = 1.0) -> None:
        self.parameters = {"length": length, "start": start}

    def initial_state(self):
        return np.array([self.parameters["start"], 0.0])

    def write_rate(self, state, out):
        out[0] = state[1]
        out[1] = -np.sin(state[0]) / self.parameters["length"]
'''
RUN = """
[system]
kind = "Pendulum"
length = 4.0
start = 0.001
[run]
times = [0.0, 3.141592653589793]
"""


def test_a_system_from_one_file(tmp_path: Path, command: Command) -> None:
    """Assert that a system appears in a run file with its parameters as keys, in the help and in error texts."""
    run, file = tmp_path / "run.toml", tmp_path / "pendulum.py"
    file.write_text(SYSTEM)
    run.write_text(RUN)
    assert "received 'Pendulum'" in command("simulate", run, code=2).err
    out = " ".join(command("simulate", run, "--load", file).out.split())
    assert "Pendulum: length = 4.0, start = 0.001" in out
    assert "angle 0.001" in out
    # Small swings: angle = start cos(t/sqrt(length)), to start^2/16 of the phase and the solver's 1e-8.
    saved = snapdyn.load(tmp_path / "run.nc")
    np.testing.assert_allclose(saved.state[-1], [0.0, -0.0005], atol=2e-9)
    assert "Pendulum" in command("simulate", "--help").out
    for text, words in (
        (RUN.replace("length", "lenght"), "received 'lenght'; did you mean 'length'?"),
        (RUN.replace("Pendulum", "Pendulun"), "did you mean 'Pendulum'?"),
        (RUN + '[classes]\nkind = "syn_small"\n', "expected no [classes] with the system Pendulum"),
    ):
        run.write_text(text)
        assert words in command("simulate", run, code=2).err


def test_what_cannot_be_registered() -> None:
    """Assert one sentence for other objects, and for a name that is taken."""
    with pytest.raises(snapdyn.InputError, match=r"^expected a subclass of System, an Observable, .* received 3"):
        snapdyn.register(3)
    with pytest.raises(snapdyn.InputError, match="'MeanField', which is taken"):
        snapdyn.register(snapdyn.MeanField)
    with pytest.raises(snapdyn.InputError, match="which is taken"):
        snapdyn.register(OBSERVABLES["entropy"])
    with pytest.raises(snapdyn.InputError, match="which is taken"):
        snapdyn.register(FIGURES["3"])
