"""Faults at a place in the protocol instead of a moment in time.

Random seeds rarely hit the window between a purge and the sends that should follow it.  A
failpoint names an event, or a kind of datagram; the process stops, or is cut off, inside the
handler in which it occurs, after only a share of what that handler wanted to send and deliver has
happened.
"""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

import msgspec

from semcast.faults.schedule import Downtime
from semcast.terms.effects import Effects
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MULTICAST, Event
from semcast.terms.ids import EVERYONE
from semcast.terms.limits import check_positive, check_range
from semcast.terms.outputs import Delivery, Installed, Output, delivered


class Failpoint(msgspec.Struct, frozen=True, tag="failpoint"):
    """The handler of `pid` in which the `nth` event of that `kind` (and `note`, unless None)
    occurs, or in which it sends its `nth` datagram of that kind.

    `keep_effects` is the share of the handler's effects that still happens; a multicast counts
    once per destination.
    """

    pid: int
    kind: str
    note: str | None = None
    nth: int = 1
    keep_effects: float = 0.0

    def __post_init__(self) -> None:
        check_range("pid", self.pid, 0)
        check_range("nth", self.nth, 1)
        check_range("keep_effects", self.keep_effects, 0, 1)


class FailpointCrash(Downtime, frozen=True, tag="stumble"):
    """A crash at a failpoint."""

    point: Failpoint

    @property
    def pid(self) -> int:
        return self.point.pid


class Isolation(msgspec.Struct, frozen=True, tag="isolation"):
    """The process neither sends nor receives for `for_s`, from the handler at `point` on."""

    point: Failpoint
    for_s: float

    def __post_init__(self) -> None:
        check_positive("for_s", self.for_s)

    @property
    def pid(self) -> int:
        return self.point.pid


class FailpointSet:
    """The failpoints of one process, with how many events each still has to see.

    `kinds` are the kinds of events and datagrams that it has to be shown.
    """

    __slots__ = ("_left", "_points", "kinds")

    def __init__(self, failpoints: Iterable[Failpoint]) -> None:
        self._points = tuple(failpoints)
        self._left = [point.nth for point in self._points]
        self.kinds = frozenset(point.kind for point in self._points)

    def triggered(self, events: Sequence[Event], sent: Iterable[str] = ()) -> Failpoint | None:
        """Count one handler's events and the kinds of what it sends; the failpoint reached."""
        for event in events:
            point = self._count(event.kind, event.note)
            if point is not None:
                return point
        for kind in sent:
            point = self._count(kind, "")
            if point is not None:
                return point
        return None

    def _count(self, kind: str, note: str) -> Failpoint | None:
        left = self._left
        for i, point in enumerate(self._points):
            if kind == point.kind and point.note in (None, note):
                left[i] -= 1
                if not left[i]:
                    return point
        return None


def truncate_effects(out: Effects, keep_effects: float, peers: Sequence[int], rng: Random) -> None:
    """Leave in `out` only a prefix of its effects, as a crash inside the handler would.

    The destinations of a multicast are taken in drawn order, so that over many seeds every
    subset of the members gets it.  The trace keeps what the process did to itself and loses what
    never reached the application.
    """
    sends = []
    for to, datagram in out.send:
        ranks = rng.sample(peers, len(peers)) if to is EVERYONE else to
        sends += [((one,), datagram) for one in ranks]
    weight = sum(map(_weight, out.outputs))
    keep = int(keep_effects * (len(sends) + weight))
    out.send[:] = sends[:keep]
    out.outputs[:] = _prefix(out.outputs, max(keep - len(sends), 0))
    if out.events is not None:
        installed = sum(isinstance(output, Installed) for output in out.outputs)
        left = {DELIVER: len(delivered(out.outputs)), INSTALL: installed}
        left[CONFIRM] = len(out.events) if left[DELIVER] + installed == weight else 0
        out.events[:] = _first(out.events, left)


def _weight(output: Output) -> int:
    """How many effects an output is: a message or a view each, the rest comes with them."""
    if isinstance(output, Delivery):
        return output.run.count
    return isinstance(output, Installed)


def _prefix(outputs: Iterable[Output], count: int) -> Iterator[Output]:
    """The first outputs, with `count` messages and views at most."""
    for output in outputs:
        weight = _weight(output)
        if weight > count:
            if isinstance(output, Delivery) and count:
                yield msgspec.structs.replace(output, run=output.run.slice_run(0, count))
            return
        count -= weight
        yield output


def _first(events: Sequence[Event], left: dict[str, int]) -> Iterator[Event]:
    """Of each kind in `left` the first so many, and everything of other kinds.

    A replica may enter a view and multicast in it within one handler.  The multicast proves that
    it entered the view, so everything up to the last such view is kept.
    """
    entered = {event.view for event in events if event.kind == MULTICAST}
    installs = (place for place, event in enumerate(events) if event.kind == INSTALL)
    proven = max((place for place in installs if events[place].view in entered), default=-1)
    for place, event in enumerate(events):
        if event.kind in left and place > proven:
            left[event.kind] -= 1
            if left[event.kind] < 0:
                continue
        yield event
