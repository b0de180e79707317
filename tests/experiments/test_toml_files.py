"""Reading TOML files and their sections."""

from pathlib import Path

import pytest

from snapdyn.commands.main import main
from snapdyn.core import memory
from snapdyn.experiments.toml_files import read_toml

CLASSES = '[classes]\nkind = "syn_small"\n'
RUN = '[system]\nkind = "MeanField"\neta_Y = 1.0\neta_Z = 1.0\n[run]\ntimes = [1.0]\n'
SINGLE = '[classes]\nkind = "single_common_token"\ncommon_probability = 0.5\n'
FILES = {
    "no text": ("simulate", b"\xff\xfe\x00", "UTF-8"),
    "seeds": (
        "sweep",
        CLASSES + '[sgd]\nseeds = 99999999999999999999\n[sweep]\ndesign = "grid"\n',
        "at most 92233720",
    ),
    "num_distinct": ("simulate", SINGLE + f"num_classes = 2\nnum_distinct = {2**63 - 1}\n" + RUN, "free memory"),
    "low and high": (
        "sweep",
        CLASSES + RUN + '[sweep]\ndesign = "random"\ncount = 3\n"system.eta_Y" = {low = -1e308, high = 1e308}\n',
        "to be greater than or equal to -1000000000000000000",
    ),
    "file": ("simulate", '[classes]\nkind = "table"\nfile = "a\\u0000.csv"\nquery = [0]\n' + RUN, "u0000"),
    "nested brackets": ("simulate", CLASSES + RUN + "x = " + 3000 * "[" + 3000 * "]" + "\n", "nested"),
    "a key of many parts": ("simulate", CLASSES + RUN + "x" + 20_000 * ".a" + " = 1\n", "at most 200 parts"),
    "a number of 5000 digits": ("simulate", CLASSES + RUN + f"x = {5000 * '9'}\n", "digits"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_extreme_values_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert exit code 2 and one sentence that names the fault, where one gigabyte is free."""
    command, text, fault = FILES[name]
    file = tmp_path / "file.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**30)
    monkeypatch.chdir(tmp_path)
    assert main([command, str(file)]) == 2
    sentence = " ".join(capsys.readouterr().err.split())
    assert fault in sentence, sentence
    assert sentence.count("expected") == 1, sentence
    assert list(tmp_path.iterdir()) == [file]


def test_long_words_are_read_fast(tmp_path: Path) -> None:
    """Assert that a text of one long word, and one of many sentences, are values like others."""
    file = tmp_path / "file.toml"
    words = "\n".join(f"x{n} = 'a. b. c. {n}'" for n in range(1000))
    file.write_text(f"x = '{10**6 * 'a'}'\n{words}\n", encoding="utf-8")
    assert len(read_toml(file)) == 1001
