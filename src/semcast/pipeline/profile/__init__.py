"""Obsolescence profiles: distances, their bins and curves, files and figure."""
