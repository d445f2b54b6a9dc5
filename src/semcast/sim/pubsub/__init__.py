"""Participants under the simulator: stations with disks, their faults, their swarm and mutants."""
