"""Fits of a theory to traces, with standard errors and a test of the residuals."""
