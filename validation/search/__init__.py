"""Search for counterexamples to statements about all instances: domains, instances, runs, simpler ones."""
