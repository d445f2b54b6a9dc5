"""Closed formulas of the papers, to stand beside simulation and measurement."""
