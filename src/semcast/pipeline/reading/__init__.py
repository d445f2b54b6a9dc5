"""Traces, lakes and keyed files as DataFrames or Arrow tables."""
