"""Designs of phase diagrams: their panels, the measures over whole grids, and the theory's lines."""
