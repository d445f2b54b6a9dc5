"""Violations: a property, why, and the few events that prove it."""

from typing import Final

import msgspec

from semcast.specs.transcript import lines
from semcast.terms.events import Event

KEPT_PER_PROPERTY: Final = 20


class Violation(msgspec.Struct, frozen=True):
    """One way in which a trace breaks a property; `events` are in order of occurrence."""

    property: str
    explanation: str
    events: tuple[Event, ...]

    def __str__(self) -> str:
        return f"{self.property}: {self.explanation}\n{lines(self.events)}"


class ViolationLog:
    """All violations of one run, counted; the first few of each property, kept."""

    __slots__ = ("counts", "stored")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.stored: list[Violation] = []

    def add(self, name: str, explanation: str, *events: Event | None) -> None:
        """Record a violation; None stands for evidence that the trace does not hold."""
        count = self.counts[name] = self.counts.get(name, 0) + 1
        if count <= KEPT_PER_PROPERTY:
            evidence = tuple(event for event in events if event is not None)
            self.stored.append(Violation(name, explanation, evidence))
