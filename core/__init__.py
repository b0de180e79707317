"""What every room needs, and what knows no dynamics: errors, memory, parallel runs, registries, prose, HTML, tables of P."""
