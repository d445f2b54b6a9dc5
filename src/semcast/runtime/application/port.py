"""The application's side of a driver: a machine's outputs as messages and changes of the view.

The application enters a view where its iteration reaches the change: an application that comes back
for more has handled everything before, so its state is taken or replaced there.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import ClassVar, NamedTuple, Protocol

import msgspec

from semcast.runtime.application.group_events import Confirmed, View, ViewChange
from semcast.runtime.application.mailbox import Mailbox, Message
from semcast.runtime.driver import Driver
from semcast.runtime.membership.directory import Directory
from semcast.terms.errors import LocalProtocolError, NoQuorum, SemcastError
from semcast.terms.ids import Lineage, ViewId
from semcast.terms.machine import SupplyState
from semcast.terms.outputs import Delivery, Ended, Installed, Output, PhaseChanged, Rival, Room
from semcast.terms.views import CHANGING, EXCLUDED, JOINING, MEMBER, MINORITY, NO_VIEW
from semcast.terms.views import GroupView as NumberedView

NO_MEMBERS: View = View(0, (), is_primary=False)


class StateHandlers(NamedTuple):
    """How the application's state gets to a process that joins: taken here, put in there."""

    snapshot: Callable[[], bytes] | None = None
    restore: Callable[[bytes], object] | None = None


class MembershipListener(Protocol):
    """Whoever knows how a process gets into its group and back.  All are called while effects are
    carried out, so none may give the machine an input."""

    def on_view(self, view: NumberedView) -> None:
        """The application will enter this view."""

    def on_rival(self, lineage: Lineage) -> None:
        """A group of the same name runs beside this one."""

    def on_excluded(self, ended: Ended) -> str:
        """The group went on without this process; why, if the process comes back, else ""."""
        ...

    def minority_reason(self) -> str:
        """Why this member cannot send in a minority."""
        ...


class _ViewMarker(NamedTuple):
    """The application has to enter a view."""

    change: ViewChange
    installed: Installed


class GroupPort:
    """What a group's application gets, in order, and may do.  Lives as long as the driver.

    `view` is what the application has been told so far, `phase` the machine's.  `delivered` and
    `skipped` count messages, the latter those the application was told are superseded.
    """

    def __init__(
        self,
        directory: Directory,
        membership: MembershipListener,
        state: StateHandlers,
        view: View = NO_MEMBERS,
        *,
        majority_of: int = 0,
        waits_in_minority: bool = True,
    ) -> None:
        """A group with a fixed membership begins in `view`.  A view is primary if it has a majority
        of `majority_of` members."""
        self.mailbox = Mailbox()
        self.can_send = asyncio.Event()  # set whenever a refused sender may try again
        self.delivered = 0
        self.skipped = 0
        self._senders_waiting = 0
        self._blocked_s = self._blocked_at = 0.0
        self.phase = self._notified = MEMBER if view.id else JOINING
        self._directory = directory
        self._membership = membership
        self._state = state
        self._majority_of = majority_of
        self._waits_in_minority = waits_in_minority
        self._is_refused = False  # a sender waits,
        self.awaits_view = False  # for a view that the application may not have entered
        self._is_member = True  # as far as the application was told
        self._view = view
        self._shown = NO_VIEW
        self._names: Sequence[str] = view.members  # by rank
        self._are_named = True

    def connect(self, driver: Driver) -> None:
        """Whoever reads gives this driver its inputs."""
        self.mailbox.ask = driver.on_ready
        self._driver = driver

    @property
    def readiness(self) -> int:
        """How many more messages the application takes."""
        return self.mailbox.asked

    @property
    def view(self) -> View:
        """Who is in the group, as the application was told."""
        if not self._are_named:
            self._name_members()
            self._view = msgspec.structs.replace(self._view, members=tuple(self._names))
        return self._view

    def on_submitted(self, offered: int, accepted: int) -> None:
        """Some of what was offered could be sent; raises NoQuorum if nobody may wait."""
        is_refused = accepted < offered
        if is_refused or self._is_refused:
            self._is_refused = is_refused
            self._note_waiting()
        if not accepted and self.phase == MINORITY and not self._waits_in_minority:
            raise NoQuorum(self._membership.minority_reason())

    def prefetch(self, count: int) -> int:
        """The application has to take at least so many, whether or not it waits for them."""
        return self.mailbox.prefetch(count)

    def put(self, outputs: Sequence[Output]) -> int:
        """Hand over what the machine has for the application; returns the change in readiness."""
        if not self._are_named:
            self._name_members()
        messages: list[Message] = []
        markers: list[tuple[int, object]] = []
        ended: Ended | None = None
        for output in outputs:
            if type(output) is Delivery:
                messages += self._app_messages(output)
            elif type(output) is Ended:
                ended = output
            elif (marker := self._HANDLERS[type(output)](self, output)) is not None:
                markers.append((len(messages), marker))
        if ended is not None or self.phase != self._notified:
            change = self._on_ended(ended) if ended is not None else self._status_change()
            if change is not None:
                markers.append((len(messages), change))
        self.delivered += len(messages)
        return self.mailbox.put(messages, markers) if messages or markers else 0

    def _app_messages(self, delivery: Delivery) -> list[Message]:
        run, skipped = delivery.run, delivery.skipped
        made = run.app_messages(Message, self._names[run.sender], delivery.position)
        if skipped:
            self.skipped += skipped
            made[0] = msgspec.structs.replace(made[0], skipped=skipped)
        return made

    async def wait_for_room(self) -> None:
        """Wait until a refused sender may try again, and count the time."""
        if not self._senders_waiting:
            self._blocked_at = monotonic()
        self._senders_waiting += 1
        try:
            await self.can_send.wait()
        finally:
            self._senders_waiting -= 1
            if not self._senders_waiting:
                self._blocked_s += monotonic() - self._blocked_at

    def blocked_s(self, now: float) -> float:
        """How long senders have waited."""
        return self._blocked_s + (now - self._blocked_at if self._senders_waiting else 0.0)

    def _on_room(self, _room: Room) -> None:
        self.can_send.set()

    def _on_phase(self, changed: PhaseChanged) -> None:
        self.phase = changed.phase
        self._note_waiting()

    def _note_waiting(self) -> None:
        self.awaits_view = self._is_refused and self.phase in (CHANGING, MINORITY)

    def _on_rival(self, rival: Rival) -> None:
        self._membership.on_rival(rival.lineage)

    def _on_confirmed(self, confirmed: Confirmed) -> Confirmed:
        return confirmed

    def _on_installed(self, installed: Installed) -> _ViewMarker:
        view, before = installed.view, self._shown
        name_of = self._directory.name_of
        joined = tuple(name_of(life.pid) for life in view.members if life not in before.members)
        left = tuple(name_of(life.pid) for life in before.members if life not in view.members)
        self._shown = view
        self._name_members()
        is_primary = 2 * len(view.members) > self._majority_of
        self._view = View(view.id, tuple(self._names), is_primary=is_primary)
        self._is_member = True
        self._membership.on_view(view)
        self.can_send.set()  # Whoever waited for this view may try again.
        if installed.wants_state and self._state.snapshot is None:
            self._driver.clock.call_soon(self._supply_state, view.id, b"")
            installed = msgspec.structs.replace(installed, wants_state=False)
        return _ViewMarker(ViewChange(self._view, joined, left, MEMBER), installed)

    _HANDLERS: ClassVar[dict[type, Callable[..., object]]] = {
        Room: _on_room,
        PhaseChanged: _on_phase,
        Rival: _on_rival,
        Confirmed: _on_confirmed,
        Installed: _on_installed,
    }

    def _name_members(self) -> None:
        """By rank; who joined just now may introduce itself later."""
        members, known = self._shown.members, self._directory
        self._names = tuple(known.name_of(life.pid) for life in members)
        self._are_named = all(known.is_named(life.pid) for life in members)

    def _on_ended(self, ended: Ended) -> ViewChange | None:
        self.phase = self._notified = ended.status
        self._note_waiting()
        reason = self._membership.on_excluded(ended) if ended.status == EXCLUDED else ""
        return self._status(EXCLUDED, is_primary=False, reason=reason) if reason else None

    def _status_change(self) -> ViewChange | None:
        """What the application has to be told of the phase, if anything."""
        self._notified = self.phase
        if self.phase == MEMBER and not self._is_member:
            return self._status(MEMBER, is_primary=True)
        if self.phase == MINORITY:
            self.can_send.set()  # so that a sender that may not wait is told
            return self._status(MINORITY, is_primary=False)
        return None

    def _status(self, status: str, *, is_primary: bool, reason: str = "") -> ViewChange:
        self._is_member = status == MEMBER
        self._view = msgspec.structs.replace(self._view, is_primary=is_primary)
        return ViewChange(self._view, status=status, reason=reason)

    def on_marker(self, marker: object) -> ViewChange | Confirmed:
        """The application has taken everything before a marker; what to tell it."""
        if not isinstance(marker, _ViewMarker):
            assert isinstance(marker, ViewChange | Confirmed)
            return marker
        change, installed = marker
        if installed.state is not None and self._state.restore is not None:
            self._state.restore(installed.state)
        if installed.wants_state:
            assert self._state.snapshot is not None
            state = self._state.snapshot()
            if not isinstance(state, bytes):
                raise LocalProtocolError(f"snapshot: must return bytes, not {type(state).__name__}")
            self._supply_state(installed.view.id, state)
        return change

    def _supply_state(self, view: ViewId, state: bytes) -> None:
        if self._driver.ended is None:
            self._driver.command(SupplyState(view, state))

    def restart(self) -> None:
        """A new machine joins."""
        self.phase = self._notified = JOINING
        self._note_waiting()

    def end(self, reason: SemcastError | None) -> None:
        """Nothing more will come; whoever waits is told why."""
        self.mailbox.end(reason)
        self.can_send.set()
