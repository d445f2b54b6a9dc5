"""Causal Order and Causal Completeness.

Happens-before is computed from the multicasts and deliveries of the trace alone, never from what
a message claims about itself: a multicast depends on everything its sender had delivered or
multicast before.  One vector per message suffices, the latest number known of each sender.

Rule: [SRM §4.4]; Causal Completeness is FIFO Completeness over all causal predecessors.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from semcast.specs.history import EventHandler, History, ProcessKey
from semcast.specs.violations import ViolationLog
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.ids import Rank, Seq

VectorClock: TypeAlias = dict[ProcessKey, Seq]


class CausalOrder:
    """No process delivers m after m' if m causally precedes m'.

    Invariant: `_horizon[p][s]` is, among the messages p delivered, the one that knows most of
    sender s; whatever of s it knows precedes it.
    """

    __slots__ = ("_clock", "_history", "_horizon", "_ledger", "_past", "checked")

    def __init__(self, history: History, ledger: ViolationLog) -> None:
        self._history = history
        self._ledger = ledger
        self.checked = 0  # deliveries at a process that knew of the sender
        self._clock: defaultdict[ProcessKey, VectorClock] = defaultdict(dict)
        self._past: defaultdict[ProcessKey, dict[Seq, VectorClock]] = defaultdict(
            dict
        )  # [sender][seq]
        self._horizon: defaultdict[ProcessKey, dict[ProcessKey, tuple[Seq, Event]]] = defaultdict(
            dict
        )

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {MULTICAST: self.on_multicast, DELIVER: self.on_deliver}

    def on_multicast(self, event: Event) -> None:
        """Note what the new message depends on."""
        clock, sender = self._clock[self._history.process(event)], self._history.sender(event)
        clock[sender] = max(clock.get(sender, 0), event.seq)
        self._past[sender].setdefault(event.seq, clock.copy())

    def on_deliver(self, event: Event) -> None:
        """Judge the delivery, then let its past become the process's own."""
        process, source = self._history.place
        past = self._past[source].get(event.seq)
        if past is None:
            return  # Never multicast: integrity's concern.
        row = self._horizon[process]
        knows = row.get(source)
        if knows is not None:
            self.checked += 1
            if knows[0] >= event.seq and not _same(knows[1], event):
                self._report(event, knows[1])
        clock = self._clock[process]
        for sender, seq in past.items():
            clock[sender] = max(clock.get(sender, 0), seq)
            known = row.get(sender)
            if known is None or known[0] < seq:
                row[sender] = seq, event

    def on_end(self, owed: list[Rank]) -> int:
        """No correct process delivers m' without some m'' ⊒ m for each m before it; how many m
        there were."""
        checked = 0
        for pid in owed:
            for sender in range(self._history.n):
                if sender not in self._horizon[pid]:
                    continue
                latest, after = self._horizon[pid][sender]
                checked += sum(seq <= latest for seq in self._history.multicast[sender])
                for seq in self._history.unsatisfied(pid, sender):
                    if seq > latest:
                        break
                    self._incomplete(pid, sender, seq, after)
        return checked

    def _report(self, event: Event, after: Event) -> None:
        m, later = f"{event.sender}:{event.seq}", f"{after.sender}:{after.seq}"
        what = f"process {event.pid} delivered {m} after {later}, which {m} causally precedes"
        self._ledger.add("causal_order", what, self._history.source(event), after, event)

    def _incomplete(self, pid: Rank, sender: Rank, seq: Seq, after: Event) -> None:
        what = (
            f"process {pid} delivered {after.sender}:{after.seq} but nothing for {sender}:{seq}, "
            "which causally precedes it"
        )
        multicast = self._history.multicast[sender].get(seq)
        self._ledger.add("causal_completeness", what, multicast, after)


def _same(one: Event, other: Event) -> bool:
    return (one.sender, one.sender_inc, one.seq) == (other.sender, other.sender_inc, other.seq)
