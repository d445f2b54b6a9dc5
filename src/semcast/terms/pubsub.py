"""What travels between publishers, subscribers and loggers, and what they keep on disk.

Processes are numbered like ranks; `seq` starts at 1 and goes on across the lives of a publisher.
*fresh* orders the reports about one process: a process that joins, leaves, disconnects or
reconnects reports it with a higher number than before.
All are immutable and array-like, and every list has a greatest length, as in `terms.messages`.
PUBSUB_CHECKS has the rules over several fields: spans are sorted and disjoint, so a datagram costs
no more to handle than to send.  Records are not datagrams; they have their own tags.
"""

from typing import Annotated, Final, TypeAlias

import msgspec

from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import SEQ_MAX, Count, Positive, Rank, Seq, Span, Unsigned
from semcast.terms.messages import Checks, DataMessage, PurgeNotice, check_messages, check_purged

SPANS_MAX: Final = 1 << 8  # ranges of one stream that a datagram names
STREAMS_MAX: Final = 1 << 12  # streams that a datagram names; processes from here on cannot publish
ENTRIES_MAX: Final = 1 << 9  # members that a datagram names
MESSAGES_MAX: Final = 1 << 12

MEMBER: Final = 1
DISCONNECTED: Final = 2
LEFT: Final = 3

Fresh: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=SEQ_MAX)]
Signature: TypeAlias = Unsigned
Spans: TypeAlias = Annotated[tuple[Span, ...], msgspec.Meta(max_length=SPANS_MAX)]


class StreamSpans(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some messages of one stream, by number."""

    sender: Rank
    spans: Spans


class StreamStatus(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a process knows of a stream: the last number, and up to where it lacks nothing."""

    sender: Rank
    last: Seq
    frontier: Seq


class MemberEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is said of a process: `status` is MEMBER, DISCONNECTED or LEFT [RPB §5.3]."""

    pid: Rank
    status: Annotated[int, msgspec.Meta(ge=MEMBER, le=LEFT)]
    freshness: Fresh


Parts: TypeAlias = Annotated[tuple[StreamSpans, ...], msgspec.Meta(max_length=STREAMS_MAX)]
Streams: TypeAlias = Annotated[tuple[StreamStatus, ...], msgspec.Meta(max_length=STREAMS_MAX)]
Entries: TypeAlias = Annotated[tuple[MemberEntry, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
Messages: TypeAlias = Annotated[tuple[DataMessage, ...], msgspec.Meta(max_length=MESSAGES_MAX)]


class Publication(msgspec.Struct, frozen=True, array_like=True, tag=64, gc=False):
    """Messages from their publisher: to everyone at first, later to a logger that lacks them."""

    messages: Messages


class Repair(msgspec.Struct, frozen=True, array_like=True, tag=65, gc=False):
    """Messages that somebody asked for, and notices of some that were purged.

    The message that superseded a purged one is in the same datagram.  `load` is how busy the
    logger is that sends it, in percent.
    """

    messages: Messages
    purged: Annotated[tuple[PurgeNotice, ...], msgspec.Meta(max_length=MESSAGES_MAX)] = ()
    load: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0


class PublisherHeartbeat(msgspec.Struct, frozen=True, array_like=True, tag=66, gc=False):
    """The publisher is idle; its last message was this [RPB §3.1]."""

    sender: Rank
    last: Positive


class RepairRequest(msgspec.Struct, frozen=True, array_like=True, tag=67, gc=False):
    """Messages wanted from whoever is asked [RPB §3.3]."""

    missing: Parts


class Gossip(msgspec.Struct, frozen=True, array_like=True, tag=68, gc=False):
    """Negative gossip: what the gossiper lacks and two signatures [RPB §4.1, §5.1, §5.3].

    To a logger, `streams` lists every sender that is active or of which something is missing;
    `heard` is then the signature of all others, of which nothing is missing.  `is_complete` is
    false if the list is not complete, and no acknowledgement can be derived.  To anyone else there
    is no list, and `heard` is the signature of the idle senders.  `is_probe` asks for any answer,
    to measure the round trip.
    """

    freshness: Fresh
    members: Signature
    heard: Signature
    missing: Parts = ()
    streams: Streams = ()
    is_complete: bool = False
    is_probe: bool = False


class GossipDigest(msgspec.Struct, frozen=True, array_like=True, tag=69, gc=False):
    """Positive gossip: what the gossiper holds, as intervals [RPB §7.4]."""

    members: Signature
    holds: Parts


class Collected(msgspec.Struct, frozen=True, array_like=True, tag=70, gc=False):
    """These were received here and are no longer held for repair: ask a logger [RPB §4.3]."""

    parts: Parts


class StatusList(msgspec.Struct, frozen=True, array_like=True, tag=71, gc=False):
    """Every stream that the sender of this knows; `wants_answer` if it is behind in some.

    `is_complete` is false of a logger that lost its disk and does not count yet.
    """

    freshness: Fresh
    members: Signature
    streams: Streams
    wants_answer: bool
    is_complete: bool = True


class MemberList(msgspec.Struct, frozen=True, array_like=True, tag=72, gc=False):
    """What is known of the processes `first` to `last` beyond that they are founders."""

    first: Rank
    last: Rank
    entries: Entries
    wants_answer: bool


class Join(msgspec.Struct, frozen=True, array_like=True, tag=73, gc=False):
    """A process asks for sponsors [RPB §5.3]."""

    freshness: Fresh


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=74, gc=False):
    """A sponsor has accepted the join `freshness`, at the time that `lasts` says [RPB §5.3]."""

    freshness: Fresh
    lasts: Streams


class LeaveRequest(msgspec.Struct, frozen=True, array_like=True, tag=75, gc=False):
    """A member asks to be struck; `members` is what it knows, itself as left included."""

    freshness: Fresh
    members: Signature


class LeaveAck(msgspec.Struct, frozen=True, array_like=True, tag=76, gc=False):
    """The leave `freshness` was accepted."""

    freshness: Fresh


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=77, gc=False):
    """A logger keeps these on its disk, or knows that there are no such messages [RPB §3.2].

    `inc` is its life: one that lost its disk does not stand by what the lives before said.
    """

    part: StreamSpans
    inc: Count = 0


class RecoveryQuery(msgspec.Struct, frozen=True, array_like=True, tag=78, gc=False):
    """A publisher that crashed asks a logger what it keeps of its stream in `span`."""

    span: Span


class RecoveryReply(msgspec.Struct, frozen=True, array_like=True, tag=79, gc=False):
    """The answer: `part` is what is settled at this logger, of `span`."""

    span: Span
    part: StreamSpans


class UnusedSeqs(msgspec.Struct, frozen=True, array_like=True, tag=80, gc=False):
    """These numbers are nobody's: their publisher crashed before it used them [RPB §6.2]."""

    part: StreamSpans


class LostSeqs(msgspec.Struct, frozen=True, array_like=True, tag=81, gc=False):
    """A logger no longer has these and cannot get them: they are lost to who still lacks them."""

    part: StreamSpans


class ResyncRequest(msgspec.Struct, frozen=True, array_like=True, tag=82, gc=False):
    """A logger that lost its disk, in its life `inc`, asks for everything that others know."""

    inc: Count


class NotHeld(msgspec.Struct, frozen=True, array_like=True, tag=83, gc=False):
    """The answer to a logger that asked: these are not held here either, and not to come."""

    part: StreamSpans


PubsubDatagram: TypeAlias = (
    Publication
    | Repair
    | PublisherHeartbeat
    | RepairRequest
    | Gossip
    | GossipDigest
    | Collected
    | StatusList
    | MemberList
    | Join
    | Welcome
    | LeaveRequest
    | LeaveAck
    | Ack
    | RecoveryQuery
    | RecoveryReply
    | UnusedSeqs
    | LostSeqs
    | ResyncRequest
    | NotHeld
)


def _check_span(span: Span) -> None:
    if span[0] > span[1]:
        raise RemoteProtocolError(f"span out of range: {span!r}")


def _check_part(part: StreamSpans) -> None:
    after = 0
    for first, last in part.spans:
        if not after < first <= last:
            raise RemoteProtocolError(f"span out of range: {(first, last)!r}")
        after = last


def _check_parts(parts: Parts) -> None:
    for part in parts:
        _check_part(part)
        if not part.spans:
            raise RemoteProtocolError(f"no spans for sender {part.sender}")


def _check_streams(streams: Streams) -> None:
    for heard in streams:
        if heard.frontier > heard.last:
            raise RemoteProtocolError(f"frontier out of range: {heard!r}")


def _check_repair(repair: Repair) -> None:
    check_messages(repair.messages)
    check_purged(repair.purged)


def _check_gossip(gossip: Gossip) -> None:
    _check_parts(gossip.missing)
    _check_streams(gossip.streams)


def _check_holds(holds: RecoveryReply) -> None:
    _check_span(holds.span)
    _check_part(holds.part)


PUBSUB_CHECKS: Final[Checks] = {
    Publication: lambda publication: check_messages(publication.messages),
    Repair: _check_repair,
    RepairRequest: lambda request: _check_parts(request.missing),
    Gossip: _check_gossip,
    GossipDigest: lambda digest: _check_parts(digest.holds),
    Collected: lambda collected: _check_parts(collected.parts),
    StatusList: lambda lasts: _check_streams(lasts.streams),
    Welcome: lambda welcome: _check_streams(welcome.lasts),
    Ack: lambda ack: _check_part(ack.part),
    RecoveryQuery: lambda census: _check_span(census.span),
    RecoveryReply: _check_holds,
    UnusedSeqs: lambda gap: _check_part(gap.part),
    LostSeqs: lambda gone: _check_part(gone.part),
    NotHeld: lambda absent: _check_part(absent.part),
}


class ReservedBlock(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A publisher may use numbers up to `upto`; of those up to `settled` it need not ask again."""

    upto: Seq
    settled: Seq


class Appended(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A logger keeps this message."""

    message: DataMessage


class Superseded(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A logger purged `seq` for `by`, which it keeps."""

    sender: Rank
    seq: Seq
    by: Seq


class ResolvedSeqs(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Nothing is to be kept of `part`: a gap, or lost if `is_lost`."""

    part: StreamSpans
    is_lost: bool


class Reclaimed(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """A logger dropped all of a stream up to `upto`."""

    sender: Rank
    upto: Seq


class MemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A logger was told this of a process."""

    entry: MemberEntry


class SubscriptionRecord(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A subscriber's membership: from here on it is owed what comes after `lasts`."""

    freshness: Fresh
    lasts: Streams


class Cursor(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The application has everything of a stream up to `upto`."""

    sender: Rank
    upto: Seq


class Unsubscribed(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    """A subscriber left; the next life is none."""


class Synchronised(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    """A logger has what there was to get; from here on it counts."""


Record: TypeAlias = (
    ReservedBlock
    | Appended
    | Superseded
    | ResolvedSeqs
    | Reclaimed
    | MemberRecord
    | SubscriptionRecord
    | Cursor
    | Unsubscribed
    | Synchronised
)
