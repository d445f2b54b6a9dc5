"""Executions of every kind of protocol: thousands drawn at random, sound or with one fault, and
what the simulator records of broken protocols.

An execution goes to the monitors as it is, and to Spark as rows of one trace with others; both must
find the same properties broken.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from . import handmade, loggers, multicasts, mutants, services, views
from .execution import Execution

__all__ = ["FAMILIES", "Execution", "Family", "mutants", "services"]


class Family(NamedTuple):
    """Executions, the properties that each break somewhere among them, and the protocols whose
    mutants are judged by the same queries; None: all."""

    at_random: Callable[[], Sequence[Execution]]
    names: Sequence[str]
    mutants_of: Sequence[str] | None = ()
    by_hand: Sequence[str] = ()  # protocols

    def drawn(self) -> list[Execution]:
        """At random, and then those of tests/specs."""
        return [*self.at_random(), *handmade.drawn(*self.by_hand)]

    def takes(self, run: Execution) -> bool:
        return self.mutants_of is None or run.protocol in self.mutants_of


FAMILIES = {
    "multicasts": Family(multicasts.drawn, multicasts.NAMES, None, ("s-sm", "sm", "s-rm", "rm")),
    "synchronous views": Family(
        partial(views.drawn, "s-vsm"),
        views.NAMES_SYNCHRONOUS,
        ("s-vsm", "primary-backup"),
        ("s-vsm", "vsm"),
    ),
    "partitionable views": Family(
        partial(views.drawn, "vs", "replicated-data"),
        views.NAMES_PARTITIONABLE,
        ("vs", "replicated-data"),
        ("vs", "replicated-data"),
    ),
    "loggers": Family(
        loggers.drawn,
        loggers.NAMES,
        ("lbrm", "pbcast", "rpbcast"),
        ("lbrm", "pbcast", "rpbcast"),
    ),
    "services": Family(
        services.drawn,
        services.NAMES,
        ("primary-backup", "replicated-data"),
        ("primary-backup", "replicated-data"),
    ),
}
