"""Sizes of rounding errors that tests of the dynamics share."""

EPS = 2.3e-16  # just above the machine epsilon of float64
ROUNDING = 1e-13  # a few dozen operations (exp, log, short sums, a small inverse), relative
# Sums of at most a few hundred products, each accurate to a few EPS: thousands of EPS of the largest value, and ten
# orders of magnitude below any wrong term.
ROUNDING_OF_SUMS = 1e-12
