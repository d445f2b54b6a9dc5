"""Trace events: what a member says about itself.

Machines append them to `Effects.events` when somebody listens; the driver stamps the time and
the local index.  `receive` is recorded where the machine consumes (in order), not at the socket,
so the last `receive`, `skip` or own `multicast` of a stream is the member's frontier there.
"""

from typing import Final

import msgspec

from semcast.terms.messages import Message

MULTICAST: Final = "multicast"
RECEIVE: Final = "receive"
DELIVER: Final = "deliver"
PURGE: Final = "purge"
SKIP: Final = "skip"
RECLAIM: Final = "reclaim"
DISCARD: Final = "discard"
STABLE: Final = "stable"
SAFE: Final = "safe"
CRASH: Final = "crash"
LEAVE: Final = "leave"

DELIVERY: Final = "delivery"
RETRANSMISSION: Final = "retransmission"
DRAINED: Final = "drained"


class Event(msgspec.Struct, gc=False):
    """One row of a trace.

    `message` stands where the row's item, distances, size and digest come from; it is set on
    `multicast` and `deliver`.  `by_seq` is, for `purge`, the message that made this one obsolete
    and, for `skip`, the notice's witness.  `note` is attrs.where of a purge, attrs.reason of a
    discard, and of a leave that was no crash.  `peer` is the other process: who sent it, or for
    `leave` who was forgotten.
    """

    kind: str
    pid: int
    sender: int = -1
    seq: int = 0
    message: Message | None = None
    by_seq: int = 0
    note: str = ""
    peer: int = -1
    buffered: int = 0
    n: int = 0
    ts_ns: int = 0
