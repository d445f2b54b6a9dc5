"""Views, and what processes say to each other to agree on them.

A process is named by a number that it keeps (`Pid`) and its incarnation; together they are one
`Life`.  Who recovers is a new process [SVS §2].  `Enclosed` carries the datagrams that the members
of one view exchange by rank; everything else is about views themselves.
All are immutable and array-like on the wire; lists have a greatest length.
"""

from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from semcast.terms.messages import (
    Data,
    Nack,
    SafetyGossip,
    Seq,
    StabilityGossip,
    WindowEmpty,
)

Pid: TypeAlias = int
ViewId: TypeAlias = int
BallotNumber: TypeAlias = int

MEMBERS_MAX: Final = 1 << 12

JOINING: Final = "joining"  # waits to be taken in, or for the state it starts from
MEMBER: Final = "member"
CHANGING: Final = "changing"  # between two views: nothing is sent
MINORITY: Final = "minority"  # too few members can be reached to go on
LEFT: Final = "left"
EXCLUDED: Final = "excluded"  # the group went on without this life


class Life(NamedTuple):
    """One incarnation of a process."""

    pid: Pid
    inc: int


Lives: TypeAlias = Annotated[tuple[Life, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
Seqs: TypeAlias = Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class View(msgspec.Struct, frozen=True, array_like=True):
    """A membership with an id; a member's place in `members` is its rank.

    `bases` has, by rank, how many messages each member had sent in the views before: in a view
    every stream starts at 1, and numbers are dense over a life.
    """

    id: ViewId
    members: Lives
    bases: Seqs


NO_VIEW: Final = View(0, (), ())


class Proposal(msgspec.Struct, frozen=True, array_like=True):
    """The next view, and how far each stream of this one goes.

    `stateless` are those of its members that have yet to get the application's state; `donor`
    is the one that keeps it for them as it is when the view begins.
    """

    next: View
    cut: Seqs
    donor: Pid
    stateless: Lives


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """A life, the view it is in (0: none), whether its application has its state, whether it
    wants to leave, and whom it wants gone.

    `held` and `delivered` repeat what the last `Reached` said.
    """

    inc: int
    view: ViewId
    stateful: bool = False
    leaving: bool = False
    expels: Lives = ()
    held: Seq = 0
    delivered: int = 0


class Enclosed(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """What one member of a view says to others as such."""

    view: ViewId
    datagram: Data | Nack | StabilityGossip | SafetyGossip | WindowEmpty


class Reached(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """How far a member got in the total order of a view: order messages of the sequencer that it
    holds with all they order, and positions that its application has taken."""

    view: ViewId
    held: Seq
    delivered: int


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """A coordinator asks the members of `view` to stop and to say what they have."""

    view: ViewId
    ballot: BallotNumber


class Promise(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """A member has stopped.  `frontier` is by rank, `sent` its own last number in the view;
    `stateful` whether its application has its state; `accepted` the proposal of the highest
    ballot that it accepted, if any."""

    view: ViewId
    ballot: BallotNumber
    frontier: Seqs
    sent: Seq
    stateful: bool
    accepted_ballot: BallotNumber = 0
    accepted: Proposal | None = None


class Propose(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """A coordinator asks to accept the next view; by stream, which rank holds it to the cut."""

    view: ViewId
    ballot: BallotNumber
    proposal: Proposal
    holders: Seqs


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=38):
    """A member accepted: it holds everything up to the cut."""

    view: ViewId
    ballot: BallotNumber


class Decided(msgspec.Struct, frozen=True, array_like=True, tag=39):
    """The view after `view` is decided; the member of rank `holder` has everything to the cut."""

    view: ViewId
    proposal: Proposal
    holder: int


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """A ballot came too late: a higher one was promised."""

    view: ViewId
    promised: BallotNumber


class Departed(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """The receiver's life `inc` is not in the view `view` that the group has reached."""

    inc: int
    view: ViewId


class Invite(msgspec.Struct, frozen=True, array_like=True, tag=42):
    """Partitionable views: a coordinator asks whether to make a view of `members`."""

    view: ViewId
    members: Lives


class Consent(msgspec.Struct, frozen=True, array_like=True, tag=43):
    """The receiver's invitation stands: this process installs no view of a lower id any more.
    `base` is how many messages it has sent in its life."""

    view: ViewId
    base: Seq


class Formed(msgspec.Struct, frozen=True, array_like=True, tag=44):
    """Partitionable views: the view as it is installed."""

    view: View


class WantState(msgspec.Struct, frozen=True, array_like=True, tag=45):
    """A joiner asks for the state that the application had when `view` was installed, from
    `offset` on."""

    view: ViewId
    offset: int


class StateChunk(msgspec.Struct, frozen=True, array_like=True, tag=46):
    """A piece of the state at `view`; `total` is its whole size."""

    view: ViewId
    offset: int
    total: int
    data: bytes


ViewDatagram: TypeAlias = (
    Heartbeat
    | Enclosed
    | Reached
    | Prepare
    | Promise
    | Propose
    | Accepted
    | Decided
    | Refused
    | Departed
    | Invite
    | Consent
    | Formed
    | WantState
    | StateChunk
)


class Installation(msgspec.Struct, frozen=True, gc=False):
    """The application enters a view.  `state` is what a joiner starts from, None for who goes on;
    `wants_state` asks for a snapshot as of now, for `on_state`."""

    view: View
    state: bytes | None
    wants_state: bool
