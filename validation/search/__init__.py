"""Search for counterexamples to statements about all instances: domains, instances, simpler instances."""
