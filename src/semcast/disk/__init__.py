"""The durable log: its bytes, its rules, and what is left after a crash; files are given to it."""
