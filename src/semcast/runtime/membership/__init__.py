"""How a process gets into its group, is known there, and leaves it."""
