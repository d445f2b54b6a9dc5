"""Views: in which order they come, and what is delivered in them.

Views are named by numbers that increase; every one a process installs, the first too, is an
`install` in the trace.  A process that recovers is a new process [SVS §2], so everything here is
by life: the process and its incarnation.

Rule: view order [VSD app. A]; Sending View Delivery [SVS §4.1]; primary partition [SVS §2], primary
views [VSD §1].
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from semcast.specs.history import EventHandler, Incarnation
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    CONFIRM,
    DELIVER,
    INSTALL,
    LEAVE,
    MULTICAST,
    NOT_PRIMARY,
    ORDER,
    Event,
)
from semcast.terms.ids import Rank, Seq


class ViewOrder:
    """Each process installs views by increasing number and of one lineage, and only views it is a
    member of; a number names one membership; what a process says to happen in a view happens while
    it is in it."""

    __slots__ = ("_current", "_first", "_ledger", "_misplaced", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # views installed
        self._current: dict[Incarnation, Event] = {}
        self._first: dict[int, Event] = {}  # by view
        self._misplaced: set[tuple[Incarnation, int]] = set()

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        inside = dict.fromkeys((MULTICAST, DELIVER, CONFIRM), self.on_inside)
        return {INSTALL: self.on_install, **inside}

    def on_install(self, event: Event) -> None:
        """Compare with the view it had, and with how others installed the same view."""
        self.checked += 1
        life, view = (event.pid, event.inc), event.view
        if event.pid not in event.members:
            self._report(event, f"installed view {view}, but is not a member of it")
        first = self._first.setdefault(view, event)
        if first.members != event.members:
            self._report(event, f"installed view {view} with different members", first)
        last = self._current.get(life)
        if last is not None and view <= last.view:
            self._report(event, f"installed view {view} after view {last.view}", last)
        if last is not None and event.lineage != last.lineage:
            self._report(event, f"installed view {view} of a different lineage", last)
        self._current[life] = event

    def on_inside(self, event: Event) -> None:
        """The view that it names is the one that the process is in; what only says the order is
        none of the application's business."""
        life = event.pid, event.inc
        current = self._current.get(life)
        if (current is not None and current.view == event.view) or event.note == ORDER:
            return
        if (life, event.view) not in self._misplaced:
            self._misplaced.add((life, event.view))
            at = "in none" if current is None else f"in view {current.view}"
            self._report(
                event, f"reports {event.kind} in view {event.view} when it is {at}", current
            )

    def _report(self, event: Event, what: str, before: Event | None = None) -> None:
        self._ledger.add("view_order", f"process {event.pid} {what}", before, event)


class SendingViewDelivery:
    """No message is delivered in another view than the one it was multicast in."""

    __slots__ = ("_ledger", "_multicast", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # deliveries
        self._multicast: dict[tuple[Rank, int, Seq], Event] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {MULTICAST: self.on_multicast, DELIVER: self.on_deliver}

    def on_multicast(self, event: Event) -> None:
        """Learn in which view a message was sent."""
        self._multicast.setdefault((event.sender, event.sender_inc, event.seq), event)

    def on_deliver(self, event: Event) -> None:
        """A message that nobody multicast is integrity's concern."""
        self.checked += 1
        sent = self._multicast.get((event.sender, event.sender_inc, event.seq))
        if sent is not None and sent.view != event.view:
            what = (
                f"process {event.pid} delivered {event.sender}:{event.seq} in view {event.view}, "
                f"multicast in view {sent.view}"
            )
            self._ledger.add("sending_view_delivery", what, sent, event)


class PrimaryOrder:
    """The primary views are one sequence, in which consecutive ones share members.

    Each has a majority of the members of the one before it [SVS §2]; who leaves of its own accord
    votes on the view after it, so it counts, who is dropped does not.  With a fixed number of
    `servers`, each has a majority of them instead [VSD §1], or one of the `quorums` if there are
    any."""

    __slots__ = ("_leaving", "_ledger", "_primary", "_quorums", "_servers", "checked")

    def __init__(
        self,
        ledger: ViolationLog,
        servers: int | None,
        quorums: Sequence[frozenset[Rank]] = (),
    ) -> None:
        self._ledger = ledger
        self._servers = servers
        self._quorums = quorums
        self.checked = 0  # pairs of consecutive primary views, or with `servers` single ones
        self._primary: dict[int, tuple[Event, frozenset[Rank]]] = {}
        self._leaving: dict[Rank, int] = {}  # and in which incarnation

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it learns from."""
        return {INSTALL: self.on_install, LEAVE: self.on_leave}

    def on_leave(self, event: Event) -> None:
        """Learn who asked to leave; with a peer it tells of somebody who is given up."""
        if event.peer < 0:
            self._leaving[event.pid] = event.inc

    def on_install(self, event: Event) -> None:
        """Learn a primary view, and who was leaving when it came."""
        if event.inc > self._leaving.get(event.pid, event.inc):
            del self._leaving[event.pid]  # It came back.
        if event.note != NOT_PRIMARY and event.view not in self._primary:
            self._primary[event.view] = event, frozenset(self._leaving)

    def on_end(self) -> None:
        """Judge the primary views in their order."""
        in_order = [self._primary[view] for view in sorted(self._primary)]
        if self._servers is not None:
            self.checked += len(in_order)
            for install, _ in in_order:
                members = set(install.members)
                if self._quorums:
                    is_few = not any(quorum <= members for quorum in self._quorums)
                else:
                    is_few = 2 * len(members) <= self._servers
                if is_few:
                    self._report_few(install, self._servers)
            return
        for (before, _), (after, leaving) in pairwise(in_order):
            self.checked += 1
            one, other = set(before.members), set(after.members)
            shared = len(one & (other | leaving))
            if 2 * shared > len(one):
                continue
            what = (
                f"primary view {after.view} has {shared} of the {len(one)} members "
                f"of primary view {before.view}"
            )
            self._ledger.add("primary_order", what, before, after)

    def _report_few(self, install: Event, servers: int) -> None:
        has = len(set(install.members))
        what = f"primary view {install.view} has {has} of all {servers} servers"
        self._ledger.add("primary_order", what, install)
