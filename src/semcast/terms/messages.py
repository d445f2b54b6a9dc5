"""What travels between members.

`DataMessage` is one application message with its obsolescence annotation; the rest are datagrams.
All are immutable and array-like on the wire, so that msgspec checks hostile bytes for us.
Ranks (places in the fixed membership) name members; `seq` starts at 1 and is dense per sender.
Lists inside a message have a greatest length, so that a large datagram cannot be all list.  Numbers
have their bounds in their types (`terms.ids`); CHECKS has the rules over several of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import RANK_MAX, Count, Positive, Rank, Seq, Span
from semcast.terms.items import Item

T = TypeVar("T")

COVERS_MAX: Final = 1 << 12  # distances that one message may list
AFTER_MAX: Final = 1 << 16


class DataMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One application message.

    `item` is its item tag.  `covers` says which earlier messages of the same sender it makes
    obsolete when the relation is richer than items: bytes are a little-endian bitmap whose
    n-th bit (counted from 1) names the n-th preceding message [SRM §3.2]; a tuple lists
    distances.  `never_purge` means that no later message makes this one obsolete.  It comes
    `after` messages of other senders: under causal order the last that its sender had delivered of
    each, and under total order an order message comes after what it places.
    `name` is what the application calls the item; no rule looks at it.
    """

    sender: Rank
    seq: Positive
    item: int | None = None
    covers: bytes | Annotated[tuple[int, ...], msgspec.Meta(max_length=COVERS_MAX)] = b""
    never_purge: bool = False
    after: Annotated[tuple[tuple[Rank, Seq], ...], msgspec.Meta(max_length=AFTER_MAX)] = ()
    payload: bytes = b""
    name: str = ""


class MessageRun(Protocol):
    """Messages of one sender, next to each other in its stream.  Immutable; `kernel.Run` is it."""

    @property
    def sender(self) -> Rank: ...

    @property
    def first(self) -> Seq: ...

    @property
    def count(self) -> int: ...

    @property
    def payload_bytes(self) -> int: ...

    def slice_run(self, start: int, stop: int) -> "MessageRun":
        """The messages from one place to another."""
        ...

    def messages(self) -> Sequence[DataMessage]:
        """Each by itself."""
        ...

    def app_messages(self, make: Callable[..., T], sender: str, position: int) -> list[T]:
        """What the application gets; `position` is that of the first, 0 if there is none."""
        ...


class PurgeNotice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The notice that messages `first` to `last` of `sender` were purged as obsolete.

    `witness` is at or after each message that superseded one of them, and was safe (under S-SM:
    held by the sender).  It says how far a receiver must still get, not what to wait for.
    """

    sender: Rank
    first: Positive
    last: Seq
    witness: Seq


class Data(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A batch: first transmission when `nack_number` is 0, otherwise repair for that `Nack`.

    `safe` is how far the own stream of a first transmission's sender is safe, if it knows.
    """

    messages: tuple[DataMessage, ...]  # or a run, which is a sequence of them, too
    notices: tuple[PurgeNotice, ...] = ()
    nack_number: Count = 0
    safe: Seq = 0


class Nack(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A receiver asks for at most `limit` messages of `sender` among the missing `spans`."""

    sender: Rank
    spans: tuple[Span, ...]
    limit: Count
    number: Positive  # 0 marks a first transmission


class FrontierVote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one member knows of one stream: how far it got itself, the candidate under vote,
    who reached that candidate (a little-endian bit mask of ranks), and what was agreed."""

    sender: Rank
    frontier: Seq
    candidate: Seq
    voters: Annotated[bytes, msgspec.Meta(max_length=(RANK_MAX + 1) // 8)]
    agreed: Seq


class StabilityGossip(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Ballots that need the vote of every member."""

    votes: tuple[FrontierVote, ...]


class SafetyGossip(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Ballots that need f + 1 votes."""

    votes: tuple[FrontierVote, ...]


class WindowEmpty(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """The sender has nothing more to send after `last` [SRB §2.5]."""

    sender: Rank
    last: Seq


class Excluded(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """The group went on without `member`; it must not take part again under that rank."""

    member: Rank


Datagram: TypeAlias = Data | Nack | StabilityGossip | SafetyGossip | WindowEmpty | Excluded
Checks: TypeAlias = Mapping[type, Callable[[Any], None]]  # by type of datagram


def check_messages(messages: Iterable[DataMessage]) -> None:
    """Refuse a message that obsoletes what is no earlier message."""
    for message in messages:
        if message.covers:
            _check_covers(message)


def _check_covers(message: DataMessage) -> None:
    seq, covers = message.seq, message.covers
    if isinstance(covers, bytes):
        reach = int.from_bytes(covers, "little").bit_length()
    else:
        reach = max(covers) if min(covers) >= 1 else seq
    if reach >= seq:
        raise RemoteProtocolError(f"covers: message {seq} must list earlier messages")


def check_purged(notices: Iterable[PurgeNotice]) -> None:
    """Refuse a notice whose numbers contradict each other."""
    for notice in notices:
        # What supersedes `last` comes after it, and the witness is no earlier than that.
        if not notice.first <= notice.last < notice.witness:
            raise RemoteProtocolError(f"purged out of range: {notice!r}")


def _check_data(data: Data) -> None:
    check_messages(data.messages)
    check_purged(data.notices)


def _check_nack(nack: Nack) -> None:
    for first, last in nack.spans:
        if first > last:
            raise RemoteProtocolError(f"ranges out of range: {(first, last)!r}")


CHECKS: Final[Checks] = {Data: _check_data, Nack: _check_nack}


class Update(msgspec.Struct, frozen=True, gc=False):
    """What the application asks to multicast; the fields are those of `Group.multicast`.

    `obsoletes` lists numbers of this member's own earlier messages.  Under the update/fin relation
    one without an item is a *fin*.
    """

    payload: bytes = b""
    item: Item | None = None
    never_purge: bool = False
    obsoletes: tuple[Seq, ...] = ()
