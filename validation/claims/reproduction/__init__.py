"""Reproductions of the paper's numbers."""
