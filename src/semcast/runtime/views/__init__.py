"""Live groups whose membership changes."""
