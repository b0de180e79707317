"""Files about packaging say what setup.cfg says."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
NEEDS = dict(re.split(r" *>= *", line.lower()) for line in SETUP["options"]["install_requires"].splitlines() if line)


def numbers(version: str) -> tuple[int, ...]:
    """Parts of a version without zeros at the end."""
    return tuple(int(part) for part in re.sub(r"(\.0)+$", "", version).split("."))


def test_the_lowest_versions_are_those_of_the_requirements() -> None:
    """Assert that constraints-lowest.txt pins every requirement at its lowest version."""
    lines = (ROOT / "constraints-lowest.txt").read_text().lower().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, least in NEEDS.items():
        # A patch release may be the first that works with this Python.
        assert numbers(pins[name])[: len(numbers(least))] == numbers(least), name


def test_every_requirement_is_pinned() -> None:
    """Assert that constraints.txt pins what `make setup` installs: the dependencies and their extras."""
    pins = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert pins >= set(NEEDS)
    (extras,) = re.findall(r"^EXTRAS \?= ([\w,]+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for extra in extras.split(","):
        names = re.findall(r"^([\w-]+)", SETUP["options.extras_require"][extra], re.MULTILINE)
        assert names
        assert pins >= set(names), extra


def test_the_conda_recipe_has_the_same_requirements() -> None:
    """Assert names and versions of the recipe; conda calls matplotlib without its GUI matplotlib-base."""
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    run = recipe.split("  run:\n")[1].split("\n\n")[0].replace("matplotlib-base", "matplotlib")
    needs = dict(re.findall(r"- (\S+) >=(\S+)", run))
    assert needs.pop("python") == SETUP["options"]["python_requires"].removeprefix(">=")
    assert needs == NEEDS
    assert f'version: "{SETUP["metadata"]["version"]}"' in recipe
