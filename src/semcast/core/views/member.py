"""One process of a group with views: the machines of a recipe, wired together.

A driver calls it as any `Machine`, by processes instead of ranks.  What the application sees comes
in one order, deliveries and views alike: a view is agreed on and entered here at once, and shown to
the application when it has taken what came before.  So a slow application never holds up a view
change.
"""

from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from semcast.core.trace import LifeTrace
from semcast.core.views.lineage import LineageGuard
from semcast.core.views.partitionable import PartitionableViews
from semcast.core.views.primary import PrimaryViews
from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.suspicion import Suspicion
from semcast.core.views.tenure import Tenure
from semcast.core.views.tenures import Tenures
from semcast.core.views.transfer import Transfer
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import EVERYONE, NEVER, Life, Lineage, Pid, Seq, ViewId
from semcast.terms.machine import Command, FoundGroup, LeaveGroup, Machine, Status, SupplyState
from semcast.terms.messages import Submission
from semcast.terms.outputs import ROOM, Ended, Installed, PhaseChanged
from semcast.terms.views import (
    CHANGING,
    EXCLUDED,
    JOINING,
    LEFT,
    MEMBER,
    MINORITY,
    NO_VIEW,
    Enclosed,
    Heartbeat,
    OrderProgress,
    Proposal,
    Stamped,
    StateChunk,
    View,
    WantState,
)


class ViewMember(Machine):
    """Lives as long as one incarnation of the process."""

    def __init__(self, recipe: ViewRecipe, life: Life, rng: Random, now: float) -> None:
        self.recipe = recipe
        self.life = life
        self.rng = rng
        self.suspicion = Suspicion(recipe, now)
        self.primary = PrimaryViews(recipe, life, self.suspicion, rng)
        self.partitionable = PartitionableViews(recipe, life, self.suspicion)
        self.views = self.primary if recipe.is_primary else self.partitionable
        self.transfer = Transfer(recipe)
        self.guard = LineageGuard(recipe, life)
        self.trace = LifeTrace(life)
        self.tenures = Tenures()
        self.giving: dict[ViewId, bool] = {}  # of views not yet shown: whether state is wanted
        self.donor: Life | None = None  # of the state that this life begins with
        self.past: Tenure | None = None  # for those who have not left it yet
        self.shown = NO_VIEW
        self.ready = 0  # what the application will take, before anything is shown
        self.ended = ""
        self.followed: Lineage = 0  # this life ended because a group of that lineage runs
        self.told = JOINING  # the phase, as the application knows it
        self.is_refused = False  # a sender waits until it can
        self.stuck_since = NEVER
        self.heartbeat_at = now
        self.deadline = now

    def __repr__(self) -> str:
        return f"ViewMember({self.life}, {self.phase}, {self.views}, {self.tenures})"

    @property
    def pid(self) -> Pid:
        """The process."""
        return self.life.pid

    @property
    def view(self) -> View:
        """The view whose messages are exchanged."""
        return self.tenures.view

    @property
    def sent(self) -> Seq:
        """The number of the last message of this life that gives no order."""
        return self.tenures.sent

    @property
    def phase(self) -> str:
        """What keeps it from sending, or MEMBER."""
        if self.ended:
            return self.ended
        if not self.tenures or self.shown.id == 0:
            return JOINING
        if self.recipe.is_primary and not self.primary.has_quorum:
            return MINORITY
        is_over = self.tenures[-1].is_frozen or self.partitionable.is_bound
        # Who is still in an older view sends nothing in this one. [SVS §4.1]
        return CHANGING if is_over or self.shown.id != self.view.id else MEMBER

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

    def _found(self, lives: tuple[Life, ...], lineage: Lineage, now: float) -> None:
        if self.tenures or not self.recipe.is_primary:
            raise LocalProtocolError("found: this process is already in a view")
        if self.life not in lives:
            raise LocalProtocolError(f"found: {self.life} is not among {lives}")
        view = View(1, lives, (0,) * len(lives), lineage)
        self._enter(view, now)
        self.primary.enter(self.tenures[-1], None, True, now)

    def submit(self, submissions: Sequence[Submission], now: float, out: Effects) -> int:
        """Send to the view; takes nothing while there is no view to send in."""
        if self.ended:
            raise LocalProtocolError(f"this member has {self.ended} the group")
        self.suspicion.on_wake(now)
        accepted = 0
        try:
            if self.told == MEMBER:  # which is what it was after the input before
                accepted = self.tenures[-1].submit(submissions, now, out)
            else:
                self.is_refused = True
            is_stuck = accepted < len(submissions)
            self.stuck_since = min(self.stuck_since, now) if is_stuck else NEVER
        finally:  # What was due before an error still leaves, stamped.
            self._settle(now, out)
        return accepted

    def on_datagram(self, source: Pid, stamped: Stamped, now: float, out: Effects) -> None:
        """Something came from a process; raises RemoteProtocolError if it cannot be meant."""
        if self.ended or source == self.life.pid:
            return
        self.suspicion.on_wake(now)
        if self.guard.admits(source, stamped, now):
            self.suspicion.on_heard(source, now)
            self._on_admitted(source, stamped, now, out)
        self._settle(now, out)

    def _on_admitted(self, source: Pid, stamped: Stamped, now: float, out: Effects) -> None:
        datagram = stamped.datagram
        if isinstance(datagram, Enclosed):
            self._on_enclosed(source, datagram, now, out)
        elif isinstance(datagram, OrderProgress):
            self._on_reached(source, datagram, now, out)
        elif isinstance(datagram, Heartbeat):
            self.views.on_heartbeat(source, datagram, now, out)
            if datagram.stateful and self.transfer.owed:
                self.transfer.on_stateful(Life(source, datagram.inc))
            self._on_reached(source, datagram, now, out)
        elif isinstance(datagram, WantState):
            self.transfer.on_want(source, datagram, out)
        elif isinstance(datagram, StateChunk):
            self.transfer.on_chunk(source, datagram, now, out)
        else:
            self.views.on_datagram(source, datagram, now, out)

    def _on_enclosed(self, source: Pid, enclosed: Enclosed, now: float, out: Effects) -> None:
        tenures = self.tenures
        if tenures and enclosed.view == tenures[-1].view.id:
            tenures[-1].on_datagram(source, enclosed, now, out)
        elif self.past is not None and enclosed.view == self.past.view.id:
            self.past.on_datagram(source, enclosed, now, out)

    def _on_reached(
        self, source: Pid, r: OrderProgress | Heartbeat, now: float, out: Effects
    ) -> None:
        if self.tenures and r.view == self.view.id:
            self.tenures[-1].on_reached(source, r.held, r.delivered, now, out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        if self.shown.id == 0 or not self.tenures:
            self.ready += count
        else:
            self.tenures[0].on_ready(count, now, out)
        self._settle(now, out)

    def _leave(self, now: float, out: Effects) -> None:
        if self.ended or self.views.is_leaving:
            return
        self.views.is_leaving = True
        self.trace.left(self.view, out)
        self.heartbeat_at = now
        self.on_time(now, out)

    def on_idle(self, now: float, out: Effects) -> None:
        """No more company is to be expected for what waits to be sent."""
        if self.tenures and not self.ended and not self.tenures[-1].member.outbox.is_empty:
            self.tenures[-1].on_idle(now, out)
            self._settle(now, out)

    def status(self, now: float) -> Status:
        """How it is doing."""
        inside, watch = self.tenures.status(now), self.suspicion
        pids = [pid for pid, _ in self.view.members if pid != self.pid]
        return replace(
            inside,
            phase=self.phase,
            lags={} if self.ended == LEFT else inside.lags,  # Who lets it go has everything.
            unseen=inside.unseen if self.shown.id else 0,
            is_blocked=self.is_refused or inside.is_blocked,
            shown=self.shown,
            suspects=[pid for pid in pids if not watch.is_alive(pid)],
            silent_s={pid: now - at for pid, at in watch.heard.items()},
            donor=self.transfer.donor if self.transfer.is_waiting else None,
            has_past=inside.has_past or bool(self.transfer.states),
            discarded=self.guard.discarded,
        )

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.ended:
            return
        self.suspicion.on_wake(now)
        if now >= self.heartbeat_at:  # Often enough to look who is silent.
            for pid in self.suspicion.on_time(now):
                self.trace.suspected(pid, self.view, out)
        if self.tenures and self.tenures[-1].deadline <= now:
            self.tenures[-1].on_time(now, out)
        self.transfer.on_time(now, out)
        if not self.tenures and not self.recipe.is_primary:
            self._enter(self.partitionable.start(), now)
            self.partitionable.enter(self.view)
        if now >= self.heartbeat_at:
            self._beat(now, out)
        self.partitionable.sent = self.tenures.numbered
        self.views.on_time(now, out)
        if self.past is not None and self.primary.all_have_entered:
            self.past = None
        self._settle(now, out)

    def _beat(self, now: float, out: Effects) -> None:
        self.heartbeat_at = now + self.recipe.heartbeat_s
        held, delivered = self.tenures[-1].progress if self.tenures else (0, 0)
        expels = self.primary.expels = self._expels(now)
        is_primary = bool(self.tenures) and self.primary.has_quorum
        at = self.life.inc, self.view.id, self.shown.id > 0, self.views.is_leaving
        out.send.append((EVERYONE, Heartbeat(*at, expels, held, delivered, is_primary)))

    def _expels(self, now: float) -> tuple[Life, ...]:
        """Under overflow "exclude": the member that is furthest behind in the own stream."""
        is_stuck = now - self.stuck_since >= self.recipe.exclude_after_s
        if self.recipe.overflow != "exclude" or self.phase != MEMBER or not is_stuck:
            return ()
        return self.tenures[-1].slowest

    def _settle(self, now: float, out: Effects) -> None:
        """After every input: change the view if it is agreed, show what is due, set the timer."""
        steady = len(self.tenures) == 1 and self.told == MEMBER and self.primary.is_steady
        if steady and not self.guard.rivals:  # The usual case: there is only a timer to set.
            self.deadline = min(
                self.heartbeat_at,
                self.primary.deadline,
                self.transfer.deadline,
                self.tenures[0].deadline,
            )
        elif not self.ended:
            self._advance(now, out)
        if out.send:
            self.guard.stamp(out)

    def _advance(self, now: float, out: Effects) -> None:
        if self.recipe.is_primary:
            self._settle_primary(now, out)
        else:
            self.partitionable.sent = self.tenures.numbered
            if self.tenures:
                self.tenures[-1].is_silent = self.partitionable.is_bound
            if self.partitionable.next is not None:
                self._install(self.partitionable.next, None, now, out)
            elif self.partitionable.has_left:
                self._end(LEFT, out)
        if self.ended:
            return
        self._show(now, out)
        phase = self.phase
        if phase != self.told:
            self.told = phase
            out.outputs.append(PhaseChanged(phase))
            if self.is_refused and phase == MEMBER:
                self.is_refused = False
                out.outputs.append(ROOM)
        self.deadline = min(
            self.heartbeat_at,
            self.views.deadline,
            self.transfer.deadline,
            self.tenures[-1].deadline if self.tenures else NEVER,
        )

    def _settle_primary(self, now: float, out: Effects) -> None:
        primary = self.primary
        primary.settle(now, out)
        if self.tenures:
            self.followed = self.guard.poll(primary.has_quorum, now, out)
        if primary.next is not None:
            proposal = primary.next
            if self.life in proposal.next.members:
                self._install(proposal.next, proposal, now, out)
            else:
                self._end(LEFT if primary.is_leaving else EXCLUDED, out)
        elif primary.is_excluded or self.followed:
            self._end(LEFT if primary.is_leaving else EXCLUDED, out)
        elif primary.is_leaving and self._is_alone:
            self._end(LEFT, out)

    @property
    def _is_alone(self) -> bool:
        return len(self.view.members) <= 1 and not self.primary.is_changing

    def _end(self, status: str, out: Effects) -> None:
        self.ended = status
        self.deadline = NEVER
        out.outputs += (ROOM, Ended(status, self.followed))

    def _install(self, view: View, proposal: Proposal | None, now: float, out: Effects) -> None:
        """Leave the view behind, with everything up to the cut, and enter the next."""
        decision = self.primary.decision
        if self.tenures:
            old = self.tenures[-1]
            old.close(None if proposal is None else proposal.cut, now, out)
            self.past = old if proposal is not None else None
        stateful = self.shown.id > 0 or not self.recipe.is_primary
        if proposal is not None:
            gives = self.pid == proposal.donor
            self.transfer.on_view(view.id, proposal.stateless, gives=gives)
            self.giving[view.id] = gives and bool(proposal.stateless)
        self._enter(view, now)
        if proposal is None:
            self.partitionable.enter(view)
        else:
            self.primary.enter(self.tenures[-1], decision, stateful, now)
            if not stateful:
                self._want_state(proposal, now, out)
        self.stuck_since = NEVER

    def _want_state(self, proposal: Proposal, now: float, out: Effects) -> None:
        """Start from the state at this view, unless an earlier one is still to be had."""
        members = self.view.members
        if self.donor in members:
            return
        while len(self.tenures) > 1:
            self.tenures.popleft()
        self.donor = next(life for life in members if life.pid == proposal.donor)
        self.transfer.want(self.view.id, proposal.donor, now, out)

    def _enter(self, view: View, now: float) -> None:
        self.guard.enter(view)
        self.tenures.append(Tenure(self.recipe, view, self.life, self.rng))
        for life in view.members:
            if life != self.life:
                self.suspicion.watch(life.pid, now)

    def _show(self, now: float, out: Effects) -> None:
        """Let the application enter the next view once it has taken what came before."""
        while self.tenures:
            head = self.tenures[0]
            if self.shown.id == 0:
                if self.transfer.view and self.transfer.state is None:
                    return
                self._show_first(head, now, out)
            elif head.is_closed and head.is_empty and len(self.tenures) > 1:
                ready, head.member.holdings.ready = head.member.holdings.ready, 0
                self.tenures.popleft()
                self._announce(self.tenures[0].view, None, out)
                self.tenures[0].on_ready(ready, now, out)
                out.outputs.append(ROOM)
            else:
                return

    def _show_first(self, head: Tenure, now: float, out: Effects) -> None:
        self._announce(head.view, self.transfer.state, out)
        ready, self.ready = self.ready, 0
        head.on_ready(ready, now, out)
        if self.primary.agreement is not None:
            self.primary.agreement.is_stateful = True

    def _announce(self, view: View, state: bytes | None, out: Effects) -> None:
        self.shown = view
        wants_state = self.giving.pop(view.id, False)
        out.outputs.append(Installed(view, state, wants_state))
        self.trace.installed(view, out)
