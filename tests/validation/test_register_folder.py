"""A register as a folder: the template runs, ours has the same form, and a fault is one sentence."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from snapdyn import load as load_trajectory
from snapdyn.core.errors import InputError
from snapdyn.validation import CLAIMS, FINDINGS
from snapdyn.validation.claims import claims_of_chapter, use_register
from snapdyn.validation.register_folder import OURS, register_in_use, set_register
from snapdyn.validation.search.counterexamples import load, stored_counterexamples
from tests.helpers import EXAMPLES, Command

TEMPLATE = EXAMPLES / "registers" / "template"
TOML = """
title = "Squares"
about = "Squares of numbers."
files = ["squares.py"]
[chapters.arithmetic]
title = "Arithmetic"
claims = ["lemma6", "cubes"]
"""
# The first id is that of a claim of ours; the bound lies in a module beside the file.
CLAIMS_FILE = """
import snapdyn as sd
from numbers_of_squares import square

for id_, factor in (("lemma6", 1.0), ("cubes", 2.0)):
    prop = sd.Property(
        f"x^2 over {factor}", "arithmetic", lambda p, factor=factor: sd.Measured(square(p["x"]) / factor, at_most=1.0),
        sd.Box(x=(-1.0, 1.0)),
        controls={"wrong theory: |x| + 0.37": lambda p: sd.Measured(abs(p["x"]) + 0.37, at_most=1.0)},
    )
    sd.register(sd.Claim(id_, "own", "Squares are small", "x^2 is at most 1.", latex="x^2", properties=prop))
"""


FALSE_BOX = """
import snapdyn as sd


def product(parameters):
    return sd.Measured(parameters["eta"] * parameters["arms"], at_most=7.9)


def of_arms(parameters):  # corners and draws of a search that is short reach only a part of this
    return sd.Measured(float(parameters["arms"] == 5 and 0.5 < parameters["eta"] < 0.51), at_most=0.5)


def claim(id_, measure):
    box = sd.Box(eta=(0.0, 1.0), arms=(2, 8))
    wrong = {"wrong theory": lambda parameters: sd.Measured(1.0 + parameters["eta"], at_most=0.5)}
    prop = sd.Property("product", "arithmetic", measure, box, controls=wrong, evaluations=(20, 20))
    return sd.Claim(id_, "own", "False", "The product is at most 7.9.", properties=(prop,))


sd.register(claim("product", product))
sd.register(claim("narrow", of_arms))
"""
FOLDER_OF_BOXES = """
title = "Boxes"
about = "Two claims over Boxes."
files = ["boxes.py"]

[chapters.arithmetic]
title = "Arithmetic"
claims = ["product", "narrow"]
"""


@pytest.fixture(autouse=True)
def _ours() -> Iterator[None]:
    """Our register is in use again after each test."""
    own = dict(CLAIMS.own)
    yield
    CLAIMS.declare(own.values())
    set_register(OURS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A register of two claims."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "register.toml").write_text(TOML)
    (tmp_path / "squares.py").write_text(CLAIMS_FILE)
    (tmp_path / "numbers_of_squares.py").write_text("def square(x):\n    return x**2\n")
    return tmp_path


def test_ours_has_the_same_form() -> None:
    """Assert that register.toml of the package lists every claim of its chapters' modules, and has the findings."""
    assert register_in_use() is OURS
    for name, chapter in OURS.chapters.items():
        assert sorted(claims_of_chapter(name)) == sorted(chapter.claims)
    assert OURS.findings is FINDINGS
    assert (OURS.folder / "equations.csv").is_file()


@pytest.mark.slow
def test_the_template_runs(tmp_path: Path, command: Command) -> None:
    """Assert verdicts, an answer on parameters, figures, no equations, and a page of the template alone."""
    register = ("--register", TEMPLATE)
    rates = tmp_path / "rates.toml"
    rates.write_text("[parameters]\neta = 0.3\n[check]\nonly = ['margin-law']\n")
    (answer,) = json.loads(command("check", rates, "--format", "json", *register).out)["claims"]
    assert (answer["id"], answer["status"]) == ("margin-law", "holds")
    assert command("equations", *register).out.startswith("0 displayed equations")
    printed = command("report", "--jobs", 1, "--out", tmp_path / "page", *register)
    assert "3 claims: 2 holds, 1 conditional" in printed.out
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    for words in (
        "<h1>One separable example</h1>",
        'id="margin-law"',
        'id="figure-margin"',
        "1 of 1 formulas",
        "measured: 0.01",
    ):
        assert words in page
    for words in ('id="lemma6"', 'id="figure-3"', 'id="equations"'):
        assert words not in page


@pytest.mark.slow
def test_processes_run_the_files_of_the_folder(folder: Path, command: Command) -> None:
    """Assert verdicts from two processes, of claims that use a module of the folder and have ids of ours."""
    claims = json.loads(command("validate", "--jobs", 2, "--format", "json", "--register", folder).out)["claims"]
    assert [(each["id"], each["verdict"]) for each in claims] == [("lemma6", "holds"), ("cubes", "holds")]
    assert claims[0]["command"].endswith(f"--register {folder}")
    assert "figure" not in command("figures", "--list", "--register", folder).out


def test_counterexamples_of_the_folder_are_tried(folder: Path) -> None:
    """Assert that instances stored beside register.toml are those that searches try, and ours are not."""
    (folder / "counterexamples").mkdir()
    name = "theorem2a-memory"
    stored = (OURS.folder / "counterexamples" / f"{name}.json").read_text(encoding="utf-8")
    (folder / "counterexamples" / "one.json").write_text(stored)
    assert len(stored_counterexamples()) > 1
    use_register(folder)
    (instance,) = stored_counterexamples()
    np.testing.assert_array_equal(instance.P, load(name).instance.P)


def test_a_counterexample_of_a_box_is_stored_and_tried_again(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that `validate` fails by a stored instance that its own draws do not find, and says that it is stored."""
    monkeypatch.setattr("snapdyn.commands.attack.STARTING", 600.0)  # a busy machine cuts no search
    folder, stored = tmp_path / "mine", tmp_path / "mine" / "counterexamples"
    folder.mkdir()
    (folder / "register.toml").write_text(FOLDER_OF_BOXES)
    (folder / "boxes.py").write_text(FALSE_BOX)
    arguments = ("--register", folder, "--jobs", 1)
    printed = command("attack", "product", *arguments, "--minutes", 0.01, "--store", stored, code=1)
    assert "add the mechanism to this file" in printed.err
    (file,) = stored.iterdir()
    entries = json.loads(file.read_text())
    assert entries["instance"] == {"eta": 1.0, "arms": 8}
    command("validate", "narrow", *arguments)
    file.write_text(json.dumps(entries | {"instance": {"eta": 0.505, "arms": 5}}))
    printed = command("validate", "narrow", *arguments, "--format", "json", code=1)
    assert "(stored counterexample)" in json.loads(printed.out)["claims"][0]["worst"]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("register.toml", 'title = "Squares"\n', "", "expected title to be text, received ''"),
        ("register.toml", "files", "file", "did you mean 'files'"),
        ("register.toml", '"cubes"', '"fourths"', "expected the files of .* to register claim 'fourths'"),
        ("register.toml", ', "cubes"', "", "expected claim 'cubes' of .*squares.py' in a chapter"),
        ("squares.py", '("cubes", 2.0)', '("lemma6", 2.0)', "squares.py: expected a new name for a claim, .*'lemma6'"),
        ("squares.py", "import snapdyn as sd\n", "import snapdyn as sd\n1 / 0\n", "ZeroDivisionError in line 3"),
    ],
)  # fmt: skip
def test_a_fault_is_one_sentence(folder: Path, file: str, old: str, new: str, message: str) -> None:
    """Assert the sentence, and that our register stays in use."""
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    before = dict(CLAIMS)
    with pytest.raises(InputError, match=message) as error:
        use_register(folder)
    assert "\n" not in str(error.value)
    assert dict(CLAIMS) == before
    assert register_in_use() is OURS


def test_damaged_files_beside_the_register(folder: Path, command: Command) -> None:
    """Assert one sentence for a table of equations with other columns, and for a counterexample that is none."""
    (folder / "equations.csv").write_text("equation,claims\n(1),lemma6\n")
    said = command("equations", "--register", folder, code=2).err
    assert "expected the columns equation, statement, claims" in said
    (folder / "counterexamples").mkdir()
    for text in ("{", "[]", '{"name": "x"}', '{"instance": {"eta": "1"}}', '{"instance": []}'):
        (folder / "counterexamples" / "one.json").write_text(text)
        use_register(folder)
        with pytest.raises(InputError, match=r"expected a counterexample .*one\.json"):
            stored_counterexamples()


def test_a_claim_that_raises_stops_no_other(folder: Path, command: Command) -> None:
    """Assert a sentence that names claim, error and file, and the verdict of the other claim."""
    text = (folder / "squares.py").read_text().replace("square(p", "(1 / 0 if factor == 2.0 else square)(p", 1)
    (folder / "squares.py").write_text(text)
    printed = command("validate", "--jobs", 1, "--register", folder, code=1)
    assert "1 holds" in printed.out
    assert "claim 'cubes'" in printed.err
    assert "squares.py" in printed.err


def test_a_folder_without_a_register(tmp_path: Path, command: Command) -> None:
    """Assert exit code 2 and one sentence that says where a template is."""
    said = command("validate", "--register", tmp_path, code=2).err
    assert "expected a folder with register.toml" in said
    assert "registers/template" in said


def test_a_run_may_use_the_systems_of_a_register(folder: Path, command: Command) -> None:
    """Assert that --register runs the files of a folder first: its system is a kind of run files."""
    with (folder / "squares.py").open("a") as file:
        file.write("import sympy\nx = sympy.Symbol('x')\n")
        file.write("sd.register(sd.System.from_sympy('DecayOfSquares', {x: 1.0}, {x: -(x**2)}))\n")
    run = folder / "run.toml"
    run.write_text('[system]\nkind = "DecayOfSquares"\n[run]\nfirst = 1.0\nlast = 10.0\n')
    assert "DecayOfSquares" in command("simulate", run, code=2).err
    command("simulate", run, "--register", folder)
    assert load_trajectory(folder / "run.nc").observable("x")[-1] == pytest.approx(1 / 11, rel=1e-6)
