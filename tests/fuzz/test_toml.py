"""Damaged run, sweep and check files: each is read, or refused in one sentence."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, strategies as st

from snapdyn.core import memory
from snapdyn.core.errors import InputError
from snapdyn.experiments.run_files import ParametersSection, Simulation, read_check, read_comparison, read_simulation
from snapdyn.experiments.run_sections import SGDSection
from snapdyn.experiments.sweep.files import read_sweep
from tests.fuzz.conftest import searched

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
TEXT = """
[classes]
kind = "text"
paths = ["texts"]
window = 4
min_count = 2
[system]
kind = "MeanField"
eta_Y = 1.0
eta_Z = 0.1
[run]
times = [1.0, 10.0]
[output]
file = "result.nc"
"""
TEXTS = {example.name: example.read_text() for example in EXAMPLES} | {"text.toml": TEXT}
ODD = [
    "nan", "inf", "-inf", "-0.0", "0", "-1", "1", "2.5", "1e308", "-1e308", "1e400", "1e-320", "true", "[]", "{}",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "99999999999999999999999", "0x7f", "1_0",
    "5" * 5000, "1.0" + "0" * 5000, '""', '"x"', '"a\\u0000b"', '"a\\u001b[31mb"', "'''a\nb'''", '"' + "x" * 300 + '"',
    '"' + "x" * 100_000 + '"', '"é\\U0001F600"', '"../none"', '"none\\r.csv"', "1979-05-27", "07:32:00",
    "1979-05-27T07:32:00Z", "[[]]", "[1, [2]]", "[nan]", "[true, 1]", "[[1.0, 0.0], [1.0]]", "[1.0, 1.0]", "[1, 'a']",
    "{a = 1}", "{a.b.c = [1]}", "{low = -1e308, high = 1e308}", "{low = 1.0, high = 2.0}", "{low = 0, high = 1e300}",
    "{first = 1.0, last = 2.0, count = 3}", "{first = -1e308, last = 1e308, count = 3}",
    "{first = 1, last = 9223372036854775807, count = 9223372036854775807}",
    '{first = 1.0, last = 1e300, count = 5, spacing = "log"}', "[" * 100 + "]" * 100, "[" * 4000 + "]" * 4000,
    "{a = " * 500 + "1" + "}" * 500, "", "=", "#",
]  # fmt: skip
LINES = [
    "[classes]", "[sweep]", "[[run]]", "[classes.kind]", "unknown = 1", 'kind = "table"', 'kind = "text"', "seed = -1",
    '"sgd.eta_Y" = [1.0]', '"classes.num_classes" = [9223372036854775807]', 'design = "random"', "count = 3", "[phase]",
    "seeds = 9223372036854775807", "z_initial = [[1e308, nan]]", "num_classes = 9223372036854775807",
    "\x00", "\x1b[31m",
    "P = [[0.5, 0.5]]", "query = [9223372036854775807]", 'file = "none.npz"', "times = [1.0, 0.5]", "a.b = 1",
]  # fmt: skip


def damaged(text: str, rng: np.random.Generator) -> bytes:
    """A copy of a text with one to three faults: other values, keys and lines, nested values, other bytes."""
    lines = text.splitlines()
    for _ in range(rng.integers(1, 4)):
        fault = rng.integers(8)
        i = int(rng.integers(len(lines))) if lines else 0
        key, equals, value = lines[i].partition(" = ") if lines else ("", "", "")
        if fault <= 2 and equals:
            lines[i] = f"{key} = {ODD[rng.integers(len(ODD))]}"
        elif fault == 3 and equals:
            depth = int(rng.choice([1, 2, 50, 3000]))
            lines[i] = f"{key} = {'[' * depth}{value}{']' * depth}"
        elif fault == 4 and equals:
            lines[i] = f"{key[:-1]}{key[-1] * int(rng.integers(3))}{equals}{value}"
        elif fault == 5:
            lines[i : i + 1] = [] if rng.random() < 0.5 else [lines[i]] * 2 if lines else []
        elif fault == 6:
            lines.insert(i, LINES[rng.integers(len(LINES))])
        elif equals:
            digits = re.sub(r"\d", lambda match: match[0] * int(rng.choice([1, 1, 20])), value)
            lines[i] = f"{key} = {digits}"
    data = bytearray("\n".join(lines).encode())
    for _ in range(int(rng.choice([0, 0, 0, 1, 5])) if data else 0):
        i = int(rng.integers(len(data)))
        data[i : i + int(rng.integers(3))] = rng.bytes(int(rng.integers(3)))
    return bytes(data)


def read(file: Path, name: str) -> None:
    """Read a file as its command does, and build what is cheap to build; the computation is not started."""
    if name.startswith("sweep"):
        for _ in itertools.islice(read_sweep(file).cells(), 3):
            pass
    elif name.startswith("compare"):
        comparison = read_comparison(file)
        comparison.classes.build(file.parent)
        assert isinstance(comparison.run, SGDSection)
        comparison.run.seed_list()
        comparison.compare.observables()
    elif name.startswith("check"):
        check = read_check(file)
        if not isinstance(check.given, ParametersSection):
            check.given.build(file.parent)
    else:
        simulation = read_simulation(file)
        if isinstance(simulation, Simulation):
            simulation.build()
            simulation.run.t_eval()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file to write, where what is built in good faith stays small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "free_memory", lambda: 3e8)
        yield tmp_path_factory.mktemp("toml") / "file.toml"


@searched(500, 20_000)
@given(st.integers(0, 2**64))
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_refused_in_one_sentence(file: Path, seed: int) -> None:
    """Assert that every damaged file is read, or refused by an InputError with a message of one line."""
    rng = np.random.default_rng(seed)
    name = list(TEXTS)[rng.integers(len(TEXTS))]
    file.write_bytes(damaged(TEXTS[name], rng))
    try:
        read(file, name)
    except InputError as error:
        message = str(error)
        assert message.isprintable()
        assert message.startswith("expected ")
        assert len(message) <= 1500
        event("refused")
