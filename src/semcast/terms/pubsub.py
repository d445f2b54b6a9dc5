"""What travels between publishers, subscribers and loggers, and what they keep on disk.

Processes are numbered like ranks; `seq` starts at 1 and goes on across the lives of a publisher.
`Span` is a first and a last sequence number, both included.  *fresh* orders what is said of one
process: who joins, leaves, disconnects or reconnects says it with a higher number than before.
All are immutable and array-like, and every list has a greatest length, as in `terms.messages`.
"""

from typing import Annotated, Final, TypeAlias

import msgspec

from semcast.terms.messages import Message, Purged, Rank, Seq

Span: TypeAlias = tuple[Seq, Seq]

SPANS_MAX: Final = 1 << 8  # ranges of one stream that a datagram names
STREAMS_MAX: Final = 1 << 12  # senders that a process follows, and that a datagram names
ENTRIES_MAX: Final = 1 << 9  # members that a datagram names
MESSAGES_MAX: Final = 1 << 12

MEMBER: Final = 1
DISCONNECTED: Final = 2
LEFT: Final = 3

Spans: TypeAlias = Annotated[tuple[Span, ...], msgspec.Meta(max_length=SPANS_MAX)]


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some messages of one stream, by number."""

    sender: Rank
    spans: Spans


class Heard(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a process knows of a stream: the last number, and up to where it lacks nothing."""

    sender: Rank
    last: Seq
    frontier: Seq


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is said of a process: `status` is MEMBER, DISCONNECTED or LEFT [RPB §5.3]."""

    pid: Rank
    status: int
    fresh: int


Parts: TypeAlias = Annotated[tuple[Part, ...], msgspec.Meta(max_length=STREAMS_MAX)]
Streams: TypeAlias = Annotated[tuple[Heard, ...], msgspec.Meta(max_length=STREAMS_MAX)]
Entries: TypeAlias = Annotated[tuple[Entry, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
Messages: TypeAlias = Annotated[tuple[Message, ...], msgspec.Meta(max_length=MESSAGES_MAX)]


class Publication(msgspec.Struct, frozen=True, array_like=True, tag=17, gc=False):
    """Messages from their publisher: to everyone at first, later to a logger that lacks them."""

    messages: Messages


class Repair(msgspec.Struct, frozen=True, array_like=True, tag=18, gc=False):
    """Messages that somebody asked for, and notices of some that were purged.

    The message that superseded a purged one is in the same datagram.  `load` is how busy the
    logger is that sends it, in percent.
    """

    messages: Messages
    purged: Annotated[tuple[Purged, ...], msgspec.Meta(max_length=MESSAGES_MAX)] = ()
    load: int = 0


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=19, gc=False):
    """The publisher is idle; its last message was this [RPB §3.1]."""

    sender: Rank
    last: Seq


class Request(msgspec.Struct, frozen=True, array_like=True, tag=20, gc=False):
    """Messages wanted from whoever is asked [RPB §3.3]."""

    lacks: Parts


class Gossip(msgspec.Struct, frozen=True, array_like=True, tag=21, gc=False):
    """Negative gossip: what the gossiper lacks and two signatures [RPB §4.1, §5.1, §5.3].

    To a logger, `streams` lists every sender that is active or of which something is missing;
    `heard` is then the signature of all others, of which nothing is missing.  `is_whole` is false
    if the list is not complete, and no acknowledgement can be derived.  To anyone else there is no
    list, and `heard` is the signature of the idle senders.  `is_probe` asks for any answer, to
    measure the round trip.
    """

    fresh: int
    members: int
    heard: int
    lacks: Parts = ()
    streams: Streams = ()
    is_whole: bool = False
    is_probe: bool = False


class Digest(msgspec.Struct, frozen=True, array_like=True, tag=22, gc=False):
    """Positive gossip: what the gossiper holds, as intervals [RPB §7.4]."""

    members: int
    holds: Parts


class Collected(msgspec.Struct, frozen=True, array_like=True, tag=23, gc=False):
    """These were received here and are no longer held for repair: ask a logger [RPB §4.3]."""

    parts: Parts


class Lasts(msgspec.Struct, frozen=True, array_like=True, tag=24, gc=False):
    """Every stream that the sender of this knows; `wants_answer` if it is behind in some.

    `is_whole` is false of a logger that lost its disk and does not count yet.
    """

    fresh: int
    members: int
    streams: Streams
    wants_answer: bool
    is_whole: bool = True


class Members(msgspec.Struct, frozen=True, array_like=True, tag=25, gc=False):
    """What is known of the processes `first` to `last` beyond that they are founders."""

    first: Rank
    last: Rank
    entries: Entries
    wants_answer: bool


class Join(msgspec.Struct, frozen=True, array_like=True, tag=26, gc=False):
    """A process asks for sponsors [RPB §5.3]."""

    fresh: int


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=27, gc=False):
    """A sponsor has accepted the join `fresh`, at the time that `lasts` says [RPB §5.3]."""

    fresh: int
    lasts: Streams


class Leave(msgspec.Struct, frozen=True, array_like=True, tag=28, gc=False):
    """A member asks to be struck; `members` is what it knows, itself as left included."""

    fresh: int
    members: int


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag=29, gc=False):
    """The leave `fresh` was accepted."""

    fresh: int


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=30, gc=False):
    """A logger keeps these on its disk, or knows that there are no such messages [RPB §3.2].

    `inc` is its life: one that lost its disk does not stand by what the lives before said.
    """

    part: Part
    inc: int = 0


class Census(msgspec.Struct, frozen=True, array_like=True, tag=31, gc=False):
    """A publisher that crashed asks a logger what it keeps of its stream in `span`."""

    span: Span


class Holds(msgspec.Struct, frozen=True, array_like=True, tag=32, gc=False):
    """The answer: `part` is what is settled at this logger, of `span`."""

    span: Span
    part: Part


class Gap(msgspec.Struct, frozen=True, array_like=True, tag=33, gc=False):
    """These numbers are nobody's: their publisher crashed before it used them [RPB §6.2]."""

    part: Part


class Gone(msgspec.Struct, frozen=True, array_like=True, tag=34, gc=False):
    """A logger no longer has these and cannot get them: they are lost to who still lacks them."""

    part: Part


class Resync(msgspec.Struct, frozen=True, array_like=True, tag=35, gc=False):
    """A logger that lost its disk, in its life `inc`, asks for everything that others know."""

    inc: int


class Absent(msgspec.Struct, frozen=True, array_like=True, tag=36, gc=False):
    """The answer to a logger that asked: these are not held here either, and not to come."""

    part: Part


PubsubDatagram: TypeAlias = (
    Publication
    | Repair
    | Heartbeat
    | Request
    | Gossip
    | Digest
    | Collected
    | Lasts
    | Members
    | Join
    | Welcome
    | Leave
    | Goodbye
    | Ack
    | Census
    | Holds
    | Gap
    | Gone
    | Resync
    | Absent
)


class Reserved(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A publisher may use numbers up to `upto`; of those up to `settled` it need not ask again."""

    upto: Seq
    settled: Seq


class Appended(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A logger keeps this message."""

    message: Message


class Superseded(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A logger purged `seq` for `by`, which it keeps."""

    sender: Rank
    seq: Seq
    by: Seq


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Nothing is to be kept of `part`: a gap, or lost if `is_lost`."""

    part: Part
    is_lost: bool


class Reclaimed(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """A logger dropped all of a stream up to `upto`."""

    sender: Rank
    upto: Seq


class Admitted(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A logger was told this of a process."""

    entry: Entry


class Joined(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A subscriber's membership: from here on it is owed what comes after `lasts`."""

    fresh: int
    lasts: Streams


class Cursor(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The application has everything of a stream up to `upto`."""

    sender: Rank
    upto: Seq


class Departed(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    """A subscriber left; the next life is none."""


class Synchronised(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    """A logger has what there was to get; from here on it counts."""


Record: TypeAlias = (
    Reserved
    | Appended
    | Superseded
    | Settled
    | Reclaimed
    | Admitted
    | Joined
    | Cursor
    | Departed
    | Synchronised
)
