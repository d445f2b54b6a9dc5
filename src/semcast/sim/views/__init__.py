"""Members of changing views under the simulator: their lives, their faults, swarm and mutants."""
