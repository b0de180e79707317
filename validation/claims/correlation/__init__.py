"""Overlaps of classes: E, its eigenvalues, Assumption 2 and Theorem 1(a)."""
