"""Where files are kept that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Folder of files that can be made again: $SNAPDYN_CACHE, else $XDG_CACHE_HOME/snapdyn, else ~/.cache/snapdyn."""
    if own := os.environ.get("SNAPDYN_CACHE"):
        return Path(own)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rule: a relative path counts as none.
    return (base if base.is_absolute() else Path.home() / ".cache") / "snapdyn"
