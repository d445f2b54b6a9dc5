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
CONFIRM: Final = "confirm"
JOIN: Final = "join"
INSTALL: Final = "install"
LEAVE: Final = "leave"
SUSPECT: Final = "suspect"
CRASH: Final = "crash"
RECOVER: Final = "recover"
APPEND: Final = "append"
ACKNOWLEDGE: Final = "acknowledge"
REQUEST: Final = "request"
EXECUTE: Final = "execute"
REPLY: Final = "reply"

DELIVERY: Final = "delivery"
RETRANSMISSION: Final = "retransmission"
DRAINED: Final = "drained"
ORDER: Final = "order"
AGE: Final = "age"
DISK: Final = "disk"
MINORITY: Final = "0"
UPDATE: Final = "update"
QUERY: Final = "query"


class Event(msgspec.Struct, gc=False):
    """One row of a trace.

    `message` stands where the row's item, distances, size and digest come from; it is set on
    `multicast` and `deliver`.  `by_seq` is, for `purge`, the message that made this one obsolete
    and, for `skip`, the notice's witness; of another sender only if `by_sender` says so.  `peer`
    is the other process: who sent it, or for `leave` who was forgotten.

    `note` is, by kind: for `multicast` ORDER if it only gives others their places; where a message
    was purged; why one was discarded, skipped or reclaimed,
    or a process left, crashed (DISK: its stable storage is gone) or recovered; for `join` the
    last numbers that a subscriber is not owed, "sender:seq sender:seq"; for `install` MINORITY if
    the view is not primary; for `execute` UPDATE or QUERY.

    What only some protocols tell comes last: `inc` and `sender_inc`, the lives of the process and
    of the sender; `view`, and for `install` its `members` in rank order; `position`, counted from
    1; `client`, `request`, the `version` of the state that was witnessed, from 0 (a `join` or
    `recover`: that was taken over), and the `digest` of a reply.
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
    inc: int = 1
    sender_inc: int = 1
    by_sender: int = -1
    by_inc: int = 1
    view: int = 0
    members: tuple[int, ...] = ()
    position: int = 0
    client: int = -1
    request: int = -1
    version: int = -1
    digest: int | None = None
