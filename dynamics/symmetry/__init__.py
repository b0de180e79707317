"""Exact symmetries of the mean field: values that start equal stay equal, and the flow needs only one of each."""
