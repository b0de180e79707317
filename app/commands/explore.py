"""`snapdyn explore`: sliders for the settings, live curves and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapdyn.commands.terminal import DIFFERS, DONE, say


def explore(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE.toml", help="Start with the classes and rates of this file.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Port of the notebook; default a free one.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the notebook in the browser.")] = True,
) -> int:
    """Explore the dynamics: sliders for the settings, with live attention, gamma and relative gain, and verdicts.

    A marimo notebook opens in the browser (pip install 'snapdyn\\[explore]'); Ctrl-C ends it. Only the printed address,
    which holds a token, opens it. FILE.toml is a file for `snapdyn check` or `snapdyn simulate`. Its classes stay as
    they are; sliders set the class that is shown and both rates.

    Example: snapdyn explore

    Example: snapdyn explore examples/check_own_classes.toml
    """
    import os
    import subprocess
    import sys
    from importlib.resources import as_file, files
    from importlib.util import find_spec

    from snapdyn.core.errors import InputError

    if file is not None:
        from snapdyn.explorer.sliders import OwnSettings

        OwnSettings.read(file)  # a fault in it ends the command here
    if find_spec("marimo") is None:
        raise InputError(
            "expected marimo for the notebook, received no such package; run `pip install 'snapdyn[explore]'`"
        )
    options = [*(["--port", str(port)] if port is not None else []), *([] if browser else ["--headless"])]
    with as_file(files("snapdyn.explorer") / "notebook.py") as notebook:
        # marimo looks for newer versions of itself on the network unless told not to, and its token is a hash of
        # Python, which others could compute for a known seed.
        surroundings = os.environ | {"MARIMO_SKIP_UPDATE_CHECK": "1", "PYTHONHASHSEED": "random"}
        # Neither modules nor settings (.marimo.toml) of the working folder are used.
        command = [sys.executable, "-P", "-m", "marimo", "-y", "run", str(notebook), "--token", *options]
        command += ["--", "--file", str(file.resolve())] if file else []
        with subprocess.Popen(command, cwd=notebook.parent, env=surroundings) as server:
            try:
                code = server.wait()
            except KeyboardInterrupt:
                server.terminate()
                raise
    if code:
        say(f"marimo ended with exit code {code}")
        return DIFFERS
    return DONE
