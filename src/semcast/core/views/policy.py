"""The interface of view policies.  There are two: primary and partitionable.

Primary views are one sequence, each decided by a majority of the one before.  Partitionable views
are one sequence in each component of the network.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from semcast.core.member import Member
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation, Pid, Seq
from semcast.terms.views import GroupView, Heartbeat, ViewDatagram


class Change(NamedTuple):
    """Enter `view` now.  With a cut, everything up to there is delivered before; `stateless` are
    those that have yet to get the application's state, `donor` the one that keeps it for them."""

    view: GroupView
    cut: Sequence[Seq] | None = None
    donor: Pid = -1
    stateless: tuple[Incarnation, ...] = ()


class Exit(NamedTuple):
    """This life is over; `status` says why."""

    status: str


class ViewPolicy(Protocol):
    """Lives as long as one incarnation of the process.

    `steady_until`: the deadline, if the view goes on and there is nothing to poll for, else None.
    `has_quorum`: enough members are in reach to go on.  `to_exclude` are those that this member
    wants put out.  `is_late`: this process runs too seldom to give others their order.
    """

    is_leaving: bool
    has_quorum: bool
    to_exclude: tuple[Incarnation, ...]
    is_late: bool

    @property
    @abstractmethod
    def deadline(self) -> float:
        """When `on_time` wants to be called."""
        ...

    @property
    @abstractmethod
    def steady_until(self) -> float | None: ...

    @property
    @abstractmethod
    def phase(self) -> str:
        """What keeps a member of the current view from sending, or MEMBER."""
        ...

    @property
    def all_have_entered(self) -> bool:
        """Whether nobody in the view needs anything of the one before."""
        return True

    def left_out_s(self, now: float) -> dict[Pid, float]:
        """Who is too slow to be in a view, and for how long no view is made with it."""
        return {}

    def start(self) -> GroupView | None:
        """The first view, of a process that need not be taken in by others."""
        return None

    @abstractmethod
    def enter(self, member: Member, is_stateful: bool, now: float) -> None:
        """A view begins, of which this is the member here."""

    @abstractmethod
    def on_heartbeat(self, source: Pid, heartbeat: Heartbeat, now: float, out: Effects) -> None:
        """Somebody is alive, and says where it is."""

    @abstractmethod
    def on_datagram(self, source: Pid, datagram: ViewDatagram, now: float, out: Effects) -> None:
        """What is said about a new view."""

    @abstractmethod
    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""

    def on_stateful(self) -> None:
        """The application has its state now."""
        return

    @abstractmethod
    def poll(self, now: float, out: Effects) -> Change | Exit | None:
        """After every input: what has become due."""
        ...
