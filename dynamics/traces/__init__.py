"""Traces of training recorded elsewhere: their arrays, their clock, and files."""
