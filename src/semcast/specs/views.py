"""Views: in which order they come, what is delivered in them, and what their members share.

Views are named by numbers that increase; every one a process installs, the first too, is an
`install` in the trace.  A process that recovers is a new process [SVS §2], so everything here is
by life: the process and its incarnation.

Rule: view order [VSD app. A]; Sending View Delivery, Semantic View Synchrony [SVS §4.1]; primary
partition [SVS §2], primary views [VSD §1].
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TypeAlias

from semcast.specs.history import Watch
from semcast.specs.relation import Obsolescence
from semcast.specs.violations import Ledger
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MINORITY, MULTICAST, Event
from semcast.terms.messages import Rank, Seq

Life: TypeAlias = tuple[Rank, int]  # a process, or a sender, and its incarnation


class ViewOrder:
    """Each process installs views by increasing number, and only views it is a member of; a
    number names one membership; what a process says to happen in a view happens while it is in it.
    """

    __slots__ = ("_current", "_first", "_ledger", "_misplaced")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._current: dict[Life, Event] = {}
        self._first: dict[int, Event] = {}  # by view
        self._misplaced: set[tuple[Life, int]] = set()

    def watches(self) -> Mapping[str, Watch]:
        """The events it judges."""
        inside = dict.fromkeys((MULTICAST, DELIVER, CONFIRM), self.on_inside)
        return {INSTALL: self.on_install, **inside}

    def on_install(self, event: Event) -> None:
        """Compare with the view it had, and with how others installed the same view."""
        life, view = (event.pid, event.inc), event.view
        if event.pid not in event.members:
            self._report(event, f"installed view {view}, of which it is no member")
        first = self._first.setdefault(view, event)
        if first.members != event.members:
            self._report(event, f"installed view {view} with other members", first)
        last = self._current.get(life)
        if last is not None and view <= last.view:
            self._report(event, f"installed view {view} after view {last.view}", last)
        self._current[life] = event

    def on_inside(self, event: Event) -> None:
        """The view that it names is the one that the process is in."""
        life = event.pid, event.inc
        current = self._current.get(life)
        if current is not None and current.view == event.view:
            return
        if (life, event.view) not in self._misplaced:
            self._misplaced.add((life, event.view))
            at = "in none" if current is None else f"in view {current.view}"
            self._report(event, f"says {event.kind} in view {event.view} when it is {at}", current)

    def _report(self, event: Event, what: str, before: Event | None = None) -> None:
        self._ledger.add("view_order", f"process {event.pid} {what}", before, event)


class SendingViewDelivery:
    """No message is delivered in another view than the one it was multicast in."""

    __slots__ = ("_ledger", "_multicast")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._multicast: dict[tuple[Rank, int, Seq], Event] = {}

    def watches(self) -> Mapping[str, Watch]:
        """The events it judges or learns from."""
        return {MULTICAST: self.on_multicast, DELIVER: self.on_deliver}

    def on_multicast(self, event: Event) -> None:
        """Learn in which view a message was sent."""
        self._multicast.setdefault((event.sender, event.sender_inc, event.seq), event)

    def on_deliver(self, event: Event) -> None:
        """A message that nobody multicast is integrity's concern."""
        sent = self._multicast.get((event.sender, event.sender_inc, event.seq))
        if sent is not None and sent.view != event.view:
            what = (
                f"process {event.pid} delivered {event.sender}:{event.seq} in view {event.view}, "
                f"multicast in view {sent.view}"
            )
            self._ledger.add("sending_view_delivery", what, sent, event)


class SemanticViewSynchrony:
    """If two processes install a view and the same view after it, and one of them delivered m in
    the first, the other delivered some m' ⊒ m in it.  Judged of the views that were left."""

    __slots__ = (
        "_delivered",
        "_ledger",
        "_multicast",
        "_relation",
        "_streams",
        "_through",
        "_view",
    )

    def __init__(self, ledger: Ledger, relation: str) -> None:
        self._ledger = ledger
        self._relation = relation
        self._streams: dict[Life, Obsolescence] = {}
        self._multicast: dict[tuple[Life, Seq], Event] = {}
        self._view: dict[Life, int] = {}
        self._delivered: defaultdict[tuple[Life, int], dict[Life, dict[Seq, Event]]]
        self._delivered = defaultdict(dict)  # [process, view][sender][seq]
        self._through: defaultdict[tuple[int, int], list[Life]]
        self._through = defaultdict(list)  # who went from one view to the other

    def watches(self) -> Mapping[str, Watch]:
        """The events it learns from."""
        return {
            MULTICAST: self.on_multicast,
            DELIVER: self.on_deliver,
            INSTALL: self.on_install,
        }

    def on_multicast(self, event: Event) -> None:
        """Learn a message and its place in the relation."""
        sender = event.sender, event.sender_inc
        if event.message is not None and (sender, event.seq) not in self._multicast:
            self._multicast[sender, event.seq] = event
            stream = self._streams.setdefault(sender, Obsolescence(self._relation))
            stream.on_multicast(event.message)

    def on_deliver(self, event: Event) -> None:
        """Learn who delivered what in which view."""
        delivered = self._delivered[(event.pid, event.inc), event.view]
        stream = delivered.setdefault((event.sender, event.sender_inc), {})
        stream.setdefault(event.seq, event)

    def on_install(self, event: Event) -> None:
        """Learn who goes from which view to which."""
        life = event.pid, event.inc
        before = self._view.get(life)
        if before is not None:
            self._through[before, event.view].append(life)
        self._view[life] = event.view

    def on_end(self) -> None:
        """Compare those who went through the same views, sender by sender."""
        for (view, after), lives in sorted(self._through.items()):
            for sender, stream in sorted(self._streams.items()):
                delivered = [self._delivered[life, view].get(sender, {}) for life in lives]
                by_anyone: dict[Seq, Event] = {}
                for one in delivered:
                    by_anyone = {**one, **by_anyone}
                for life, own in zip(lives, delivered, strict=True):
                    if len(own) < len(by_anyone):
                        missing = stream.unsatisfied(sender[0], own.keys())
                        self._compare(life, (view, after), sender, by_anyone, missing)

    def _compare(
        self,
        life: Life,
        views: tuple[int, int],
        sender: Life,
        by_anyone: Mapping[Seq, Event],
        missing: Iterable[Seq],
    ) -> None:
        for seq in missing:
            if (at := by_anyone.get(seq)) is not None:
                what = (
                    f"process {life[0]} went from view {views[0]} to view {views[1]} and delivered "
                    f"nothing for {sender[0]}:{seq}, which process {at.pid} delivered"
                )
                sent = self._multicast.get((sender, seq))
                self._ledger.add("semantic_view_synchrony", what, sent, at)


class PrimaryOrder:
    """The primary views are one sequence: each has a majority of the members of the one before it
    [SVS §2], or both have a majority of all servers [VSD §1]."""

    __slots__ = ("_ledger", "_primary", "_servers")

    def __init__(self, ledger: Ledger, servers: int) -> None:
        self._ledger = ledger
        self._servers = servers
        self._primary: dict[int, Event] = {}

    def watches(self) -> Mapping[str, Watch]:
        """The events it learns from."""
        return {INSTALL: self.on_install}

    def on_install(self, event: Event) -> None:
        """Learn a primary view."""
        if event.note != MINORITY:
            self._primary.setdefault(event.view, event)

    def on_end(self) -> None:
        """Compare neighbours in the order of views."""
        for (_, before), (_, after) in pairwise(sorted(self._primary.items())):
            one, other = set(before.members), set(after.members)
            shared = len(one & other)
            if 2 * shared > len(one) or 2 * min(len(one), len(other)) > self._servers:
                continue
            what = (
                f"primary view {after.view} has {shared} of the {len(one)} members "
                f"of primary view {before.view}"
            )
            self._ledger.add("primary_order", what, before, after)
