"""`Machine`: the interface between a driver and a machine of any family.

Frequent inputs are calls.  Rare ones are values (commands), so they can be scheduled, recorded and
drawn like faults.  A machine appends its effects to `out`.  `status` is the only view into it.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import Incarnation, Lineage, Pid, Rank, Seq, ViewId
from semcast.terms.messages import Update
from semcast.terms.records import ReadResult
from semcast.terms.views import MEMBER, NO_VIEW, GroupView


class FoundGroup(msgspec.Struct, frozen=True, tag=True):
    """Begin with the first primary view; every founder must say the same."""

    lives: tuple[Incarnation, ...]
    lineage: Lineage


class JoinGroup(msgspec.Struct, frozen=True, tag=True):
    """Become a subscriber; a founder is one at once, others when they have sponsors."""


class LeaveGroup(msgspec.Struct, frozen=True, tag=True):
    """Ask to be let go, or be owed nothing more."""


class ForgetMember(msgspec.Struct, frozen=True, tag=True):
    """Go on without a member: one that left drained, or at most f that did not."""

    member: Rank
    drained: bool = False


class GoOffline(msgspec.Struct, frozen=True, tag=True):
    """Out of reach for a while, and still owed everything."""


class GoOnline(msgspec.Struct, frozen=True, tag=True):
    """Back in reach: get what was missed."""


class SupplyState(msgspec.Struct, frozen=True, tag=True):
    """The application's state as it was when it entered `view`."""

    view: ViewId
    state: bytes


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    """Nobody waits any longer for the answer to this request of a client, counted from 1."""

    request: int


Command: TypeAlias = (
    FoundGroup
    | JoinGroup
    | LeaveGroup
    | ForgetMember
    | GoOffline
    | GoOnline
    | SupplyState
    | Withdraw
)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How a machine is doing.

    `passed` counts the messages of all streams that were delivered, skipped or queued here, `held`
    those that are held for the application or for others, `queued` those that wait for the
    application, `unseen` of these those of views before the current one.  `lags` has, by rank, how
    many own messages a peer is not known to have, `silent_s` for how long a process was not heard,
    `excluded_s` for how long those had been silent that the view lacks for that reason.
    `left_out_s` has who is too slow to be in a view, and for how long no view is made with it.
    `is_drained`: everything known here is at every member; `owes_nothing`: everything that is here
    is.  `donor` is the process that the state is awaited from; `has_past`: earlier views, or state
    for others, are still kept.  Of a server: what it is among the others (`role`), the `primary` if
    there is one, how many updates have made its state, how many queries it has answered, and which
    server is known to be furthest behind.
    """

    phase: str = MEMBER
    sent: Seq = 0
    passed: int = 0
    skipped: int = 0
    purged: int = 0
    queued: int = 0
    unseen: int = 0
    held: int = 0
    held_bytes: int = 0
    lags: Mapping[Rank, int] = {}
    forgotten: Collection[Rank] = ()
    is_blocked: bool = False
    is_drained: bool = True
    owes_nothing: bool = True
    view: GroupView = NO_VIEW
    shown: GroupView = NO_VIEW
    suspects: Collection[Pid] = ()
    silent_s: Mapping[Pid, float] = {}
    excluded_s: Mapping[Pid, float] = {}
    left_out_s: Mapping[Pid, float] = {}
    donor: Pid | None = None
    has_past: bool = False
    discarded: Mapping[str, int] = {}
    role: str = ""
    primary: Pid | None = None
    version: int = 0
    queries: int = 0
    slowest: Pid | None = None


class Machine(Protocol):
    """One member of a group, in one life.  `deadline` is when `on_time` wants to be called next,
    `sent` the number of the last message that the application sent."""

    deadline: float

    @property
    @abstractmethod
    def sent(self) -> Seq: ...

    @abstractmethod
    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Send to the group; returns how many, from the front, there was room for.

        The rest may be offered again after `Room`; under overflow="error" having room for none
        raises `BufferFull`.  An update that says something impossible raises
        `LocalProtocolError` once it is the first.
        """
        ...

    @abstractmethod
    def on_datagrams(self, source: Pid, datagrams: Sequence[Any], now: float, out: Effects) -> None:
        """Handle datagrams of one process, in the order they came.

        A datagram that fails is dropped alone; its error is in `out.refused`.
        """

    def on_received(
        self, received: Sequence[tuple[Pid, Sequence[Any]]], now: float, out: Effects
    ) -> None:
        """Handle all that one wake-up of the driver has read, by source."""
        for source, datagrams in received:
            self.on_datagrams(source, datagrams, now, out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        return

    def on_idle(self, now: float, out: Effects) -> None:
        """The event loop has turned: send now what waits to share a datagram."""
        return

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        return

    def on_persisted(self, ticket: int, now: float, out: Effects) -> None:
        """Everything up to `ticket` is on stable storage."""
        return

    def on_read(self, result: ReadResult, now: float, out: Effects) -> None:
        """The disk answers what `out.read` asked for."""
        return

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Carry out a decision of the application or of whoever runs this process."""
        raise LocalProtocolError(f"{type(command).__name__}: not in this kind of group")

    @abstractmethod
    def status(self, now: float) -> Status:
        """Tell how the machine is doing, without changing anything."""
        ...
