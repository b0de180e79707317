"""Theorem 4: growth exponent, phase transition, scanning and snapping, the readings."""
