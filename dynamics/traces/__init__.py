"""Traces of training runs recorded elsewhere: their arrays, clock and files."""
