"""Batch-size-1 counts, finite sequences, and the decoder after N steps."""
