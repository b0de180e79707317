"""`python -m snapdyn`: the command line."""

import sys

from snapdyn.commands.main import main

sys.exit(main())
