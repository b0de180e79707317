"""Exact symmetries of the mean field: values that start equal and stay equal, and the flow of one of each kind."""
