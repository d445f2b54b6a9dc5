"""Ids, messages, effects, trace events and errors: the words every other package speaks."""
