"""`python -m snapdyn`: the command line."""

import sys

from snapdyn.cli import main

sys.exit(main())
