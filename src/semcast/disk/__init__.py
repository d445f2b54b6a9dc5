"""The durable log: its bytes, its rules, and recovery after a crash.  The caller gives it files."""
