"""Executable specifications: the relation, properties as monitors, the papers' algorithms."""
