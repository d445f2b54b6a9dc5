"""Outputs of a machine for its application, in the order in which the application gets them.

All are immutable.  A machine that stands on another passes the same `Effects` down and finds what
the lower one appended at the end of `Effects.outputs`.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from semcast.terms.ids import NO_LINEAGE, Lineage, Rank, Seq, ViewId
from semcast.terms.messages import DataMessage, MessageRun
from semcast.terms.views import GroupView


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """Messages of one sender, next to each other in its stream; bytes until they are read.

    `skipped` is how many messages were passed over as purged since the delivery before.
    `position`, under total order, is the place of the first message in its view, from 1.
    """

    run: MessageRun
    skipped: int = 0
    position: int = 0


class PassedOver(msgspec.Struct, frozen=True, gc=False):
    """What a subscriber will not get.  `reason` is "" if these are obsolete and the last word on
    them is here, else a word for how they were lost."""

    sender: Rank
    first: Seq
    last: Seq
    reason: str


class Installed(msgspec.Struct, frozen=True, gc=False):
    """The application enters a view.  `state` is what a joiner starts from, None for who goes on;
    `wants_state` asks for a snapshot as of now."""

    view: GroupView
    state: bytes | None
    wants_state: bool


class Confirmed(msgspec.Struct, frozen=True, gc=False):
    """Everything up to `position` in the order of the view `view` was delivered at every member of
    it (protocol `vs`)."""

    view: ViewId
    position: int


class PhaseChanged(msgspec.Struct, frozen=True, gc=False):
    """The member may send, or may not for the reason that `phase` names.  Its end is `Ended`."""

    phase: str


class Rival(msgspec.Struct, frozen=True, gc=False):
    """A group of the same name runs beside this one; each lineage is told once."""

    lineage: Lineage


class Answered(msgspec.Struct, frozen=True, gc=False):
    """What a client asked has an end: `status` is DONE, FAILED, FORGOTTEN or UNANSWERED
    (`terms.service`)."""

    status: str
    body: bytes


class Withdrawn(msgspec.Struct, frozen=True, gc=False):
    """A request of a client, counted from 1, was dropped: it has no answer and changes nothing."""

    request: int


class ClientOutputs(msgspec.Struct, frozen=True, gc=False):
    """What is for the application of one of several clients that share a machine."""

    client: int
    outputs: "tuple[Output, ...]"


class Room(msgspec.Struct, frozen=True, gc=False):
    """A sender that was refused may try again."""


class Ended(msgspec.Struct, frozen=True, gc=False):
    """This member has left the group, or the group went on without it (`status`); `followed` is
    the lineage of the group because of which its life ended, if there is one."""

    status: str
    followed: Lineage = NO_LINEAGE


Output: TypeAlias = (
    Delivery
    | PassedOver
    | Installed
    | Confirmed
    | PhaseChanged
    | Rival
    | Answered
    | Withdrawn
    | ClientOutputs
    | Room
    | Ended
)

ROOM: Final = Room()


def delivered(outputs: Iterable[Output]) -> list[DataMessage]:
    """The messages among outputs, one by one."""
    runs = [output.run for output in outputs if isinstance(output, Delivery)]
    return [message for run in runs for message in run.messages()]
