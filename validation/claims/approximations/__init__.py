"""What each approximation costs: Theorem 1(b), clocks, orders, the ladder."""
