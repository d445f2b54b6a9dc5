"""Sweeps: simulated runs as Spark tasks, their stored outcomes, results and figure."""
