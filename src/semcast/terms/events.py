"""Trace events: what a member records about itself, and the one table that describes them.

Machines append events to `Effects.events` when a driver records; the driver stamps the time and the
local index.  `receive` is recorded where the machine consumes (in order), not at the socket, so the
last `receive`, `skip` or own `multicast` of a stream is the member's frontier there.

The fields of `Event`, with their `Column`s, and `DERIVED_COLUMNS` are the table.  The record of a
journal, the Parquet and Spark schemas, the defaults of readers and docs/trace.md derive from it, so
a new field is one entry here.  It goes to the end of `Event` and of the columns on disk.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec

from semcast.terms.errors import unknown_value
from semcast.terms.messages import DataMessage

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
NACK: Final = "nack"
REPAIR: Final = "repair"
REQUEST: Final = "request"
EXECUTE: Final = "execute"
REPLY: Final = "reply"
POST: Final = "post"
COLLECT: Final = "collect"
ADOPT: Final = "adopt"
REFUSE: Final = "refuse"

KIND_MEANINGS: Final = {
    MULTICAST: "the application sent the message",
    RECEIVE: "the process accepted the message from the network, in order",
    DELIVER: "the process handed the message to the application",
    PURGE: "the process dropped the message because it was obsolete",
    SKIP: "the process passed over a gap, because of a notice",
    RECLAIM: "the process dropped all messages of the sender up to seq: they were stable",
    DISCARD: "the process dropped a duplicate, foreign or malformed datagram or message",
    STABLE: "all messages of the sender up to seq are held by every member",
    SAFE: "the frontiers of more than f processes have reached seq",
    CONFIRM: "all messages of the sender up to seq were delivered at every member of the view",
    JOIN: "the process joined or subscribed",
    INSTALL: "the process entered the view",
    LEAVE: "the process left, or goes on without peer",
    SUSPECT: "the process suspects that peer crashed",
    CRASH: "the process crashed; the launcher of the run records it",
    RECOVER: "the process started again, with what its disk holds",
    APPEND: "the message is durable at this logger",
    ACKNOWLEDGE: "the logger reported to the sender that the message is durable",
    NACK: "the process requested missing messages of the sender from peer; seq is the first",
    REPAIR: "the process sent peer the requested messages of the sender; seq is the first",
    REQUEST: "a request of a client arrived",
    EXECUTE: "the server executed the request",
    REPLY: "the server answered the request",
    POST: "the server sent the parcel seq to the incarnation note of peer",
    COLLECT: "the server took the parcel seq that the incarnation note of peer sent",
    ADOPT: "the server has the history that the members of the view start from, or that its disk "
    "held when it started",
    REFUSE: "the update was not executed for its client: the server said so, or the client took it",
}
KINDS: Final = frozenset(KIND_MEANINGS)
_SHOWN: Final = 60  # characters of an unknown kind
_OF_A_MESSAGE: Final = frozenset(
    (
        *(MULTICAST, RECEIVE, DELIVER, PURGE, SKIP, RECLAIM, DISCARD, STABLE, SAFE, CONFIRM),
        *(APPEND, ACKNOWLEDGE, NACK, REPAIR, POST, COLLECT),
    )
)
_OF_A_REQUEST: Final = frozenset((REQUEST, EXECUTE, REPLY, REFUSE))

DELIVERY: Final = "delivery"
RETRANSMISSION: Final = "retransmission"
DRAINED: Final = "drained"
ORDER: Final = "order"
AGE: Final = "age"
DISK: Final = "disk"
OLD_DISK: Final = "old-disk"
INTEREST: Final = "interest"  # of a skip: the application declined the message
NOT_PRIMARY: Final = "0"
UPDATE: Final = "update"
QUERY: Final = "query"
TAKEN: Final = "taken"  # of a reply: the client took it
GIVEN_UP: Final = "given-up"  # of a refuse: the client does not know what became of the update
LOG: Final = "log"  # of a reclaim or safe: updates of a server, not messages of a sender
PASSED: Final = "passed"  # of an execute: the update has its place and changed nothing

# Types of columns; `traces/schema.py` maps them to Arrow, `pipeline/reading/spark_schema.py` to
# Spark.
INT32: Final = "int32"
INT64: Final = "int64"
STRING: Final = "string"
INT32_LIST: Final = "list"
INT64_LIST: Final = "longs"
STRING_MAP: Final = "map"

# Parts of the record that a journal keeps of an event.
FIRST: Final = "first"  # of every event, in the order of these fields
VIEWS: Final = "views"  # of every event, in groups with views
LATER: Final = "later"  # behind the parts of the message, where a kind may have the field
NOT_RECORDED: Final = ""  # the header or the batch has it, or it is beside those of the message


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """How a trace keeps one value of an event.

    A cell is null where the event has the field's default, unless `keeps_default`; a null cell is
    read as the default.  With `beside`, a cell is null exactly where that column is null.
    """

    type: str
    meaning: str
    kinds: frozenset[str] = KINDS  # the events that may have a value other than the default
    minimum: int | None = 0  # of a number, or of each number of a list
    is_process: bool = False  # a number of a process, or several
    keeps_default: bool = False
    beside: str = ""
    journal: str = LATER


class Attribute(msgspec.Struct, frozen=True, kw_only=True):
    """How a trace keeps a value in the column `attrs`: by kind, the name of the entry."""

    meaning: str
    names: Mapping[str, str]
    journal: str = NOT_RECORDED


def _process(meaning: str, **more: Any) -> Column:
    return Column(type=INT32, meaning=meaning, is_process=True, **more)


def _number(meaning: str, **more: Any) -> Column:
    return Column(type=INT64, meaning=meaning, **more)


def _small(meaning: str, **more: Any) -> Column:
    return Column(type=INT32, meaning=meaning, **more)


_BY: Final[Mapping[str, Any]] = {"kinds": frozenset((PURGE, SKIP)), "beside": "by_seq"}
_SERVICE: Final[Mapping[str, Any]] = {"kinds": _OF_A_REQUEST}


class Event(msgspec.Struct, gc=False):
    """One row of a trace.  Machines create events by position, so the order of the first fields is
    fixed.

    `message` is the source of the row's item, distances, size and digest; it is set on `multicast`
    and `deliver`.  `by_sender` and `by_inc` are set only if `by_seq` is of another sender.
    """

    kind: Annotated[str, Column(type=STRING, meaning="see below", minimum=None, journal=FIRST)]
    pid: Annotated[int, _process("the process", keeps_default=True, journal=NOT_RECORDED)]
    sender: Annotated[
        int, _process("the sender of the message", kinds=_OF_A_MESSAGE, journal=FIRST)
    ] = -1
    seq: Annotated[
        int,
        _number(
            "the number of the message, from 1 and dense per sender and incarnation",
            kinds=_OF_A_MESSAGE,
            journal=FIRST,
        ),
    ] = 0
    message: DataMessage | None = None
    by_seq: Annotated[
        int,
        _number(
            "purge: the message that made this one obsolete; skip: the witness of the notice",
            kinds=_BY["kinds"],
            journal=FIRST,
        ),
    ] = 0
    note: Annotated[
        str,
        Attribute(
            meaning="purge: the buffer; discard, skip, reclaim, leave, crash, recover: the reason; "
            'join: the last numbers that the subscriber is not owed, as "sender:seq sender:seq"; '
            "install: 0 if the view is not primary; execute: update, query, or passed "
            "for an update that was passed over; request: update or query; "
            "reply: taken if the client recorded it; refuse: refused, unknown, or recorded by the "
            "client: taken if it was refused, given-up if it may have been executed; adopt: the "
            "level, the highest primary view that the server knows of; "
            'nack, repair: the numbers, as "4-6 9"; ~ marks numbers answered by a purge notice; '
            "multicast: order, if it only gives other messages their positions",
            names={
                **dict.fromkeys(KINDS, "note"),
                **dict.fromkeys((DISCARD, SKIP, RECLAIM, LEAVE, CRASH, RECOVER), "reason"),
                PURGE: "where",
                JOIN: "after",
                INSTALL: "primary",
                **dict.fromkeys((REQUEST, EXECUTE), "op"),
                REFUSE: "reason",
                ADOPT: "level",
                **dict.fromkeys((NACK, REPAIR), "spans"),
            },
            journal=FIRST,
        ),
    ] = ""
    peer: Annotated[
        int,
        _process(
            "the other process; leave: the process that was forgotten; execute: the primary, or "
            "whose client the query is of",
            journal=FIRST,
        ),
    ] = -1
    buffered: Annotated[
        int,
        _small(
            "messages in the buffer concerned, after the event", keeps_default=True, journal=FIRST
        ),
    ] = 0
    n: Annotated[
        int,
        _number("dense local index of the event", keeps_default=True, journal=NOT_RECORDED),
    ] = 0
    ts_ns: Annotated[
        int,
        _number("local clock", keeps_default=True, minimum=None, journal=NOT_RECORDED),
    ] = 0
    inc: Annotated[
        int, _small("the incarnation of the process", keeps_default=True, journal=VIEWS)
    ] = 1
    sender_inc: Annotated[
        int,
        _small(
            "the incarnation of the sender", kinds=_OF_A_MESSAGE, beside="sender", journal=VIEWS
        ),
    ] = 1
    by_sender: Annotated[int, _process("the sender of by_seq", **_BY, journal=VIEWS)] = -1
    by_inc: Annotated[int, _small("the incarnation of by_sender", **_BY, journal=VIEWS)] = 1
    view: Annotated[int, _number("the view", keeps_default=True, journal=VIEWS)] = 0
    position: Annotated[
        int,
        _number(
            "the position in the total order of the view or of the service, from 1; request: how "
            "many updates the server has that shall answer a query; append: how many it has on "
            "disk; reclaim: how many it has dropped; safe: how many are safe to execute; adopt: "
            "how many it has",
            kinds=frozenset((DELIVER, PURGE, EXECUTE, REQUEST, APPEND, RECLAIM, SAFE, ADOPT)),
            journal=VIEWS,
        ),
    ] = 0
    members: Annotated[
        tuple[int, ...],
        Column(
            type=INT32_LIST,
            meaning="the members of the view in rank order",
            kinds=frozenset((INSTALL,)),
            is_process=True,
            journal=VIEWS,
        ),
    ] = ()
    declared: Annotated[
        tuple[int, ...],
        Column(
            type=INT64_LIST,
            meaning="the own messages that the application itself declared obsolete, by number",
            kinds=frozenset((MULTICAST,)),
            minimum=1,
        ),
    ] = ()
    declares: Annotated[
        str,
        Attribute(
            meaning="what the application declared where the message has something else: item, "
            "item=N, never_purge=0 or never_purge=1",
            names={MULTICAST: "declares"},
            journal=LATER,
        ),
    ] = ""
    client: Annotated[int, _number("the client that sent the request", **_SERVICE)] = -1
    request: Annotated[int, _number("the request's number at its client", **_SERVICE)] = -1
    version: Annotated[
        int,
        _number(
            "the state that was read or made, counted in updates; join, recover: that was taken "
            "over; install: that a replica enters the view with",
            kinds=_OF_A_REQUEST | {JOIN, RECOVER, INSTALL},
        ),
    ] = -1
    digest: Annotated[
        int | None,
        _number(
            "64-bit hash of the payload, of the reply, or of the state of a replica at install",
            kinds=frozenset((MULTICAST, DELIVER, REPLY, INSTALL)),
            minimum=None,
            journal=NOT_RECORDED,
        ),
    ] = None
    lineage: Annotated[
        int,
        Attribute(
            meaning="the founding that the view comes from, 16 hexadecimal digits; an incarnation "
            "has one, so readers give it to all events of the incarnation",
            names={INSTALL: "lineage"},
            journal=VIEWS,
        ),
    ] = 0


# Columns that come from the run, and from the message of an event.
DERIVED_COLUMNS: Final[Mapping[str, Column]] = {
    "run_id": _number("the run", minimum=None),
    "grp": _small("the group: 0", minimum=None),
    "item": _number("the item of the message", kinds=frozenset((MULTICAST, DELIVER)), minimum=None),
    "dist": _small(
        "distance to the latest message that it makes obsolete",
        kinds=frozenset((MULTICAST, DELIVER)),
        minimum=None,
    ),
    "covers": Column(
        type=INT32_LIST,
        meaning="all distances that it makes obsolete, if the relation is richer than items",
        kinds=frozenset((MULTICAST, DELIVER)),
        minimum=1,
    ),
    "size": _small("bytes of the payload", kinds=frozenset((MULTICAST, DELIVER))),
    "attrs": Column(
        type=STRING_MAP,
        meaning="attributes: where, reason, after, primary, op, level, spans, note, lineage, "
        "declares; of a message deps and never_purge",
        minimum=None,
    ),
}
_ON_DISK: Final = (  # the order of the first version; columns of later versions follow
    *("run_id", "pid", "inc", "n", "ts_ns", "grp", "view", "sender", "sender_inc", "seq"),
    *("item", "dist", "covers", "by_sender", "by_inc", "by_seq", "position", "peer"),
    *("client", "request", "version", "size", "digest", "buffered", "members", "attrs"),
)


def _described(kind: type[Column] | type[Attribute]) -> dict[str, Any]:
    hints = get_type_hints(Event, include_extras=True)
    found = ((name, part) for name, hint in hints.items() for part in get_args(hint)[1:])
    return {name: part for name, part in found if isinstance(part, kind)}


EVENT_FIELDS: Final[Mapping[str, Column]] = _described(Column)
ATTRIBUTES: Final[Mapping[str, Attribute]] = _described(Attribute)
DEFAULTS: Final[Mapping[str, Any]] = {
    field.name: None if field.default is msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(Event)
}
_every: Mapping[str, Column] = {**EVENT_FIELDS, **DERIVED_COLUMNS}
COLUMNS: Final[Mapping[str, Column]] = {  # of the files; `kind` is the name of their folder
    name: _every[name] for name in dict.fromkeys((*_ON_DISK, *_every)) if name != "kind"
}


def in_journal(part: str) -> tuple[str, ...]:
    """The fields that a journal keeps in this part of its record."""
    described: Mapping[str, Column | Attribute] = {**EVENT_FIELDS, **ATTRIBUTES}
    return tuple(
        name
        for name in Event.__struct_fields__
        if name in described and described[name].journal == part
    )


def kind_fault(kind: str) -> str | None:
    """What is wrong with a kind that somebody wrote down; None if it is in the table.

    Kinds become names of files, so every reader and writer asks before it uses one.
    """
    return None if kind in KINDS else str(unknown_value("kind", kind[:_SHOWN], sorted(KINDS)))
