"""The planted errors: they fit the sources, and the program tells an error from a true variant."""

import tomllib
from pathlib import Path

import pytest

from tests.planted import plant

FILES = sorted(plant.HERE.glob("*.toml"))
INSTANCE = """{P = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], query = [0, 0], weights = [1.0, 1.0], vocab_size = 9, \
eta_Y = 1.0, eta_Z = 1.0, t_end = 1.0}""".replace("\\\n", "")


def entry(kind: str, old: str, new: str) -> str:
    """An entry of lemma13, whose bound two classes reach."""
    facts = f'claim = "lemma13"\nfile = "correlation/lemma13_14_15.py"\nold = "{old}"\nnew = "{new}"\n'
    return (
        f"[[variant]]\n{facts}" if kind == "variant" else f'[[error]]\nkind = "{kind}"\n{facts}instance = {INSTANCE}\n'
    )


def test_there_are_enough_in_all_chapters() -> None:
    """Assert 200 errors and 100 true variants or more, in every chapter of the register."""
    chosen = list(plant.entries(FILES))
    errors = [each for each in chosen if each["kind"] != "true variant"]
    assert len(errors) >= 200
    assert len(chosen) - len(errors) >= 100
    chapters = tomllib.loads((plant.CLAIMS / "register.toml").read_text(encoding="utf-8"))["chapters"]
    assert {file.stem for file in FILES} == set(chapters)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_texts_to_replace_are_in_the_sources(file: Path) -> None:
    """Assert that each text occurs once, that errors name what refutes them, and that chapters do not mix."""
    for entry in plant.entries([file]):
        assert entry["file"].startswith(f"{file.stem}/")
        plant.Planted(entry["file"], entry["old"], entry["new"])
        assert entry["kind"] in plant.TRUE or {"instance", "setting"} & set(entry)
        assert entry["old"] != entry["new"]


@pytest.mark.slow
def test_an_error_is_noticed_and_a_true_variant_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert the row of an error of lemma13, no false alarm, and that an instance which refutes nothing is named."""
    file = tmp_path / "own.toml"
    overlap, bound = "E[i, j] / bound(E)", "1 + UNITS * len(E) * EPS"
    entries = [
        entry("factor 1.2", overlap, f"1.2 * {overlap}"),
        entry("factor", overlap, f"0.9 * {overlap}"),
        entry("variant", bound, f"{bound} * 2"),
    ]
    file.write_text("".join(entries))
    monkeypatch.setattr("sys.argv", ["plant.py", str(file), "--quick", "--jobs", "1"])
    assert plant.main() == 1
    output = capsys.readouterr().out
    assert "NOT VALID lemma13, '0.9 * E[i, j] / bound(E)': its instance does not refute it" in output
    assert "| all | 1 | 1 | 1 |" in output
    assert "True variants: 1, false alarms: 0." in output
    assert "unnoticed" not in output
