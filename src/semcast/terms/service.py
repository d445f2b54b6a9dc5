"""What clients and servers of a replicated service say to each other.

A client numbers its requests from 1 and waits for each reply before the next [SVS §5.1]; number 0
opens its session.  Servers speak among themselves as a group with views, in `Stamped` datagrams,
and acknowledge to the primary what they have applied.
"""

from typing import Final, TypeAlias

import msgspec

from semcast.terms.ids import Count, Lineage, Positive, Seq, ViewId
from semcast.terms.views import Stamped

OPENING: Final = 0  # the number of the request that opens a session

# What a server is among the others.
PRIMARY: Final = "primary"  # it executes; of a store: its view has a quorum
BACKUP: Final = "backup"  # it applies what the primary has executed
MINORITY_ROLE: Final = "minority"  # of a store: it answers queries alone
RECOVERING: Final = "recovering"  # of a store: it gets what it lacks from the others

DONE: Final = "done"
FAILED: Final = "failed"  # the service raised an error; the reply is its text
FORGOTTEN: Final = "forgotten"  # the servers do not know the session (any more)
UNANSWERED: Final = "unanswered"  # a client gave up; no server says this


class Request(msgspec.Struct, frozen=True, array_like=True, tag=96):
    """A client asks; `body` is for the service.  Its session is the one that was `opened` by the
    request with that place; 0: not yet."""

    client: Positive
    number: Count
    body: bytes
    opened: Count


class Reply(msgspec.Struct, frozen=True, array_like=True, tag=97):
    """The answer to one request, of the session that was `opened` there."""

    client: Positive
    number: Count
    status: str
    body: bytes
    opened: Count


class Applied(msgspec.Struct, frozen=True, array_like=True, tag=98):
    """An acknowledgement: this life of a backup has applied every *fin* of the primary of a view
    up to the one with number `seq`."""

    lineage: Lineage
    view: ViewId
    inc: Count
    seq: Seq


class AskApplied(msgspec.Struct, frozen=True, array_like=True, tag=99):
    """The primary of a view wants to hear again how far a backup is."""

    lineage: Lineage
    view: ViewId


ServiceDatagram: TypeAlias = Stamped | Request | Reply | Applied | AskApplied
