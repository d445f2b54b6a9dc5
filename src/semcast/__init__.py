"""Semantically reliable multicast: fast-changing state, current at many processes at once."""

__version__ = "0.1.0"
