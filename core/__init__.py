"""What every room needs, and what knows no mathematics: errors, memory, parallel runs, registries, prose, HTML."""
