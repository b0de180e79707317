"""Formulas of the site as SVG, drawn as in the report: no script, no font, no network."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from snapdyn.report.mathematics import formula_html

LOG = logging.getLogger(__name__)


def drawn(node: nodes.Element) -> str:
    """Return the drawing of a formula; one that cannot be drawn is a warning, and so an error of the build."""
    latex = node.astext().strip()
    drawing = formula_html(latex)
    if drawing.startswith("<code>"):
        LOG.warning("expected a formula that mathtext can draw, received %s", latex, location=node)
    return drawing


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside a sentence."""
    self.body.append(f'<span class="math">{drawn(node)}</span>')
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own line, with its number where it has a label."""
    label = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    ids = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    self.body.append(f'<div class="math display"{ids}>{drawn(node)}{label}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer, as `html_math_renderer = "drawn"`."""
    app.add_html_math_renderer("drawn", inline_renderers=(visit_inline, None), block_renderers=(visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
