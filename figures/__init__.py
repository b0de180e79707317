"""snapdyn."""
