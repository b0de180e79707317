"""Systems of ordinary differential equations, one per file: what `integrate` integrates."""
