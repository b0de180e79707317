"""The directive `commands`: the help texts of the command line, a section per command."""

from __future__ import annotations

import contextlib
import io
import os

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from snapdyn.commands.main import app as command_line, main

WIDTH = "82"


def help_text(*words: str) -> str:
    """Return what a command prints with --help into a pipe."""
    os.environ["COLUMNS"] = WIDTH
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main([*words, "--help"])
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines())


class Commands(SphinxDirective):
    """The general help, then each command."""

    def run(self) -> list[nodes.Node]:
        """Return a literal block and a section per command."""
        found: list[nodes.Node] = [self.block()]
        for name in typer.main.get_command(command_line).list_commands(None):
            part = nodes.section("", nodes.title("", name), ids=[nodes.make_id(name)], names=[name])
            part += self.block(name)
            found.append(part)
        return found

    def block(self, *words: str) -> nodes.literal_block:
        """Return the help of a command as it is printed."""
        text = help_text(*words)
        return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
