"""Gradients of the loss, and attention of long sequences."""
