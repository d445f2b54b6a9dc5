"""Puts the events of a service at their places between the events of its group."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from semcast.terms.effects import Effects
from semcast.terms.events import DELIVER, INSTALL, Event
from semcast.terms.ids import Pid
from semcast.terms.outputs import Delivery, Installed


class Mark(NamedTuple):
    """What was in `Effects` before an input: what there is to send, and how much else."""

    send: list[tuple[Sequence[Pid], Any]]
    outputs: int
    events: int


class EventCursor:
    """Passes on the events of the group one by one, so that the machine can add its own between."""

    __slots__ = ("_later", "_out")

    def __init__(self, out: Effects, mark: int) -> None:
        self._out = out
        self._later: deque[Event] = deque()
        if out.events is not None:
            self._later.extend(out.events[mark:])
            del out.events[mark:]

    def pass_delivery(self, delivery: Delivery) -> None:
        """Up to the delivery of its last message."""
        last = delivery.run.first + delivery.run.count - 1
        self._pass(DELIVER, lambda event: event.seq == last)

    def pass_install(self, installed: Installed) -> Event | None:
        """Up to the event of this view, which is returned."""
        return self._pass(INSTALL, lambda event: event.view == installed.view.id)

    def pass_rest(self) -> None:
        """All that is left."""
        if self._out.events is not None:
            self._out.events += self._later

    def _pass(self, kind: str, is_it: Callable[[Event], bool]) -> Event | None:
        while self._later:
            event = self._later.popleft()
            assert self._out.events is not None
            self._out.events.append(event)
            if event.kind == kind and is_it(event):
                return event
        return None
