"""Executions of every kind of protocol: thousands drawn at random, sound or with one fault, and
what the simulator records of broken protocols.

An execution goes to the monitors as it is, and to Spark as rows of one trace with all others; both
must find the same properties broken.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from . import loggers, multicasts, mutants, services, views
from .execution import Execution

__all__ = ["FAMILIES", "Execution", "Family", "multicasts", "mutants", "services"]


class Family(NamedTuple):
    """Executions, and the properties that each break somewhere among them."""

    drawn: Callable[[], Sequence[Execution]]
    names: Sequence[str]


FAMILIES = {
    "multicasts": Family(multicasts.drawn, multicasts.NAMES),
    "synchronous views": Family(partial(views.drawn, "s-vsm"), views.NAMES_SYNCHRONOUS),
    "partitionable views": Family(
        partial(views.drawn, "vs", "replicated-data"), views.NAMES_PARTITIONABLE
    ),
    "loggers": Family(loggers.drawn, loggers.NAMES),
    "services": Family(services.drawn, services.NAMES),
}
