"""The ladder of approximations: its rungs on one clock, and the gaps between them."""
