"""`snapdyn explore`: sliders for the settings, live curves and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapdyn.commands.terminal import DIFFERS, DONE, prepare, progress_bar, say, show


def explore(
    static: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page of precomputed settings instead; needs no marimo."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Port of the notebook; default a free one.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the notebook in the browser.")] = True,
) -> int:
    """Explore the dynamics: sliders for the settings, with live attention, gamma and relative gain, and verdicts.

    A marimo notebook opens in the browser (pip install 'snapdyn[explore]'); Ctrl-C ends it. The page of --static works
    offline, in any browser.

    Example: snapdyn explore

    Example: snapdyn explore --static explorer.html
    """
    if static is not None and (port is not None or not browser):
        from snapdyn.errors import InputError

        raise InputError(
            "expected --static alone, received --port or --no-browser too, which are for the notebook; leave one out"
        )
    if static is not None:
        from snapdyn.explorer.static_page import build_static_page

        prepare(static)
        with progress_bar("computing") as update:
            show(str(build_static_page(static, progress=update)))
        return DONE
    import os
    import subprocess
    import sys
    from importlib.resources import as_file, files
    from importlib.util import find_spec

    from snapdyn.errors import InputError

    if find_spec("marimo") is None:
        raise InputError(
            "expected marimo for the notebook, received no such package; run `pip install 'snapdyn[explore]'`, or "
            "write a page of precomputed settings with --static FILE.html"
        )
    options = [*(["--port", str(port)] if port is not None else []), *([] if browser else ["--headless"])]
    with as_file(files("snapdyn.explorer") / "notebook.py") as notebook:
        # marimo looks for newer versions of itself on the network unless told not to.
        surroundings = os.environ | {"MARIMO_SKIP_UPDATE_CHECK": "1"}
        command = [sys.executable, "-m", "marimo", "-y", "run", str(notebook), *options]
        with subprocess.Popen(command, env=surroundings) as server:
            try:
                code = server.wait()
            except KeyboardInterrupt:
                server.terminate()
                raise
    if code:
        say(f"marimo ended with exit code {code}")
        return DIFFERS
    return DONE
