"""Files of `snapdyn check`."""

from pathlib import Path

import pytest

import snapdyn as sd
from snapdyn.experiments.run_files import read_check
from tests.helpers import ROOT


def written(folder: Path, text: str) -> Path:
    """File with the text."""
    file = folder / "check.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_of_its_own(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\neta_Z = 0.1\nt_end = 20.0\nonly = ["conservation"]\n',
    )
    report = read_check(file).run()
    assert [(result.id, result.status) for result in report.claims] == [("conservation", "holds")]
    assert report.settings["t_end"] == 20.0


def test_a_file_of_simulate_gives_rates_start_and_duration() -> None:
    section = read_check(ROOT / "examples" / "own_classes.toml").check
    assert (section.eta_Y, section.eta_Z, section.t_end) == (1.0, 0.1, 5000.0)
    assert section.start[0][0] == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[check]\neta_Y = 1.0\neta_Z = 0.1\n", r"\[classes\]"),
        ('[classes]\nkind = "syn_small"\n', r"\[check\]"),
        ('[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\n', "eta_Z"),
        ('[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\neta_Z = 0.1\nrung = []\n', "rungs"),
        (
            '[system]\nkind = "SingleCommonToken"\nnum_classes = 5\nvocab_size = 100\neta_Y = 1.0\neta_Z = 1.0\n'
            "rho0 = 3.0\n[run]\nfirst = 1.0\nlast = 10.0\n",
            "without classes",
        ),
        (
            '[classes]\nkind = "syn_small"\n[system]\nkind = "FrozenDecoder"\neta_Y = 1.0\n'
            "[run]\nfirst = 1.0\nlast = 10.0\n",
            "FrozenDecoder",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(sd.InputError, match=message):
        read_check(written(tmp_path, text))
