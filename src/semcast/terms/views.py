"""Views, and what processes say to each other to agree on them.

A process is named by a number that it keeps (`Pid`) and its incarnation; together they are one
`Incarnation`.  A process that recovers is a new one [SVS §2].  Every founding of a group draws a
random number, its *lineage*, which all later views inherit.  View numbers start at 1 in every
lineage, so each datagram travels in a `Stamped` that names the lineage and the life it comes from.
`ViewEnvelope` carries the datagrams that the members of one view exchange by rank; everything else
is about views themselves.  All are immutable and array-like on the wire; lists have a greatest
length. VIEW_CHECKS has the rules over several fields.
"""

from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec

from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import (
    NO_LINEAGE,
    BallotNumber,
    Count,
    Incarnation,
    Lineage,
    Pid,
    Rank,
    Seq,
    ViewId,
)
from semcast.terms.messages import (
    CHECKS,
    Checks,
    Data,
    Nack,
    SafetyGossip,
    StabilityGossip,
    WindowEmpty,
)

MEMBERS_MAX: Final = 1 << 12

JOINING: Final = "joining"  # waits to be taken in, or for the state it starts from
MEMBER: Final = "member"
CHANGING: Final = "changing"  # between two views: nothing is sent
MINORITY: Final = "minority"  # too few members can be reached to go on
LEFT: Final = "left"
EXCLUDED: Final = "excluded"  # the group went on without this life


Incarnations: TypeAlias = Annotated[tuple[Incarnation, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
Seqs: TypeAlias = Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class GroupView(msgspec.Struct, frozen=True, array_like=True):
    """A membership with an id; a member's place in `members` is its rank.

    `seq_bases` has, by rank, how many messages each member had sent in the views before: numbers
    are dense over a life, and in a view every stream goes on after its base.  `lineage` is that
    of the founding.
    """

    id: ViewId
    members: Incarnations
    seq_bases: Seqs
    lineage: Lineage = NO_LINEAGE


NO_VIEW: Final = GroupView(0, (), ())


@lru_cache(maxsize=8)  # Simulated groups are large, and every member has it.
def fixed_view(members: int) -> GroupView:
    """The view of a fixed group: its processes are named by rank, and its id is 0.  (The runtime
    shows it to the application as view 1.)"""
    return GroupView(0, tuple(Incarnation(rank, 0) for rank in range(members)), (0,) * members)


class ViewProposal(msgspec.Struct, frozen=True, array_like=True):
    """The next view, and how far each stream of this one goes.

    `without_state` are those of its members that have yet to get the application's state; `donor`
    is the one that keeps it for them as it is when the view begins.
    """

    next: GroupView
    cut: Seqs
    donor: Pid
    without_state: Incarnations


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """A life, the view it is in (0: none), whether its application has its state, whether it
    wants to leave, and whom it wants gone.

    `held` and `delivered` repeat what the last `OrderProgress` said.  `primary`: it reaches enough
    members of its view for the view to go on.  `late`: it runs too seldom to give messages their
    order.
    """

    inc: Count
    view: ViewId
    has_state: bool = False
    leaving: bool = False
    to_exclude: Incarnations = ()
    held: Seq = 0
    delivered: Count = 0
    primary: bool = False
    late: bool = False


class ViewEnvelope(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """What one member of a view says to others as such."""

    view: ViewId
    datagram: Data | Nack | StabilityGossip | SafetyGossip | WindowEmpty


class OrderProgress(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """How far a member got in the total order of a view: order messages of the sequencer that it
    holds with all they order, and positions that its application has taken."""

    view: ViewId
    held: Seq
    delivered: Count


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """A coordinator asks the members of `view` to stop and to say what they have."""

    view: ViewId
    ballot: BallotNumber


class Promise(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """A member has stopped.  `frontier` is by rank, `sent` its own last number;
    `has_state` whether its application has its state; `accepted` the proposal of the highest
    ballot that it accepted, if any."""

    view: ViewId
    ballot: BallotNumber
    frontier: Seqs
    sent: Seq
    has_state: bool
    accepted_ballot: BallotNumber = 0
    accepted: ViewProposal | None = None


class Propose(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """A coordinator asks to accept the next view; by stream, which rank holds it to the cut."""

    view: ViewId
    ballot: BallotNumber
    proposal: ViewProposal
    holders: Annotated[tuple[Rank, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=38):
    """A member accepted: it holds everything up to the cut."""

    view: ViewId
    ballot: BallotNumber


class Decided(msgspec.Struct, frozen=True, array_like=True, tag=39):
    """The view after `view` is decided; the member of rank `holder` has everything to the cut."""

    view: ViewId
    proposal: ViewProposal
    holder: Rank


class BallotRejected(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """A ballot came too late: a higher one was promised."""

    view: ViewId
    promised: BallotNumber


class NotInView(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """The receiver's life `inc` is not in the view `view` that the group has reached."""

    inc: Count
    view: ViewId


class Invite(msgspec.Struct, frozen=True, array_like=True, tag=42):
    """Partitionable views: a coordinator asks whether to make a view of `members`."""

    view: ViewId
    members: Incarnations


class Consent(msgspec.Struct, frozen=True, array_like=True, tag=43):
    """The receiver's invitation stands: this process installs no view of a lower id any more.
    `base` is how many messages it has sent in its life."""

    view: ViewId
    base: Seq


class Formed(msgspec.Struct, frozen=True, array_like=True, tag=44):
    """Partitionable views: the view as it is installed."""

    view: GroupView


class StateRequest(msgspec.Struct, frozen=True, array_like=True, tag=45):
    """A joiner asks for the state that the application had when `view` was installed, from
    `offset` on."""

    view: ViewId
    offset: Count


class StateChunk(msgspec.Struct, frozen=True, array_like=True, tag=46):
    """A piece of the state at `view`; `total` is its whole size."""

    view: ViewId
    offset: Count
    total: Count
    data: bytes


ViewDatagram: TypeAlias = (
    Heartbeat
    | ViewEnvelope
    | OrderProgress
    | Prepare
    | Promise
    | Propose
    | Accepted
    | Decided
    | BallotRejected
    | NotInView
    | Invite
    | Consent
    | Formed
    | StateRequest
    | StateChunk
)


class Stamped(msgspec.Struct, frozen=True, array_like=True, tag=47):
    """A datagram, with the lineage and the incarnation of the process that sent it."""

    lineage: Lineage
    inc: Count
    datagram: ViewDatagram


def _check_stamped(stamped: Stamped) -> None:
    datagram = stamped.datagram
    check = _INSIDE.get(type(datagram))
    if check is not None:
        check(datagram)
    if isinstance(datagram, Formed):
        view = datagram.view
    elif isinstance(datagram, Decided | Propose):
        view = datagram.proposal.next
    elif isinstance(datagram, Promise) and datagram.accepted is not None:
        view = datagram.accepted.next
    else:
        return
    if view.lineage != stamped.lineage:
        raise RemoteProtocolError(f"view {view.id}: lineage differs from that of its sender")


def _check_enclosed(enclosed: ViewEnvelope) -> None:
    check = CHECKS.get(type(enclosed.datagram))
    if check is not None:
        check(enclosed.datagram)


def _check_lives(lives: Incarnations) -> None:
    if len({life.pid for life in lives}) < len(lives):
        raise RemoteProtocolError("members: a process appears twice")


def _check_view(view: GroupView) -> None:
    _check_lives(view.members)
    if not 0 < len(view.members) == len(view.seq_bases):
        raise RemoteProtocolError(f"view {view.id}: {len(view.members)} members")


def _check_proposal(proposal: ViewProposal) -> None:
    _check_view(proposal.next)
    _check_lives(proposal.without_state)


def _check_promise(promise: Promise) -> None:
    if promise.accepted is not None:
        _check_proposal(promise.accepted)
    if (promise.accepted is None) != (promise.accepted_ballot == 0):
        raise RemoteProtocolError(f"promise: accepted in ballot {promise.accepted_ballot}")


def _check_chunk(chunk: StateChunk) -> None:
    if chunk.offset + len(chunk.data) > chunk.total:
        raise RemoteProtocolError(f"state: {len(chunk.data)} bytes at {chunk.offset}")


_INSIDE: Final[Checks] = {
    Heartbeat: lambda heartbeat: _check_lives(heartbeat.to_exclude),
    ViewEnvelope: _check_enclosed,
    Promise: _check_promise,
    Propose: lambda propose: _check_proposal(propose.proposal),
    Decided: lambda decided: _check_proposal(decided.proposal),
    Invite: lambda invite: _check_lives(invite.members),
    Formed: lambda formed: _check_view(formed.view),
    StateChunk: _check_chunk,
}
VIEW_CHECKS: Final[Checks] = {Stamped: _check_stamped}
