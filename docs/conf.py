"""Sphinx's configuration of the site: `make docs` builds it into build/site, without network."""

import logging
import os
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "snapdyn"
author = "The snapdyn authors"
copyright = "the snapdyn authors. MIT licence"
release = version = metadata.version("snapdyn")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "drawn_formulas",
    "plain_docstrings",
    "listed_names",
    "register_lists",
    "command_help",
    "linked_files",
    "checked_links",
]
exclude_patterns = ["**/.ipynb_checkpoints"]

# Formulas are drawn as in the report, so that pages need no script and no font.
html_math_renderer = "drawn"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough"]

# Every cell of every notebook runs at each build; an exception ends the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
# Notes such as that of the first compilation depend on the machine.
nb_output_stderr = "remove"
# Nothing is loaded from elsewhere.
nb_ipywidgets_js = {}

# `name` in docstrings is a name in code.
default_role = "code"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = True
numpydoc_show_inherited_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = f"snapdyn {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}

# Kernels of the notebooks inherit these: their commands are those of this environment.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
logging.getLogger("traitlets").setLevel(logging.WARNING)
os.environ["COLUMNS"] = "82"
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"

# ipykernel warns of sockets that it does not encrypt; they stay on this machine.
settings = HERE.parent / "build" / "ipython" / "profile_default" / "ipython_kernel_config.py"
settings.parent.mkdir(parents=True, exist_ok=True)
settings.write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")
os.environ["IPYTHONDIR"] = str(settings.parents[1])
