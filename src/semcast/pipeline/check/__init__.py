"""Verification of recorded executions at any size: one function per property, on Spark."""
