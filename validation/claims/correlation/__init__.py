"""Overlaps of classes: E, its eigenvalues, Assumption 2 and Theorem 1(a)."""

from snapdyn.validation.claims.correlation import assumption2, lemma13, lemma14, lemma15, lemma16, lemma17, theorem1a

# In the order of the register.
MODULES = (
    lemma13,
    lemma14,
    lemma15,
    lemma16,
    lemma17,
    assumption2,
    theorem1a,
)
