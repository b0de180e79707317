"""Code blocks of the pages in Markdown, and what runs them as a reader would: in order, in one empty folder per page.

- ``python``: run in one namespace per page. A block whose first line is ``# NAME.py`` or ``# NAME.toml`` is a file,
  which the reader writes before the first command; a command may follow the name after a colon.
- ``sh``: each line is one command, without pipes and the like. `snapdyn` and `python` run, `make` and
  `pip install` must name what exists.
- ``text``: what the block before it prints, with ``...`` for what depends on the machine.
- ``<!-- not run: reason -->`` before a block, or ``<!-- not run: `start of a command`: reason -->``, leaves it out.
"""

import configparser
import doctest
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from snapdyn.commands.main import main
from tests.helpers import ROOT

_BLOCK = re.compile(
    r"(?P<marks>(?:^<!-- [^\n]* -->\n)*)^```(?P<language>\S*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"<!-- not run: (?:`([^`]+)`: )?(.+) -->")
_FILE = re.compile(r"# (\S+\.(?:py|toml))(?:: +(\S.*))?\n")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page; `left_out` maps the start of a command, or "" for all, to the reason."""

    language: str
    code: str
    left_out: dict[str, str]

    @property
    def file(self) -> str | None:
        """Name of the file that the block is."""
        match = _FILE.match(self.code)
        return match[1] if match else None

    def commands(self) -> Iterator[tuple[list[str], bool]]:
        """Each command of the block, split into words, and whether it runs."""
        match = _FILE.match(self.code)
        lines = self.code.splitlines() if self.language == "sh" else [match[2]] if match and match[2] else []
        for line in lines:
            # Operators of the shell become words of their own, which `run_command` refuses.
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
            if words:
                yield words, not any(line.startswith(start) for start in self.left_out)


def page_blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page that are not directives of MyST."""
    found = []
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if not match["language"].startswith("{"):
            left_out = dict(_MARK.findall(match["marks"]))
            found.append(Block(match["language"], match["code"], left_out))
    return found


@dataclass
class Walk:
    """What a reader has after the blocks of a page: names, and where they printed something else than it shows."""

    names: dict[str, object] = field(default_factory=dict)
    differing: list[tuple[str, str]] = field(default_factory=list)


def walk(page: Path) -> Walk:
    """Run the blocks of a page in the current folder; raises what a block raises."""
    done = Walk({"__name__": f"page_{page.stem}"})
    blocks = page_blocks(page)
    for block in blocks:
        if block.file:
            Path(block.file).write_text(block.code, encoding="utf-8")
            if block.file.endswith(".py"):
                compile(block.code, block.file, "exec")
    said = ""
    for block in blocks:
        if block.language == "text":
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            if not doctest.OutputChecker().check_output(block.code, said, options):
                done.differing.append((block.code, said))
        elif "" not in block.left_out:
            output = StringIO()
            with redirect_stdout(output):
                if block.language == "python" and not block.file:
                    exec(compile(block.code, str(page), "exec"), done.names)
                for words, runs in block.commands():
                    if runs:
                        run_command(words)
            said = output.getvalue()
    return done


def run_command(words: list[str]) -> None:
    """Run one command of a page, or look up what it names."""
    operators = [word for word in words if set(word) <= set("();<>|&") or "$" in word or "`" in word]
    assert not operators, f"expected one plain command, received {operators} in {words}"
    runner = _RUNNERS.get(words[0])
    assert runner, f"expected a command that can run, or a mark <!-- not run: reason -->; received {words}"
    runner(words)


def _snapdyn(words: list[str]) -> None:
    assert main(words[1:]) == 0, words


def _python(words: list[str]) -> None:
    subprocess.run([sys.executable, *words[1:]], check=True, timeout=600)


def _make(words: list[str]) -> None:
    assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words


def _pip(words: list[str]) -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for extra in re.findall(r"snapdyn\[(\w+)\]", " ".join(words)):
        assert extra in setup["options.extras_require"], words


_RUNNERS: dict[str, Callable[[list[str]], None]] = {"snapdyn": _snapdyn, "python": _python, "make": _make, "pip": _pip}
