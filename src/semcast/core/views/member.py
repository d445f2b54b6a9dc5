"""One process of a group with views: the machines of a recipe, wired together.

A driver calls it as any `Machine`, by processes instead of ranks.  What the application sees comes
in one order, deliveries and views alike: a view is agreed on and entered here at once, and shown to
the application when it has taken what came before.  So a slow application never holds up a view
change.
"""

from collections import deque
from collections.abc import Sequence
from random import Random

from semcast.core.flush import CLOSED
from semcast.core.member import Member
from semcast.core.neighbours import group_by_view
from semcast.core.trace import LifeTrace
from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.hold_ups import HoldUps
from semcast.core.views.lineage import LineageGuard
from semcast.core.views.partitionable import IsEnough, PartitionableViews
from semcast.core.views.policy import Change, ViewPolicy
from semcast.core.views.primary import PrimaryViews
from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.state_transfer import StateTransfer
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.ids import EVERYONE, NEVER, Incarnation, Lineage, Pid, Seq, ViewId
from semcast.terms.machine import Command, FoundGroup, LeaveGroup, Machine, Status, SupplyState
from semcast.terms.messages import Update
from semcast.terms.outputs import ROOM, Ended, Installed, PhaseChanged
from semcast.terms.views import (
    CHANGING,
    EXCLUDED,
    JOINING,
    LEFT,
    MEMBER,
    NO_VIEW,
    GroupView,
    Heartbeat,
    OrderProgress,
    Stamped,
    StateChunk,
    StateRequest,
    ViewDatagram,
    ViewEnvelope,
)


class ViewMember(Machine):
    """Lives as long as one incarnation of the process.  Partitionable views get ids above
    `highest`, which an earlier incarnation knew; who is put out leaves enough others."""

    def __init__(
        self,
        recipe: ViewRecipe,
        life: Incarnation,
        rng: Random,
        now: float,
        highest: ViewId = 0,
        is_enough: IsEnough | None = None,
    ) -> None:
        self.recipe = recipe
        self.life = life
        self.rng = rng
        self.failure_detector = FailureDetector(recipe, now)
        self.policy: ViewPolicy = (
            PrimaryViews(recipe, life, self.failure_detector, rng)
            if recipe.is_primary
            else PartitionableViews(recipe, life, self.failure_detector, highest, is_enough)
        )
        self.transfer = StateTransfer(recipe)
        self.guard = LineageGuard(recipe, life)
        self.trace = LifeTrace(life)
        # The first is of the view that is shown to the application, the last of the current one.
        self.members: deque[Member] = deque()
        self.giving: dict[ViewId, bool] = {}  # of views not yet shown: whether state is wanted
        self.donor: Incarnation | None = None  # of the state that this life begins with
        # By view: the current member, and for those who have not left it yet the one before.
        self.by_view: dict[ViewId, Member] = {}
        self.shown = NO_VIEW
        self.excluded_s: dict[Pid, float] = {}  # from the current view: how long they were silent
        self.ready = 0  # what the application will take, before anything is shown
        self.ended = ""
        self.followed: Lineage = 0  # this life ended because a group of that lineage runs
        self.known_phase = JOINING  # the phase, as the application knows it
        self.is_refused = False  # a sender waits until it can
        self.hold_ups = HoldUps(recipe, now)
        self.heartbeat_at = now
        self.deadline = now

    def __repr__(self) -> str:
        return f"ViewMember({self.life}, {self.phase}, {self.policy}, {self.view})"

    @property
    def view(self) -> GroupView:
        """The view whose messages are exchanged."""
        return self.members[-1].view if self.members else NO_VIEW

    @property
    def sent(self) -> Seq:
        """The number of the last message that the application sent in this life."""
        return self.members[-1].sent if self.members else 0

    @property
    def phase(self) -> str:
        """What keeps it from sending, or MEMBER."""
        if self.ended:
            return self.ended
        if not self.members or self.shown.id == 0:
            return JOINING
        phase = self.policy.phase
        # Who is still in an older view sends nothing in this one. [SVS §4.1]
        return CHANGING if phase == MEMBER and self.shown.id != self.view.id else phase

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Found the group, leave it, or have the state that a joiner asked for."""
        if isinstance(command, FoundGroup):
            self._found(command.lives, command.lineage, now)
        elif isinstance(command, SupplyState):
            self.transfer.on_state(command.view, command.state, out)
        elif isinstance(command, LeaveGroup):
            self._leave(now, out)
            return
        else:
            super().on_command(command, now, out)
        self._settle(now, out)

    def _found(self, lives: tuple[Incarnation, ...], lineage: Lineage, now: float) -> None:
        if self.members or not self.recipe.is_primary:
            raise LocalProtocolError("found: this process is already in a view")
        if self.life not in lives:
            raise LocalProtocolError(f"found: {self.life} is not among {lives}")
        self._enter(GroupView(1, lives, (0,) * len(lives), lineage), True, now)

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Send to the view; takes nothing while there is no view to send in."""
        if self.ended:
            raise LocalProtocolError(f"this member has {self.ended} the group")
        self.failure_detector.on_input(now)
        accepted = 0
        try:
            if self.known_phase == MEMBER:  # which is what it was after the input before
                accepted = self.members[-1].submit(updates, now, out)
            else:
                self.is_refused = True
            if self.members:
                self.hold_ups.on_submit(accepted < len(updates), self.members[-1], now)
        finally:  # What was due before an error still leaves, stamped.
            self._settle(now, out)
        return accepted

    def on_datagrams(
        self, source: Pid, datagrams: Sequence[Stamped], now: float, out: Effects
    ) -> None:
        """Something came from a process; what it cannot mean is refused."""
        if source == self.life.pid:
            return
        guard = self.guard
        if now > self.deadline:
            self.hold_ups.on_run(self.deadline, now)
        groups = ((datagrams[0], ()),) if len(datagrams) == 1 else group_by_view(datagrams)
        for stamped, more in groups:
            if self.ended:
                return
            try:
                usual, datagram = (stamped.lineage, stamped.inc), stamped.datagram
                if guard.usual.get(source) != usual and not guard.admits(
                    source, stamped, now, 1 + len(more)
                ):
                    self.failure_detector.on_input(now)
                else:
                    self.failure_detector.on_message(source, now)
                    if not isinstance(datagram, ViewEnvelope):
                        self._on_other(source, datagram, now, out)
                    elif (member := self.by_view.get(datagram.view)) is not None:
                        rank = member.port.rank_of.get(source)
                        if rank is None:
                            raise RemoteProtocolError(f"{source} is not in view {member.view}")
                        member.on_datagrams(rank, (datagram.datagram, *more), now, out)
                self._settle(now, out)
            except Exception as error:
                out.refused += [error] * (1 + len(more))
                guard.stamp(out)  # What was due before it still leaves.

    def _on_other(self, source: Pid, datagram: ViewDatagram, now: float, out: Effects) -> None:
        """What is not said by a member of a view to the others as such."""
        if isinstance(datagram, OrderProgress):
            self._on_reached(source, datagram, now, out)
        elif isinstance(datagram, Heartbeat):
            self.policy.on_heartbeat(source, datagram, now, out)
            if datagram.has_state and self.transfer.receivers:
                self.transfer.on_stateful(Incarnation(source, datagram.inc))
            self._on_reached(source, datagram, now, out)
        elif isinstance(datagram, StateRequest):
            self.transfer.on_state_request(source, datagram, out)
        elif isinstance(datagram, StateChunk):
            self.transfer.on_chunk(source, datagram, now, out)
        else:
            self.policy.on_datagram(source, datagram, now, out)

    def _on_reached(self, pid: Pid, r: OrderProgress | Heartbeat, now: float, out: Effects) -> None:
        if self.members and r.view == self.view.id:
            self.members[-1].on_progress(pid, r.held, r.delivered, now, out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        if self.shown.id == 0 or not self.members:
            self.ready += count
        else:
            self.members[0].on_ready(count, now, out)
        self._settle(now, out)

    def pace(self, is_busy: bool, now: float, out: Effects) -> None:
        """Say whether the application is busy: then the sequencer lets more gather, for a while."""
        if self.known_phase == MEMBER:
            self.members[-1].pace(is_busy, now, out)
            self._settle(now, out)

    def _leave(self, now: float, out: Effects) -> None:
        if self.ended or self.policy.is_leaving:
            return
        self.policy.is_leaving = True
        self.trace.left(self.view, out)
        self.heartbeat_at = now
        self.on_time(now, out)

    def on_idle(self, now: float, out: Effects) -> None:
        """No more company is to be expected for what waits to be sent."""
        if self.members and not self.ended and not self.members[-1].outbox.is_empty:
            self.members[-1].on_idle(now, out)
            self._settle(now, out)

    def status(self, now: float) -> Status:
        """How it is doing."""
        each, watch = [member.status(now) for member in self.members], self.failure_detector
        pids = [pid for pid, _ in self.view.members if pid != self.life.pid]
        return Status(
            phase=self.phase,
            sent=self.sent,
            purged=sum(one.purged for one in each),
            queued=sum(one.queued for one in each),
            unseen=sum(one.queued for one in each[:-1]) if self.shown.id else 0,
            held=sum(one.held for one in each),
            held_bytes=sum(one.held_bytes for one in each),
            # Who lets it go has everything.
            lags=each[-1].lags if each and self.ended != LEFT else {},
            is_blocked=self.is_refused or any(one.is_blocked for one in each),
            is_drained=all(one.is_drained for one in each),
            view=self.view,
            shown=self.shown,
            suspects=[pid for pid in pids if not watch.is_alive(pid)],
            silent_s={pid: now - at for pid, at in watch.heard.items()},
            excluded_s=self.excluded_s,
            left_out_s=self.policy.left_out_s(now),
            donor=self.transfer.donor if self.transfer.is_waiting else None,
            has_past=len(each) > 1 or bool(self.transfer.states),
            discarded=self.guard.discarded,
        )

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.ended:
            return
        self.failure_detector.on_input(now)
        self.hold_ups.on_run(self.deadline, now)
        if now >= self.heartbeat_at:  # Often enough to look who is silent.
            for pid in self.failure_detector.on_time(now):
                self.trace.suspected(pid, self.view, out)
        if self.members and self.members[-1].deadline <= now:
            self.members[-1].on_time(now, out)
        self.transfer.on_time(now, out)
        if not self.members and (first := self.policy.start()) is not None:
            self._enter(first, True, now)
        if now >= self.heartbeat_at:
            self._beat(now, out)
        self.policy.on_time(now, out)
        if len(self.by_view) > 1 and self.policy.all_have_entered:
            self.by_view = {self.view.id: self.members[-1]}
        self._settle(now, out)

    def _beat(self, now: float, out: Effects) -> None:
        self.heartbeat_at = now + self.recipe.heartbeat_s
        held, delivered = self.members[-1].progress if self.members else (0, 0)
        expels = self.hold_ups.expelled(self.members[-1], now) if self.phase == MEMBER else ()
        self.policy.to_exclude = expels
        is_primary = bool(self.members) and self.policy.has_quorum
        at = self.life.inc, self.view.id, self.shown.id > 0, self.policy.is_leaving
        is_late = self.policy.is_late = self.hold_ups.is_late(now)
        out.send.append((EVERYONE, Heartbeat(*at, expels, held, delivered, is_primary, is_late)))

    def _settle(self, now: float, out: Effects) -> None:
        """After every input: change the view if it is agreed, show what is due, set the timer."""
        is_usual = len(self.members) == 1 and self.known_phase == MEMBER and not self.guard.rivals
        if is_usual and (until := self.policy.steady_until) is not None:
            timers = self.heartbeat_at, self.transfer.deadline, self.members[0].deadline
            self.deadline = min(until, *timers)
        elif not self.ended:
            self._advance(now, out)
        if out.send:
            self.guard.stamp(out)

    def _advance(self, now: float, out: Effects) -> None:
        due = self.policy.poll(now, out)
        if self.recipe.is_primary and self.members:
            goes_on = self.policy.has_quorum and not self._waits_in_vain
            self.followed = self.guard.poll(goes_on, now, out)
        if isinstance(due, Change):
            self._install(due, now, out)
        elif due is not None or self.followed:
            is_left = self.policy.is_leaving
            self._end(due.status if due is not None else LEFT if is_left else EXCLUDED, out)
            return
        self._show(now, out)
        phase = self.phase
        if phase != self.known_phase:
            self.known_phase = phase
            out.outputs.append(PhaseChanged(phase))
            if self.is_refused and phase == MEMBER:
                self.is_refused = False
                out.outputs.append(ROOM)
        last = self.members[-1].deadline if self.members else NEVER
        self.deadline = min(self.heartbeat_at, self.policy.deadline, self.transfer.deadline, last)

    @property
    def _waits_in_vain(self) -> bool:
        """Whether it has no state yet, and who should give it is gone."""
        donor = self.donor if self.shown.id == 0 else None
        return donor is not None and not self.failure_detector.is_alive(donor.pid)

    def _end(self, status: str, out: Effects) -> None:
        self.ended = status
        self.deadline = NEVER
        out.outputs += (ROOM, Ended(status, self.followed))

    def _install(self, change: Change, now: float, out: Effects) -> None:
        """Leave the view behind, with everything up to the cut, and enter the next."""
        self.by_view.clear()
        if self.members:
            old = self.members[-1]
            old.finish(change.cut, now, out)
            if change.cut is not None:
                self.by_view[old.view.id] = old
        is_stateful = self.shown.id > 0 or not self.recipe.is_primary
        if change.cut is not None:
            gives = self.life.pid == change.donor
            self.transfer.on_view(change.view.id, change.stateless, gives=gives)
            self.giving[change.view.id] = gives and bool(change.stateless)
        self._enter(change.view, is_stateful, now)
        if not is_stateful:
            self._want_state(change.donor, now, out)
        self.hold_ups.enter(now)

    def _want_state(self, donor: Pid, now: float, out: Effects) -> None:
        """Start from the state at this view, unless an earlier one is still to be had."""
        members = self.view.members
        if self.donor in members:
            return
        while len(self.members) > 1:
            self.members.popleft()
        self.donor = next(life for life in members if life.pid == donor)
        self.transfer.request_state(self.view.id, donor, now, out)

    def _enter(self, view: GroupView, is_stateful: bool, now: float) -> None:
        self.excluded_s = self.failure_detector.silent_in(self.view.members, view.members, now)
        self.guard.enter(view)
        recipe, rank = self.recipe.recipe_of(len(view.members)), view.members.index(self.life)
        self.members.append(Member(recipe, rank, self.rng, view))
        self.by_view[view.id] = self.members[-1]
        for life in view.members:
            if life != self.life:
                self.failure_detector.watch(life.pid, now)
        self.policy.enter(self.members[-1], is_stateful, now)

    def _show(self, now: float, out: Effects) -> None:
        """Let the application enter the next view once it has taken what came before."""
        while self.members:
            head = self.members[0]
            if self.shown.id == 0:
                if self.transfer.view and self.transfer.state is None:
                    return
                self._show_first(head, now, out)
            elif head.ending.state == CLOSED and head.is_empty and len(self.members) > 1:
                ready = self.members.popleft().withdraw_credit()
                self._announce(self.members[0].view, None, out)
                self.members[0].on_ready(ready, now, out)
                out.outputs.append(ROOM)
            else:
                return

    def _show_first(self, head: Member, now: float, out: Effects) -> None:
        self._announce(head.view, self.transfer.state, out)
        ready, self.ready = self.ready, 0
        head.on_ready(ready, now, out)
        self.policy.on_stateful()

    def _announce(self, view: GroupView, state: bytes | None, out: Effects) -> None:
        self.shown = view
        wants_state = self.giving.pop(view.id, False)
        out.outputs.append(Installed(view, state, wants_state))
        self.trace.installed(view, out)
