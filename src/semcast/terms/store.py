"""What clients and servers of a replicated store say to each other.

A client talks to one server at a time, and may go to another: its *token* (`opened`, `last`,
`level`) tells the new server what the client has seen.  It numbers its requests from 1; one with
an empty body opens its session.  Servers multicast to each other in a `vs` group, in `Stamped`
datagrams.  A `Parcel` travels on a reliable channel between two servers.  What clients of one
process ask together travels as a `StoreBundle`.
"""

from typing import Annotated, Final, TypeAlias

import msgspec

from semcast.terms.ids import Count, Positive, ViewId
from semcast.terms.views import Stamped

REFUSED: Final = "refused"  # of an update: no primary view, and it was never multicast
UNKNOWN: Final = "unknown"  # of an update: multicast in a view that was lost; it may come back
WITHDRAWN: Final = "withdrawn"  # nobody waits for it, and it was not sent or changes nothing

REQUESTS_MAX: Final = 1 << 10  # of one client on their way at once
BUNDLE_MAX: Final = 1 << 10  # requests or replies of as many clients in one frame
DATAGRAM_BYTES: Final = 60_000  # of requests or answers, unless a single one is larger


class StoreRequest(msgspec.Struct, frozen=True, array_like=True, tag=100, gc=False):
    """A client asks; `bodies` are its requests `first`, `first + 1` and so on.

    It has taken the answers to all before `oldest`.  Its session was opened by the update `opened`
    (0: not yet).  It has seen the state after the update `last`, at a server of the level `level`.
    """

    client: Positive
    opened: Count
    last: Count
    level: ViewId
    oldest: Count
    first: Count
    bodies: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=REQUESTS_MAX)]


class StoreAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to one request; it was made in the state after the update `index`."""

    number: Count
    status: str
    body: bytes
    index: Count


class StoreReply(msgspec.Struct, frozen=True, array_like=True, tag=101, gc=False):
    """Answers to a client, of a server of this level."""

    client: Positive
    level: ViewId
    answers: Annotated[tuple[StoreAnswer, ...], msgspec.Meta(max_length=REQUESTS_MAX)]


class StoreBundle(msgspec.Struct, frozen=True, array_like=True, tag=105, gc=False):
    """Requests of several clients that share a socket, or the replies to them, in one frame."""

    parts: Annotated[tuple[StoreRequest | StoreReply, ...], msgspec.Meta(max_length=BUNDLE_MAX)]


class StoreProgress(msgspec.Struct, frozen=True, array_like=True, tag=102):
    """This life has on its disk, in the view `view`, every update up to `persisted`, and has
    executed them up to `executed`.  With `asks` it wants to hear the same of the receiver."""

    view: ViewId
    inc: Count
    persisted: Count
    executed: Count
    asks: bool = False


class Parcel(msgspec.Struct, frozen=True, array_like=True, tag=103):
    """The message `number` of the channel from the sender's life `inc` to the receiver's
    `to_inc`."""

    inc: Count
    to_inc: Count
    number: Positive
    body: bytes


class ParcelReceipt(msgspec.Struct, frozen=True, array_like=True, tag=104):
    """The life `inc` has every parcel of the receiver's life `to_inc` up to `number`."""

    inc: Count
    to_inc: Count
    number: Count


StoreDatagram: TypeAlias = (
    Stamped | StoreRequest | StoreReply | StoreBundle | StoreProgress | Parcel | ParcelReceipt
)
