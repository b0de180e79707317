"""Run and sweep files with numbers that no computer can hold: one sentence, exit code 2, nothing allocated."""

import tracemalloc
from pathlib import Path

import pytest

import snapdyn as sd
from snapdyn import memory
from snapdyn.commands.main import main
from snapdyn.errors import InputError

MOST = 2**63 - 1
CLASSES = '[classes]\nkind = "syn_small"\n'
RUN = '[system]\nkind = "MeanField"\neta_Y = 1.0\neta_Z = 1.0\n[run]\ntimes = [1.0]\n'
FROZEN = RUN.replace("MeanField", "FrozenDecoder").replace("eta_Z = 1.0\n", "")
SGD = "[sgd]\neta_Y = 1.0\neta_Z = 1.0\nsteps = 3\n"
SWEEP = '[sweep]\ndesign = "grid"\n"sgd.eta_Y" = [1.0]\n'
SINGLE = '[classes]\nkind = "single_common_token"\ncommon_probability = 0.5\n'
FILES = {
    "seeds of 77 bits": ("sweep", CLASSES + SGD + "seeds = 99999999999999999999999\n" + SWEEP, "at most 9223372036"),
    "num_distinct": ("simulate", SINGLE + f"num_classes = 2\nnum_distinct = {MOST}\n" + RUN, "free memory"),
    "decoder": ("simulate", SINGLE + "num_classes = 300000\nnum_distinct = 1\n" + FROZEN, "free memory"),
    "low and high": (
        "sweep",
        CLASSES + RUN + '[sweep]\ndesign = "random"\ncount = 3\n"system.eta_Y" = {low = -1e308, high = 1e308}\n',
        "less than 1e308 apart",
    ),
    "file": ("simulate", '[classes]\nkind = "table"\nfile = "a\\u0000.csv"\nquery = [0]\n' + RUN, "u0000"),
    "nested brackets": ("simulate", CLASSES + RUN + "x = " + 3000 * "[" + 3000 * "]" + "\n", "nested"),
    "a number of 5000 digits": ("simulate", CLASSES + RUN + f"x = {5000 * '9'}\n", "digits"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_extreme_values_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert exit code 2, one sentence that names the fault, and no more memory than the imports take."""
    command, text, fault = FILES[name]
    file = tmp_path / "file.toml"
    file.write_text(text)
    monkeypatch.chdir(tmp_path)
    tracemalloc.start()
    code = main([command, str(file)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sentence = " ".join(capsys.readouterr().err.split())
    assert code == 2
    assert fault in sentence, sentence
    assert sentence.count("expected") == 1, sentence
    assert peak < 300e6
    assert list(tmp_path.iterdir()) == [file]


def listed(num_classes: int) -> sd.SequenceClasses:
    """Classes that carry no quotient."""
    made = sd.single_common_token(num_classes, 1, 0.5)
    return sd.SequenceClasses(made.P, made.query, made.next_token, vocab_size=made.vocab_size)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sd.single_common_token(100_000, 1000, 0.5).P,
        lambda: sd.integrate(sd.MeanField(listed(20_000), 1.0, 1.0), [1.0], reduce=False),
        lambda: sd.Instance.of(sd.single_common_token(20_000, 1, 0.5), 1.0, 1.0, 1.0),
        lambda: sd.integrate(sd.MeanField(sd.syn_small(), 1.0, 1.0), sd.log_times(1.0, 2.0, 10_000_000)),
        lambda: sd.sgd(sd.syn_small(), 1.0, 1.0, steps=1_000_000, seed=range(1000)),
        lambda: sd.sgd(sd.syn_small(), 1.0, 1.0, steps=1, seed=range(10**12)),
    ],
)
def test_what_does_not_fit_into_memory_is_refused(call: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence, before anything is allocated, where one gigabyte is free."""
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**30)
    with pytest.raises(InputError, match=r"^expected .*(fit into the free memory of 1 GiB|at most 1000000 seeds)"):
        call()
