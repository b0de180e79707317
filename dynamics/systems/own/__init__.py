"""Systems that a user states: in sympy, or as a function."""
