"""Files that tests of several rooms read."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FABLE = ROOT / "tests" / "data" / "fable.txt"
# Not part of the repository; tests that need it say so when they skip.
WIKITEXT = Path(os.environ.get("SNAPDYN_WIKITEXT", ROOT.parent / "shared" / "data" / "wikitext-2"))
