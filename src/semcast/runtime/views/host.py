"""Drives one member of changing views on a real clock and real sockets, through its lives.

The application enters a view where its iteration reaches the change: whoever comes back for more
is done with everything before, so that is where its state is taken or replaced.  A member that the
group went on without begins a new life and joins again.
"""

import logging
from collections.abc import Callable, Sequence
from random import Random
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec

from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe, quorum
from semcast.kernel import letters, payload_bytes
from semcast.runtime.addresses import Address
from semcast.runtime.bulk import Bulk
from semcast.runtime.driver import BULK_BYTES, Driver, Journal, decoded
from semcast.runtime.happenings import Confirmed, View, ViewChange
from semcast.runtime.host import ExcludedFromGroup
from semcast.runtime.mailbox import Message, note_skipped
from semcast.runtime.transport import Transport
from semcast.runtime.views.introductions import Introductions, Standing, standing_decoder
from semcast.runtime.views.lives import next_life, pid_of
from semcast.terms.effects import Deliveries, Effects
from semcast.terms.errors import LocalProtocolError, NoQuorum, RemoteProtocolError
from semcast.terms.messages import Data, Submission
from semcast.terms.views import (
    EXCLUDED,
    JOINING,
    LEFT,
    MEMBER,
    MINORITY,
    NO_VIEW,
    Enclosed,
    Installation,
    Life,
    Pid,
    StateChunk,
    ViewId,
)
from semcast.terms.views import View as NumberedView
from semcast.wire import decode_view
from semcast.wire.frames import REPORT, TCP, WHOLE
from semcast.wire.sealing import Opened

log = logging.getLogger("semcast")

REPORT_PERIOD_S: Final = 1.0


class State(NamedTuple):
    """How the application's state gets to one who joins: taken at one, put in at the other."""

    snapshot: Callable[[], bytes] | None = None
    restore: Callable[[bytes], object] | None = None


class _Entry(NamedTuple):
    """The application has to enter a view."""

    change: ViewChange
    installation: Installation


class ViewHost(Driver):
    """Lives from the first attempt to join until the group is closed."""

    member: ViewMember

    def __init__(
        self,
        member: ViewMember,
        run: int,
        introductions: Introductions,
        transport: Transport,
        bulk: Bulk,
        journal: Journal | None,
        *,
        state: State,
        rejoin: bool,
        servers: int,
        flushes_on_turn: bool,
    ) -> None:
        """`servers` is how many members the group should have, or 0: `vs` takes a majority of them
        for primary."""
        super().__init__(
            transport, bulk, journal, introductions.addresses, flushes_on_turn=flushes_on_turn
        )
        self.member = member
        self.recipe: ViewRecipe = member.recipe
        self.relation = member.recipe.relation
        self.run = run
        self.sent = 0  # messages, in all lives
        self.skipped = 0  # messages that the application was told are superseded
        self.introductions = introductions
        self._state = state
        self._rejoins = rejoin
        self._servers = servers
        self._status = member.status
        self._is_told = True  # that this member is what it was told to be last: one of the view
        self._view = View(0, (), is_primary=False)
        self._shown = NO_VIEW
        self._names: tuple[str, ...] = ()
        self._are_named = True
        self._reporting = self._loop.call_later(REPORT_PERIOD_S, self._report)

    @property
    def everyone(self) -> Sequence[Address | None]:
        """Where to send what is for all: the multicast group, or each peer."""
        peers = self.introductions.peers
        if peers is None:
            return (None,)
        return [address for name, address in peers.items() if name != self.introductions.own.name]

    @property
    def last(self) -> int:
        """The number of the message that was multicast last."""
        if not self.member.tenures:
            return 0
        tenure = self.member.tenures[-1]
        return tenure.view.bases[tenure.rank] + tenure.last_own

    @property
    def view(self) -> View:
        """Who is in the group, as the application was told."""
        if not self._are_named:
            self._name_members()
            self._view = msgspec.structs.replace(self._view, members=self._names)
        return self._view

    def begin(self, founders: tuple[Life, ...]) -> None:
        """Found the group with others, or ask those who are there to be taken in."""
        now = monotonic()
        if founders:
            self.member.found(founders, now, self._out)
        self._carry_out(now)

    def forget_member(self, name: str) -> None:
        """Not with views."""
        raise LocalProtocolError(
            f"forget: with views the group itself goes on without {name} if it has to"
        )

    def multicast(self, submissions: Sequence[Submission]) -> int:
        """How many of them, from the front, could be sent."""
        if self.member.status == EXCLUDED:
            return 0  # The next life may.
        accepted = super().multicast(submissions)
        self.sent += accepted
        if not accepted and self.recipe.overflow == "error" and self.member.status == MINORITY:
            raise NoQuorum(self.why_minority())
        return accepted

    def why_minority(self) -> str:
        """How many there are, and how many it takes."""
        view = self.member.view
        reached = [life for life in view.members if life.pid not in self.suspects]
        names = ", ".join(self.introductions.name_of(life.pid) for life in reached)
        return (
            f"minority: {len(reached)} of the {len(view.members)} members of view {view.id} can be "
            f"reached ({names}), {quorum(len(view.members))} are needed"
        )

    @property
    def suspects(self) -> set[int]:
        """Members of the current view that seem to have crashed."""
        alive = self.member.suspicion.is_alive
        members = self.member.view.members
        return {pid for pid, _ in members if pid != self.member.pid and not alive(pid)}

    def on_frame(self, opened: Opened, now: float) -> None:
        """A frame of a known process; raises RemoteProtocolError if it makes no sense."""
        if self.ended is not None:
            return
        if opened.kind == WHOLE:
            self.member.on_datagram(pid_of(opened.sender), decode_view(opened.body), now, self._out)
        elif opened.kind == REPORT:
            self._on_standing(pid_of(opened.sender), decoded(standing_decoder, opened.body))
        else:
            raise RemoteProtocolError(f"a frame of kind {opened.kind} from a member")

    def _on_standing(self, pid: Pid, standing: Standing) -> None:
        self.introductions.on_standing(pid, standing)
        own = self.member.life
        if any(life.pid == own.pid and life.inc > own.inc for life in standing.members):
            name = self.introductions.own.name
            self.end(ExcludedFromGroup(f"the group has taken in another process as {name}"))

    def _has_unsent(self) -> bool:
        tenures = self.member.tenures
        return bool(tenures) and not tenures[-1].member.outbox.is_empty

    def _bulk_bytes(self, datagram: Any) -> int:
        if isinstance(datagram, StateChunk):
            return BULK_BYTES + 1  # A piece of much.
        if isinstance(datagram, Enclosed) and isinstance(datagram.datagram, Data):
            return payload_bytes(datagram.datagram.messages)
        return 0

    def _hand_over(self, out: Effects) -> None:
        deliver, installs, confirmed = out.deliver, out.installs, out.confirmed
        positions, skipped = out.positions, out.skipped
        out.deliver, out.installs, out.confirmed = Deliveries(), [], []
        out.positions, out.skipped = [], []
        messages: list[Message] = []
        dividers: list[tuple[int, object]] = []
        begin = 0
        if not self._are_named:
            self._name_members()
        for end, installation in [*installs, (len(deliver), None)]:
            of_view = slice(begin, end)
            runs = [deliver[of_view]] if installs or positions else deliver.runs
            for run in runs:
                messages += letters(
                    Message, self._names, self._shown.bases, run, positions[of_view]
                )
            begin = end
            if installation is not None:
                dividers.append((end, self._install(installation)))
        note_skipped(messages, skipped)
        dividers += [(len(messages), Confirmed(*each)) for each in confirmed]
        self.delivered += len(messages)
        self.skipped += sum(count for _, count in skipped)
        self.mailbox.put(messages, dividers)  # last, since it may ask for more or fewer at once

    def _install(self, installation: Installation) -> _Entry:
        view, before = installation.view, self._shown
        name_of = self.introductions.name_of
        joined = tuple(name_of(life.pid) for life in view.members if life not in before.members)
        left = tuple(name_of(life.pid) for life in before.members if life not in view.members)
        self._shown = view
        self._name_members()
        self._view = View(view.id, self._names, is_primary=self._is_primary(view))
        self._is_told = True
        self.room.set()  # Whoever waited for this view may try again.
        if installation.wants_state and self._state.snapshot is None:
            self._loop.call_soon(self._give_state, view.id, b"")
            installation = msgspec.structs.replace(installation, wants_state=False)
        return _Entry(ViewChange(self._view, joined, left, MEMBER), installation)

    def _name_members(self) -> None:
        """By rank; who joined just now may introduce itself later."""
        members, known = self._shown.members, self.introductions
        self._names = tuple(known.name_of(life.pid) for life in members)
        self._are_named = all(known.is_named(life.pid) for life in members)

    def _is_primary(self, view: NumberedView) -> bool:
        return self.recipe.is_primary or 2 * len(view.members) > self._servers

    def on_divider(self, divider: object) -> ViewChange | Confirmed:
        """The application has taken everything before a change."""
        if not isinstance(divider, _Entry):
            assert isinstance(divider, ViewChange | Confirmed)
            return divider
        change, installation = divider
        if installation.state is not None and self._state.restore is not None:
            self._state.restore(installation.state)
        if installation.wants_state:
            assert self._state.snapshot is not None
            taken = self._state.snapshot()
            if not isinstance(taken, bytes):
                raise LocalProtocolError(f"snapshot: {type(taken).__name__} is not bytes")
            self._give_state(installation.view.id, taken)
        return change

    def _give_state(self, view: ViewId, state: bytes) -> None:
        now = monotonic()
        self.member.on_state(view, state, now, self._out)
        self._carry_out(now)

    def _conclude(self, out: Effects) -> None:
        if self.member.is_refused:
            self._catch_up()
        status = self.member.status
        if status == self._status:
            return
        self._status = status
        if status == MEMBER and not self._is_told:
            self._tell(MEMBER, is_primary=True)
        elif status == MINORITY:
            self._tell(MINORITY, is_primary=False)
            self.room.set()  # so that a sender that may not wait is told
        elif status == EXCLUDED and self.ended is None:
            self._on_excluded()

    def _catch_up(self) -> None:
        """A sender waits for a view that the application has not entered: hand over what comes
        before.  Whoever sends while it handles a message would else wait for itself."""
        *old, _ = self.member.tenures or (None,)
        waiting = sum(len(tenure.member.holdings.queue) for tenure in old)
        if waiting and self.member.shown.id:
            self.mailbox.hurry(waiting)

    def _tell(self, status: str, *, is_primary: bool) -> None:
        self._is_told = status == MEMBER
        self._view = msgspec.structs.replace(self._view, is_primary=is_primary)
        self.mailbox.put((), [(0, ViewChange(self._view, status=status))])

    def _on_excluded(self) -> None:
        if not self._rejoins:
            self.end(
                ExcludedFromGroup(
                    f"the group went on without {self.introductions.own.name}, which was silent "
                    "or too slow; join again, or let rejoin do it"
                )
            )
            return
        self._tell(EXCLUDED, is_primary=False)
        self._loop.call_soon(self._begin_life)

    def _begin_life(self) -> None:
        """The next life of this process knows nothing, and joins."""
        if self.ended is not None:
            return
        now = monotonic()
        life = Life(self.member.pid, next_life())
        log.info("%s comes back as life %d", self.introductions.own.name, life.inc)
        self.member = ViewMember(
            self.recipe, life, Random(self.introductions.nonce + life.inc), now
        )
        self._status = self.member.status
        if self.mailbox.asked:
            self.member.on_ready(self.mailbox.asked, now, self._out)
        self._armed = float("inf")
        self._carry_out(now)

    def introduction(self) -> bytes:
        """The first frame on a TCP connection: small, so that strangers need not be let more."""
        said = msgspec.structs.replace(self.standing(), members=(), names=(), suspects=())
        return self._transport.sealer.seal(REPORT, msgspec.msgpack.encode(said), TCP)

    def standing(self) -> Standing:
        """What the others are told of this member."""
        member, suspects = self.member, tuple(sorted(self.suspects))
        holdings = [tenure.member.holdings for tenure in member.tenures]
        return Standing(
            echo=0,
            run=self.run,
            view=member.view.id,
            members=member.view.members,
            names=tuple(self.introductions.name_of(life.pid) for life in member.view.members),
            status=member.status,
            suspects=suspects,
            delivered=self.delivered,
            skipped=self.skipped,
            queued=sum(len(each.queue) for each in holdings),
            held=sum(each.messages for each in holdings),
        )

    def _report(self) -> None:
        body = msgspec.msgpack.encode(self.standing())
        self._transport.send(REPORT, body, self.everyone)
        for envelope in self.introductions.greetings(asking=False):
            self._transport.send(envelope.kind, envelope.body, (envelope.to,))
        self._reporting = self._loop.call_later(REPORT_PERIOD_S, self._report)

    async def leave(self, timeout_s: float) -> bool:
        """Ask the group to go on without this member; False if it did not agree in time.

        Under `vs` nobody agrees on what it sent: so the others should have it before.
        """
        if self.member.status == JOINING:
            return True
        is_done = self.recipe.is_primary or await self.until(self._is_drained, timeout_s)
        now = monotonic()
        self.member.leave(now, self._out)
        self._carry_out(now)
        has_left = await self.until(lambda: self.member.status in (LEFT, EXCLUDED), timeout_s)
        return is_done and has_left

    def _is_drained(self) -> bool:
        return all(tenure.member.is_drained for tenure in self.member.tenures)

    def stop(self) -> None:
        """No more timers."""
        self._reporting.cancel()
        super().stop()
