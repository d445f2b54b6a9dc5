"""Drives one member of changing views on a real clock and real sockets, through its lives.

The application enters a view where its iteration reaches the change: whoever comes back for more
is done with everything before, so that is where its state is taken or replaced.  A member that the
group went on without begins a new life and joins again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec

from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.kernel import payload_bytes
from semcast.runtime.addresses import Address
from semcast.runtime.bulk import Bulk
from semcast.runtime.driver import BULK_BYTES, Driver, Journal, decoded
from semcast.runtime.happenings import Confirmed, View, ViewChange
from semcast.runtime.host import ExcludedFromGroup
from semcast.runtime.tasks import start_task
from semcast.runtime.transport import Transport
from semcast.runtime.views import reasons
from semcast.runtime.views.introductions import Introductions, Standing, standing_decoder
from semcast.runtime.views.lives import next_life, pid_of
from semcast.terms.errors import LocalProtocolError, NoQuorum, RemoteProtocolError
from semcast.terms.ids import NO_LINEAGE, Life, Lineage, Pid, ViewId
from semcast.terms.machine import FoundGroup, LeaveGroup, SupplyState
from semcast.terms.messages import Data, Submission
from semcast.terms.outputs import Ended, Installed, Output, PhaseChanged, Rival
from semcast.terms.views import (
    CHANGING,
    EXCLUDED,
    JOINING,
    LEFT,
    MEMBER,
    MINORITY,
    NO_VIEW,
    Enclosed,
    StateChunk,
)
from semcast.terms.views import View as NumberedView
from semcast.wire import VIEW_CODEC
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
    installed: Installed


class ViewHost(Driver):
    """Lives from the first attempt to join until the group is closed."""

    member: ViewMember

    def __init__(
        self,
        member: ViewMember,
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
        self.sent = 0  # messages, in all lives
        self.introductions = introductions
        self._state = state
        self._rejoins = rejoin
        self._servers = servers
        self._phase = self._told = JOINING  # of the member; what the application was told of
        self._is_refused = False  # a sender waits
        self._discarded: Counter[str] = Counter()  # by earlier lives, and reports
        self._is_told = True  # that this member is what it was told to be last: one of the view
        self._view = View(0, (), is_primary=False)
        self._shown = NO_VIEW
        self._names: tuple[str, ...] = ()
        self._are_named = True
        self.on_install: Callable[[], None] = lambda: None  # a view was installed
        self._returning: asyncio.Task[None] | None = None  # to a group that went on without it
        self._reporting = self._loop.call_later(REPORT_PERIOD_S, self._report)

    @property
    def everyone(self) -> Sequence[Address | None]:
        """Where to send what is for all: the multicast group, or each peer."""
        peers = self.introductions.peers
        if peers is None:
            return (None,)
        return [address for name, address in peers.items() if name != self.introductions.own.name]

    @property
    def view(self) -> View:
        """Who is in the group, as the application was told."""
        if not self._are_named:
            self._name_members()
            self._view = msgspec.structs.replace(self._view, members=self._names)
        return self._view

    def begin(self, founders: tuple[Life, ...], lineage: Lineage) -> None:
        """Found the group with others, or ask those who are there to be taken in."""
        if founders:
            self.command(FoundGroup(founders, lineage))
        else:
            self._carry_out(monotonic())

    def forget_member(self, name: str) -> None:
        """Not with views."""
        raise LocalProtocolError(
            f"forget: not available with views; the group excludes {name} itself if it fails"
        )

    def multicast(self, submissions: Sequence[Submission]) -> int:
        """How many of them, from the front, could be sent."""
        if self._phase == EXCLUDED:
            return 0  # The next life may.
        accepted = super().multicast(submissions)
        self.sent += accepted
        self._is_refused = accepted < len(submissions)
        self._catch_up()
        if not accepted and self.recipe.overflow == "error" and self._phase == MINORITY:
            raise NoQuorum(self.why_minority())
        return accepted

    def why_minority(self) -> str:
        """How many there are, and how many it takes."""
        status = self.status()
        return reasons.minority(status.view, set(status.suspects), self.introductions)

    def on_frame(self, opened: Opened, now: float) -> None:
        """A frame of a known process; raises RemoteProtocolError if it makes no sense."""
        if self.ended is not None:
            return
        if opened.kind == WHOLE:
            self.member.on_datagram(
                pid_of(opened.sender), VIEW_CODEC.decode(opened.body), now, self._out
            )
        elif opened.kind == REPORT:
            self._on_standing(pid_of(opened.sender), decoded(standing_decoder, opened.body))
        else:
            raise RemoteProtocolError(f"unexpected frame of kind {opened.kind} from a member")

    @property
    def discarded(self) -> Counter[str]:
        """Datagrams of other lineages and incarnations, by reason, in all lives."""
        return self._discarded + Counter(self.status().discarded)

    def _on_standing(self, pid: Pid, standing: Standing) -> None:
        if not self.introductions.on_standing(pid, standing):
            self._discarded["lineage"] += 1
        own = self.member.life
        if any(life.pid == own.pid and life.inc > own.inc for life in standing.members):
            name = self.introductions.own.name
            self.end(
                ExcludedFromGroup(f"another process has joined the group with the name {name}")
            )

    def _bulk_bytes(self, datagram: Any) -> int:
        inside = datagram.datagram
        if isinstance(inside, StateChunk):
            return BULK_BYTES + 1  # A piece of much.
        if isinstance(inside, Enclosed) and isinstance(inside.datagram, Data):
            return payload_bytes(inside.datagram.messages)
        return 0

    def _hand_over(self) -> None:
        if not self._are_named:
            self._name_members()
        super()._hand_over()
        if self._phase == self._told:
            return
        self._told = self._phase
        if self._phase == MEMBER and not self._is_told:
            self._tell(MEMBER, is_primary=True)
        elif self._phase == MINORITY:
            self._tell(MINORITY, is_primary=False)
            self.room.set()  # so that a sender that may not wait is told

    def _divider(self, output: Output) -> object:
        if isinstance(output, Installed):
            return self._install(output)
        if isinstance(output, PhaseChanged):
            self._phase = output.phase
        elif isinstance(output, Rival):
            members = self.view.members
            log.error("%s", reasons.two_groups(members, output.lineage, self.introductions))
        return output if isinstance(output, Confirmed) else None

    def _install(self, installed: Installed) -> _Entry:
        view, before = installed.view, self._shown
        name_of = self.introductions.name_of
        joined = tuple(name_of(life.pid) for life in view.members if life not in before.members)
        left = tuple(name_of(life.pid) for life in before.members if life not in view.members)
        self._shown = view
        self.introductions.lineage = view.lineage
        self._name_members()
        self._view = View(view.id, self._names, is_primary=self._is_primary(view))
        self._is_told = True
        self.on_install()
        self.room.set()  # Whoever waited for this view may try again.
        if installed.wants_state and self._state.snapshot is None:
            self._loop.call_soon(self._give_state, view.id, b"")
            installed = msgspec.structs.replace(installed, wants_state=False)
        return _Entry(ViewChange(self._view, joined, left, MEMBER), installed)

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
        change, installed = divider
        if installed.state is not None and self._state.restore is not None:
            self._state.restore(installed.state)
        if installed.wants_state:
            assert self._state.snapshot is not None
            taken = self._state.snapshot()
            if not isinstance(taken, bytes):
                raise LocalProtocolError(f"snapshot: must return bytes, not {type(taken).__name__}")
            self._give_state(installed.view.id, taken)
        return change

    def _give_state(self, view: ViewId, state: bytes) -> None:
        self.command(SupplyState(view, state))

    def _carry_out(self, now: float, *, repairs: bool = False) -> None:
        super()._carry_out(now, repairs=repairs)
        self._catch_up()

    def _catch_up(self) -> None:
        """A sender waits for a view that the application has not entered: hand over what comes
        before.  Whoever sends while it handles a message would else wait for itself."""
        if self._is_refused and self._phase in (CHANGING, MINORITY):
            unseen = self.status().unseen
            if unseen:
                self.mailbox.hurry(unseen)

    def _tell(self, status: str, *, is_primary: bool, reason: str = "") -> None:
        self._is_told = status == MEMBER
        self._view = msgspec.structs.replace(self._view, is_primary=is_primary)
        change = ViewChange(self._view, status=status, reason=reason)
        self.mailbox.put((), [(0, change)])

    def _on_ended(self, ended: Ended) -> None:
        self._phase = self._told = ended.status
        if ended.status != EXCLUDED or self.ended is not None:
            return
        why = reasons.excluded(ended.followed, self.introductions)
        if not self._rejoins:
            self.end(ExcludedFromGroup(f"{why}; join again, or set rejoin"))
            return
        self._tell(EXCLUDED, is_primary=False, reason=why)
        self._returning = start_task(self._begin_life(), "coming back", self._on_no_return)

    def _on_no_return(self, error: BaseException) -> None:
        self.end(
            ExcludedFromGroup(f"the group excluded this member, and it cannot rejoin: {error}")
        )

    async def _begin_life(self) -> None:
        """The next life of this process knows nothing, and joins."""
        inc = await asyncio.to_thread(next_life)  # The disk may be slow, or its lock held.
        if self.ended is not None:
            return
        now = monotonic()
        life = Life(self.member.pid, inc)
        log.info("%s rejoins as incarnation %d", self.introductions.own.name, life.inc)
        self._discarded = self.discarded
        self.introductions.lineage = NO_LINEAGE
        self.member = ViewMember(
            self.recipe, life, Random(self.introductions.nonce + life.inc), now
        )
        self._phase = self._told = JOINING
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
        status = self.status()
        view = status.view
        return Standing(
            echo=0,
            lineage=view.lineage,
            view=view.id,
            members=view.members,
            names=tuple(self.introductions.name_of(life.pid) for life in view.members),
            status=status.phase,
            suspects=tuple(sorted(status.suspects)),
            delivered=self.delivered,
            skipped=self.skipped,
            queued=status.queued,
            held=status.held,
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
        if self._phase == JOINING:
            return True
        is_drained = self.recipe.is_primary or await self.until(
            lambda: self.status().is_drained, timeout_s
        )
        self.command(LeaveGroup())
        has_left = await self.until(lambda: self._phase in (LEFT, EXCLUDED), timeout_s)
        return is_drained and has_left

    def stop(self) -> None:
        """No more timers."""
        self._reporting.cancel()
        if self._returning is not None:
            self._returning.cancel()
        super().stop()
