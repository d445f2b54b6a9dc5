"""Total order by recorded places, and what a view adds to it.

A delivery tells its position, the place of the message in the total order of the view (or of the
run, where there are no views).  Positions are a witness: if each names one message, and each
process's increase, then any two processes deliver what both deliver in the same order.

Rule: Total Order "as defined for reliable multicast" [SRM §4.4], so positions may be left out where
messages were purged; prefix and *safe*, here confirmation, of VS [VSD app. A].
"""

from collections import defaultdict
from collections.abc import Mapping

from semcast.specs.history import EventHandler, Incarnation
from semcast.specs.violations import ViolationLog
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MULTICAST, ORDER, Event
from semcast.terms.ids import Rank, Seq


class TotalOrder:
    """A place names one message and a message one place; each process goes up."""

    __slots__ = ("_at", "_last", "_ledger", "_place", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        # Deliveries after another of the process, or where another process had one.
        self.checked = 0
        self._last: dict[Incarnation, Event] = {}
        self._at: dict[tuple[int, int], Event] = {}
        self._place: dict[tuple[Rank, int, Seq], Event] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    def on_deliver(self, event: Event) -> None:
        """Compare with what it delivered last, and with others at that place."""
        if not event.position:
            self.checked += 1
            self._report(event, "without a place in the total order")
            return
        place = _place(event)
        last = self._last.get((event.pid, event.inc))
        if last is not None and place <= _place(last):
            self._report(event, f"after {_name(last)}", last)
        self._last[event.pid, event.inc] = event
        other = self._at.setdefault(place, event)
        if _message(other) != _message(event):
            self._report(event, f"where process {other.pid} delivered {_name(other)}", other)
        elsewhere = self._place.setdefault(_message(event), event)
        self.checked += last is not None or other is not event or elsewhere is not event
        if _place(elsewhere) != place:
            self._report(event, f"which process {elsewhere.pid} did {_at(elsewhere)}", elsewhere)

    def _report(self, event: Event, what: str, before: Event | None = None) -> None:
        what = f"process {event.pid} delivered {_name(event)} {_at(event)}, {what}"
        self._ledger.add("total_order", what, before, event)


class PrefixDelivery:
    """What a process delivers in a view is a beginning of its total order, without omissions."""

    __slots__ = ("_delivered", "_ledger", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # places
        self._delivered: defaultdict[tuple[Incarnation, int], dict[int, Event]] = defaultdict(dict)

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it learns from."""
        return {DELIVER: self.on_deliver}

    def on_deliver(self, event: Event) -> None:
        """Learn which places a process has; their order is total_order's concern."""
        if event.position:
            self._delivered[(event.pid, event.inc), event.view].setdefault(event.position, event)

    def on_end(self) -> None:
        """Look for the first place that was left out."""
        for (life, view), delivered in self._delivered.items():
            self.checked += len(delivered)
            for place, position in enumerate(sorted(delivered), 1):
                if place != position:
                    what = (
                        f"process {life[0]} delivered position {position} of view {view} "
                        f"but not position {place}"
                    )
                    self._ledger.add("prefix_delivery", what, delivered[position])
                    break


class Confirmation:
    """What is confirmed in a view was delivered by every member of it before."""

    __slots__ = ("_confirmed", "_delivered", "_ledger", "_members", "_multicast", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # confirmations, and the messages that they are the first to confirm
        self._members: dict[int, tuple[Rank, ...]] = {}
        self._multicast: defaultdict[tuple[int, Incarnation], dict[Seq, Event]] = defaultdict(dict)
        self._delivered: defaultdict[tuple[int, Incarnation, Seq], set[Rank]] = defaultdict(set)
        self._confirmed: dict[tuple[int, Incarnation], Seq] = {}  # as far as found right

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            INSTALL: self.on_install,
            MULTICAST: self.on_multicast,
            DELIVER: self.on_deliver,
            CONFIRM: self.on_confirm,
        }

    def on_install(self, event: Event) -> None:
        """Learn who is in a view."""
        self._members.setdefault(event.view, event.members)

    def on_multicast(self, event: Event) -> None:
        """Learn what was sent in a view; what only says the order is nobody's to deliver."""
        if event.note != ORDER:
            sender = event.sender, event.sender_inc
            self._multicast[event.view, sender].setdefault(event.seq, event)

    def on_deliver(self, event: Event) -> None:
        """Learn who delivered it."""
        self._delivered[event.view, (event.sender, event.sender_inc), event.seq].add(event.pid)

    def on_confirm(self, event: Event) -> None:
        """Judge every message of that sender in that view up to the number."""
        view, sender = event.view, (event.sender, event.sender_inc)
        sent = self._multicast[view, sender]
        self.checked += 1
        if event.seq not in sent:
            self._report(event, event.seq, None, "which was not multicast in it")
            return
        members = self._members.get(view, ())
        start = self._confirmed.get((view, sender), 0)
        for seq in sorted(seq for seq in sent if start < seq <= event.seq):
            self.checked += 1
            behind = sorted(set(members) - self._delivered[view, sender, seq])
            if behind:
                who = ", ".join(map(str, behind))
                why = f"which process {who} had not delivered"
                self._report(event, seq, sent[seq], why)
                return
        self._confirmed[view, sender] = max(start, event.seq)

    def _report(self, event: Event, seq: Seq, sent: Event | None, why: str) -> None:
        what = f"process {event.pid} confirmed {event.sender}:{seq} in view {event.view}, {why}"
        self._ledger.add("confirmation", what, sent, event)


def _place(event: Event) -> tuple[int, int]:
    return event.view, event.position


def _message(event: Event) -> tuple[Rank, int, Seq]:
    return event.sender, event.sender_inc, event.seq


def _name(event: Event) -> str:
    return f"{event.sender}:{event.seq}"


def _at(event: Event) -> str:
    return f"at position {event.position} of view {event.view}"
