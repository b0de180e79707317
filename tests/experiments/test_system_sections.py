"""The section [system]: its keys are the parameters of what it builds."""

import inspect
from pathlib import Path

import pytest

import snapdyn
from snapdyn.commands.main import main
from snapdyn.experiments.class_sections import CLASSES
from snapdyn.experiments.run_sections import RUN, system_models
from tests.experiments.helpers import REDUCED

BUILDERS = (
    "syn_small syn_medium single_common_token random_classes MeanField FiniteLengthMeanField FrozenDecoder "
    "ModifiedDecoder SingleCommonToken"
)


@pytest.mark.parametrize("kind", BUILDERS.split())
def test_keys_are_the_parameters(kind: str) -> None:
    """Assert that a section has exactly the parameters, and the defaults, of what it builds."""
    parameters = dict(inspect.signature(getattr(snapdyn, kind)).parameters)
    parameters.pop("classes", None)
    fields = dict((CLASSES | system_models())[kind].model_fields)
    fields.pop("kind")
    assert fields.keys() == parameters.keys()
    for name, field in fields.items():
        default = parameters[name].default
        assert field.is_required() if default is inspect.Parameter.empty else field.default == default


def test_run_has_the_defaults_of_integrate() -> None:
    """Assert that [run] leaves the solver as `integrate` has it."""
    parameters = inspect.signature(snapdyn.integrate).parameters
    for name in ("method", "rtol", "atol", "save_decoder"):
        assert RUN.model_fields[name].default == parameters[name].default


def test_reduced_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the system without classes runs, and that [output] is relative to the run file."""
    file = tmp_path / "run.toml"
    file.write_text(REDUCED + '[output]\nfile = "results/B.nc"\n')
    assert main(["simulate", str(file)]) == 0
    assert snapdyn.load(tmp_path / "results" / "B.nc").t.tolist() == [0.1, 1.0, 10.0]
    assert "\nB " in capsys.readouterr().out
