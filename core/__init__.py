"""What every room needs, and what knows no dynamics: errors, memory, parallel runs, registries, prose, tables of P."""
