"""The numbers that name members, processes, views and messages, with their bounds.

The bounds stand in the types.  msgspec checks them while it decodes, so no machine meets a negative
rank or a sequence number of over 63 bits.
"""

from typing import Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta

RANK_MAX: Final = 65_535
PID_MAX: Final = 2**31 - 1
SEQ_MAX: Final = 2**63 - 1

Rank: TypeAlias = Annotated[int, Meta(ge=0, le=RANK_MAX)]  # a place in a membership
Pid: TypeAlias = Annotated[int, Meta(ge=0, le=PID_MAX)]  # what a process keeps over its lives
Count: TypeAlias = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=SEQ_MAX)]
Unsigned: TypeAlias = Annotated[int, Meta(ge=0)]  # of 64 bits: MessagePack has no more

Seq: TypeAlias = Count  # a message of a stream, or 0: before the first
Span: TypeAlias = tuple[Positive, Seq]  # a first and a last sequence number, both included
ViewId: TypeAlias = Count
BallotNumber: TypeAlias = Count
Lineage: TypeAlias = Unsigned

EVERYONE: Final[tuple[int, ...]] = (-1,)  # the audience of what is for all; told by identity
NEVER: Final = float("inf")  # a deadline that does not come
VIEW_NAMER_BITS: Final = 39  # of the id of a partitionable view: who gave the id
NO_LINEAGE: Final = 0  # of a process in no view, and of partitionable views, which nobody founds


def view_number(view: ViewId) -> int:
    """The number of a view for people: how many came before it, without the bits that say who gave
    the id.  Two views of a split group may have the same number."""
    return view >> VIEW_NAMER_BITS or view


class Incarnation(NamedTuple):
    """One incarnation of a process."""

    pid: Pid
    inc: Count
