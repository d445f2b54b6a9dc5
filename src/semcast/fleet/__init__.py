"""Live processes: launched, disturbed through a relay, measured and judged."""
