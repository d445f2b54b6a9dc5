"""Replicated services: pure machines that stand on a group and answer clients."""
