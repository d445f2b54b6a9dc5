"""Tickets for what must be durable before the rest may happen.

A machine appends a record and remembers its ticket; the driver says up to which ticket everything
is on stable storage.  Records become durable in order.
"""

from collections.abc import Iterable

from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq
from semcast.terms.pubsub import (
    Cursor,
    MemberEntry,
    MemberRecord,
    Record,
    ReservedBlock,
    SubscriptionRecord,
    Synchronised,
    Unsubscribed,
)


class Storage:
    """The way of one life, the `inc`-th, to the disk.  Tickets are the numbers of records, which
    follow the `last` of the life before.  Invariant: `durable` <= `last`."""

    __slots__ = ("durable", "inc", "last")

    def __init__(self, inc: int, last: int) -> None:
        self.inc = inc
        self.last = last
        self.durable = last

    def __repr__(self) -> str:
        return f"Storage(durable={self.durable}, last={self.last})"

    def write(self, record: Record, out: Effects) -> int:
        """Ask for a record to be kept; its ticket."""
        self.last += 1
        out.persist.append((self.last, record))
        return self.last

    def on_persisted(self, ticket: int) -> None:
        """Everything up to `ticket` is durable."""
        self.durable = max(self.durable, min(ticket, self.last))


class RestoredState:
    """What an earlier life left on the disk, but for a logger's log."""

    __slots__ = ("cursors", "entries", "is_synchronised", "joined", "reserved", "settled")

    def __init__(self, records: Iterable[Record]) -> None:
        self.reserved: Seq = 0
        self.settled: Seq = 0
        self.cursors: dict[Rank, Seq] = {}
        self.joined: SubscriptionRecord | None = None
        self.entries: list[MemberEntry] = []
        self.is_synchronised = False
        for record in records:
            if isinstance(record, ReservedBlock):
                self.reserved, self.settled = record.upto, record.settled
            elif isinstance(record, Cursor):
                self.cursors[record.sender] = record.upto
            elif isinstance(record, SubscriptionRecord):
                self.joined = record
                self.cursors.clear()
            elif isinstance(record, Unsubscribed):
                self.joined = None
            elif isinstance(record, MemberRecord):
                self.entries.append(record.entry)
            elif isinstance(record, Synchronised):
                self.is_synchronised = True
