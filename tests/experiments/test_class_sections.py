"""The section [classes]: tables in files, texts."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy import sparse

import snapdyn
import snapdyn as sd
from snapdyn.commands.main import main
from snapdyn.core.errors import InputError
from snapdyn.experiments.class_sections import CLASSES, read_table
from snapdyn.experiments.run_files import read_simulation
from tests.experiments.helpers import P_LINE, TABLE, refusal
from tests.helpers import FABLE


def test_table_files_equal_the_inline_table(tmp_path: Path) -> None:
    """Assert that P inline, as CSV, as a numpy array and as a sparse matrix give equal classes."""
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    np.savetxt(tmp_path / "P.csv", P, delimiter=",")
    np.savez(tmp_path / "dense.npz", P=P)
    for form in ("csr", "dia"):
        sparse.save_npz(tmp_path / f"{form}.npz", sparse.csr_array(P).asformat(form))
    file = tmp_path / "run.toml"
    file.write_text(TABLE)
    inline = read_simulation(file).build().classes
    for name in ("P.csv", "dense.npz", "csr.npz", "dia.npz"):
        file.write_text(TABLE.replace(P_LINE, f'file = "{name}"'))
        assert read_simulation(file).build().classes == inline


TEXT_SYSTEM = """
[system]
kind = "MeanField"
eta_Y = 1.0
eta_Z = 0.1
[run]
times = [1.0]
"""


def test_classes_of_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that texts with options, and the saved classes, give what the library makes of them."""
    text = FABLE
    classes = snapdyn.from_text(text, min_count=1, min_token_count=1, window=4)
    classes.save(tmp_path / "classes.nc")
    expected = snapdyn.integrate(snapdyn.MeanField(classes, 1.0, 0.1), [1.0]).z
    file = tmp_path / "run.toml"
    for section in (f"paths = ['{text}']\nmin_count = 1\nmin_token_count = 1\nwindow = 4", "file = 'classes.nc'"):
        file.write_text(f"[classes]\nkind = 'text'\n{section}\n{TEXT_SYSTEM}")
        assert main(["simulate", str(file)]) == 0
        np.testing.assert_array_equal(snapdyn.load(tmp_path / "run.nc").z, expected)
    capsys.readouterr()
    options = set(inspect.signature(snapdyn.from_text).parameters) - {"progress", "read_ahead"}
    assert CLASSES["text"].model_fields.keys() == options | {"kind", "file"}
    for section, hint in (
        ("", "received neither"),
        ("file = 'classes.nc'\npaths = ['a.txt']", "received both"),
        ("file = 'classes.nc'\nwindow = 4", "received window"),
        ("paths = ['missing.txt']", "missing.txt"),
    ):
        sentence = refusal(f"[classes]\nkind = 'text'\n{section}\n{TEXT_SYSTEM}", tmp_path, capsys)
        assert hint in sentence


SYMMETRIC = """
[classes]
kind = "symmetric_classes"
num_queries = 2
vocab_size = 10000000000
[[classes.kinds]]
common = [0.3]
distinct = [0.2, 0.5]
classes_per_query = 1000000000
[[classes.kinds]]
common = [0.1]
distinct = [0.9]
weight = 2.0
[system]
kind = "MeanField"
eta_Y = 1.0
eta_Z = 1e-9
[run]
times = [1e9, 1e10]
"""


def test_symmetric_classes_in_any_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the section gives the builder's classes, and that `simulate` shows and saves their kinds."""
    file = tmp_path / "run.toml"
    file.write_text(SYMMETRIC)
    kinds = [sd.ClassKind([0.3], [0.2, 0.5], 10**9), sd.ClassKind([0.1], [0.9], weight=2.0)]
    assert main(["simulate", str(file)]) == 0
    assert "classes per query" in capsys.readouterr().out
    run = sd.load(tmp_path / "run.nc")
    assert run.classes == sd.symmetric_classes(kinds, 2, 10**10)
    assert run.of_class(1).attention.shape == (2, 1, 2)
    assert main(["check", str(file)]) == 2
    assert "of these classes, received 2000000002 classes" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("0.5,0.5\n\n0,5,0.5\n", "expected 2 cells in line 3 of P.csv, .* received 3"),
        ("0.5,0.5\n\n0.5,x\n", "expected numbers in line 3 of P.csv"),
    ],
)
def test_rows_of_a_table_that_do_not_fit(tmp_path: Path, content: str, sentence: str) -> None:
    """Assert one sentence with the number of the line; and that a byte-order mark is no part of the first number."""
    (tmp_path / "P.csv").write_text("0.5,0.5\n0.25,0.75\n", encoding="utf-8-sig")
    np.testing.assert_array_equal(read_table(tmp_path / "P.csv"), [[0.5, 0.5], [0.25, 0.75]])
    (tmp_path / "P.csv").write_text(content)
    with pytest.raises(InputError, match=sentence):
        read_table(tmp_path / "P.csv")


DATA_SET = """
[classes]
kind = "data_set"
sequences = {sequences}
seq_len = 6
seed = 4
[classes.classes]
kind = "random_classes"
num_classes = 3
num_common = 9
"""


def test_data_set_of_other_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a file gives the library's data set, that [classes.classes] is checked, and what a sweep measures."""
    classes = sd.random_classes(3, 9)
    file = tmp_path / "run.toml"
    for sequences in (3, [1, 2, 0]):
        file.write_text(DATA_SET.format(sequences=sequences) + TEXT_SYSTEM)
        built = read_simulation(file).build().classes
        assert built == sd.data_set(classes, sequences, 6, seed=4)
        assert isinstance(built, sd.DataSet)
    nested = DATA_SET[DATA_SET.index("[classes.classes]") :]
    for fault, old, new in (
        ("'random'", "random_classes", "random"),
        ("'num_classe'", "num_classes", "num_classe"),
        ("a section", nested, "classes = 3"),
        ("sequences", "{sequences}", "2.5"),
    ):
        text = DATA_SET.replace(old, new).format(sequences=2) + TEXT_SYSTEM
        assert fault in refusal(text, tmp_path, capsys)
    sweep = '[sweep]\ndesign = "grid"\n"classes.sequences" = [1, 4]\n'
    observables = 'observables = ["spurious_attention", "fresh_loss"]\n'
    file.write_text(DATA_SET.format(sequences=2) + TEXT_SYSTEM + sweep + observables)
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    capsys.readouterr()
    with xr.open_dataset(tmp_path / "out" / "run.nc") as found:
        for N in (1, 4):
            data = sd.data_set(classes, N, 6, seed=4)
            run = sd.integrate(sd.MeanField(data, 1.0, 0.1), [1.0], save_decoder=True)
            for name in ("spurious_attention", "fresh_loss"):
                assert float(found[name].sel(sequences=N)) == pytest.approx(run.observable(name)[-1], rel=1e-9)
