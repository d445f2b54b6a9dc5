"""Executions of every kind of protocol: thousands drawn at random, sound or with one fault, and
what the simulator records of broken protocols.

An execution goes to the monitors as it is, and to Spark as rows of one trace with others; both must
find the same properties broken.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from . import loggers, multicasts, mutants, services, views
from .execution import Execution

__all__ = ["FAMILIES", "Execution", "Family", "mutants", "services"]


class Family(NamedTuple):
    """Executions, the properties that each break somewhere among them, and the protocols whose
    mutants are judged by the same queries; None: all."""

    drawn: Callable[[], Sequence[Execution]]
    names: Sequence[str]
    mutants_of: Sequence[str] | None = ()

    def takes(self, run: Execution) -> bool:
        return self.mutants_of is None or run.protocol in self.mutants_of


FAMILIES = {
    "multicasts": Family(multicasts.drawn, multicasts.NAMES, None),
    "synchronous views": Family(partial(views.drawn, "s-vsm"), views.NAMES_SYNCHRONOUS, ("s-vsm",)),
    "partitionable views": Family(
        partial(views.drawn, "vs", "replicated-data"), views.NAMES_PARTITIONABLE, ("vs",)
    ),
    "loggers": Family(loggers.drawn, loggers.NAMES, ("lbrm", "pbcast", "rpbcast")),
    "services": Family(services.drawn, services.NAMES),
}
