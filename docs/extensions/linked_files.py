"""Files of the project that a page names: each name is a link that downloads the file."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class LinkedFiles(SphinxTransform):
    """Turn a name in code such as `examples/trace_torch.py` into a link where the project has that file."""

    default_priority = 400

    def apply(self) -> None:
        """Replace the names of the page."""
        root = Path(self.app.srcdir).parent
        for name in list(self.document.findall(nodes.literal)):
            path = name.astext()
            inside_link = isinstance(name.parent, nodes.reference | addnodes.pending_xref | addnodes.download_reference)
            if not inside_link and Path(path).suffix and (root / path).is_file():
                name.replace_self(addnodes.download_reference("", "", name.deepcopy(), reftarget=f"/../{path}"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Read every page with the links."""
    app.add_transform(LinkedFiles)
    return {"parallel_read_safe": True}
