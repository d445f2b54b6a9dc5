"""Rules for the servers of a replicated store: disks, channels, and which updates may be dropped.

A server records in `append` how many updates are on its disk, in `reclaim` how many it has dropped,
in `post` and `collect` the parcels of its channels.
Rule: PTP [VSD §5]; the rest are the departures of docs/decisions/0035-replicated-data.md.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from semcast.specs.history import EventHandler, Incarnation
from semcast.specs.service import RequestId
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    APPEND,
    COLLECT,
    EXECUTE,
    JOIN,
    LOG,
    POST,
    QUERY,
    RECLAIM,
    REPLY,
    TAKEN,
    UPDATE,
    Event,
)
from semcast.terms.ids import Rank

HasQuorum: TypeAlias = Callable[[Collection[Rank]], bool]


class ReplyOnDisk:
    """An update is answered only when a quorum of the founders has it on disk."""

    def __init__(self, ledger: ViolationLog, has_quorum: HasQuorum) -> None:
        self._ledger = ledger
        self._has_quorum = has_quorum
        self.checked = 0  # answers to updates
        self._on_disk: defaultdict[Rank, int] = defaultdict(int)  # at some time
        self._placed: dict[RequestId, int] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {APPEND: self.on_append, EXECUTE: self.on_execute, REPLY: self.on_reply}

    def on_append(self, event: Event) -> None:
        """Learn what is on a disk."""
        self._on_disk[event.pid] = max(self._on_disk[event.pid], event.position)

    def on_execute(self, event: Event) -> None:
        """Learn the place of an update."""
        if event.note == UPDATE:
            self._placed.setdefault((event.client, event.request), event.position)

    def on_reply(self, event: Event) -> None:
        """Judge what a server answers."""
        place = self._placed.get((event.client, event.request))
        if place is None or event.note == TAKEN:
            return
        self.checked += 1
        having = [pid for pid, length in self._on_disk.items() if length >= place]
        if not self._has_quorum(having):
            what = f"process {event.pid} answered update {place}, which is on the disks of {having}"
            self._ledger.add("reply_on_disk", what, event)


class Truncation:
    """A server drops only updates that every founder has executed and, if there are disks, has on
    its disk; or those before the last `tail_max` that it has executed.  All count at any time
    before: a disk that is lost later is no reason to wait."""

    def __init__(
        self, ledger: ViolationLog, founders: Sequence[Rank], tail_max: int, *, durable: bool
    ) -> None:
        self._ledger = ledger
        self._tail_max = tail_max
        self._founders = founders
        self._durable = durable
        self.checked = 0  # times that something was dropped
        self._executed: defaultdict[Rank, int] = defaultdict(int)
        self._on_disk: defaultdict[Rank, int] = defaultdict(int)

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            APPEND: self.on_append,
            EXECUTE: self.on_execute,
            JOIN: self.on_join,
            RECLAIM: self.on_reclaim,
        }

    def on_append(self, event: Event) -> None:
        """Learn what is on a disk."""
        self._on_disk[event.pid] = max(self._on_disk[event.pid], event.position)

    def on_execute(self, event: Event) -> None:
        """Learn what was executed."""
        if event.note != QUERY:
            self._executed[event.pid] = max(self._executed[event.pid], event.position)

    def on_join(self, event: Event) -> None:
        """A server has got a state."""
        self._executed[event.pid] = max(self._executed[event.pid], event.version)

    def on_reclaim(self, event: Event) -> None:
        """Judge what is dropped."""
        if event.note != LOG:
            return
        self.checked += 1
        if self._executed[event.pid] - event.position >= self._tail_max:
            return
        lacking = [pid for pid in self._founders if self._executed[pid] < event.position]
        if self._durable:
            lacking += [pid for pid in self._founders if self._on_disk[pid] < event.position]
        if lacking:
            what = f"process {event.pid} dropped updates to {event.position}, which {lacking} lack"
            self._ledger.add("truncation", what, event)


class ReliableChannels:
    """PTP: what is collected was posted, by that life to that life; each parcel once, in order.  In
    the end everything between two lives that go on was collected."""

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # parcels
        self._posted: defaultdict[tuple[Incarnation, Incarnation], int] = defaultdict(int)
        self._collected: defaultdict[tuple[Incarnation, Incarnation], int] = defaultdict(int)

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {POST: self.on_post, COLLECT: self.on_collect}

    def on_post(self, event: Event) -> None:
        """send(m)_p,q."""
        channel = (event.pid, event.inc), (event.peer, int(event.note))
        if event.seq != self._posted[channel] + 1:
            self._report(event, "posted", self._posted[channel])
        self._posted[channel] = event.seq

    def on_collect(self, event: Event) -> None:
        """receive(m)_p,q."""
        self.checked += 1
        channel = (event.peer, int(event.note)), (event.pid, event.inc)
        last = self._collected[channel]
        if event.seq != last + 1 or event.seq > self._posted[channel]:
            self._report(event, "collected", last)
        self._collected[channel] = max(last, event.seq)

    def on_quiet(self, alive: Collection[Incarnation]) -> None:
        """Judge what was never collected."""
        for channel, posted in self._posted.items():
            if set(channel) <= set(alive) and self._collected[channel] < posted:
                (sender, _), (receiver, _) = channel
                what = f"process {receiver} has {self._collected[channel]} of {posted} parcels"
                self._ledger.add("reliable_channels", f"{what} of process {sender}")

    def _report(self, event: Event, did: str, last: int) -> None:
        what = f"process {event.pid} {did} parcel {event.seq} after {last}"
        self._ledger.add("reliable_channels", what, event)
