"""Gossip and loggers: the machines of `lbrm`, `pbcast` and `rpbcast`."""
