"""The protocols as sans-I/O machines: no clock, no socket, no global random number."""
