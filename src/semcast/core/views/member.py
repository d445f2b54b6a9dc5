"""One process of a group with views: the machines of a recipe, wired together.

A driver calls `multicast`, `on_datagram`, `on_ready`, `on_state` and `on_time` as for a `Member`.
What the application sees comes in one order, deliveries and installations alike: a view is agreed
on and entered here at once, and shown to the application when it has taken what came before.  So
a slow application never holds up a view change.
"""

from collections import deque
from collections.abc import Sequence
from random import Random

from semcast.core.detector import NEVER
from semcast.core.views.partitionable import PartitionableViews
from semcast.core.views.primary import PrimaryViews
from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.suspicion import Suspicion
from semcast.core.views.tenure import Tenure
from semcast.core.views.transfer import Transfer
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import INSTALL, LEAVE, SUSPECT, Event
from semcast.terms.messages import EVERYONE, Seq, Submission
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
    Installation,
    Life,
    Pid,
    Proposal,
    Reached,
    StateChunk,
    View,
    ViewDatagram,
    ViewId,
    WantState,
)


class ViewMember:
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
        self.tenures: deque[Tenure] = deque()  # the first is shown, the last is current
        self.giving: dict[ViewId, bool] = {}  # of views not yet shown: whether state is wanted
        self.donor: Life | None = None  # of the state that this life begins with
        self.past: Tenure | None = None  # for those who have not left it yet
        self.shown = NO_VIEW
        self.ready = 0  # what the application will take, before anything is shown
        self.ended = ""
        self.can_send = False
        self.is_refused = False  # a sender waits until it can
        self.stuck_since = NEVER
        self.heartbeat_at = now
        self.deadline = now

    def __repr__(self) -> str:
        return f"ViewMember({self.life}, {self.status}, {self.views}, {self.tenures})"

    @property
    def pid(self) -> Pid:
        """The process."""
        return self.life.pid

    @property
    def view(self) -> View:
        """The view whose messages are exchanged."""
        return self.tenures[-1].view if self.tenures else NO_VIEW

    @property
    def sent(self) -> Seq:
        """How many messages this life has multicast, order messages among them."""
        if not self.tenures:
            return 0
        tenure = self.tenures[-1]
        return tenure.view.bases[tenure.rank] + tenure.member.last

    @property
    def status(self) -> str:
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

    def found(self, lives: tuple[Life, ...], now: float, out: Effects) -> None:
        """Begin with the first primary view; every founder must say the same."""
        if self.tenures or not self.recipe.is_primary:
            raise LocalProtocolError("found: this process is in a view already")
        if self.life not in lives:
            raise LocalProtocolError(f"found: {self.life} is not among {lives}")
        view = View(1, lives, (0,) * len(lives))
        self._enter(view, now)
        self.primary.enter(self.tenures[-1], None, True, now)
        self._settle(now, out)

    def multicast(
        self,
        submissions: Sequence[Submission],
        now: float,
        out: Effects,
        *,
        at_once: bool = False,
    ) -> int:
        """Send to the view; how many, from the front, were taken.

        None are while there is no view to send in; the rest may be offered again once `out.room`
        was set.
        """
        if self.ended:
            raise LocalProtocolError(f"this member has {self.ended} the group")
        self.suspicion.on_wake(now)
        accepted = 0
        if self.status == MEMBER:
            accepted = self.tenures[-1].multicast(submissions, now, out, at_once=at_once)
        else:
            self.is_refused = True
        if accepted < len(submissions):
            self.stuck_since = min(self.stuck_since, now)
        else:
            self.stuck_since = NEVER
        self._settle(now, out)
        return accepted

    def on_datagram(self, source: Pid, datagram: ViewDatagram, now: float, out: Effects) -> None:
        """Something came from a process; raises RemoteProtocolError if it cannot be meant."""
        if self.ended or source == self.pid:
            return
        self.suspicion.on_wake(now)
        self.suspicion.on_heard(source, now)
        if isinstance(datagram, Enclosed):
            self._on_enclosed(source, datagram, now, out)
        elif isinstance(datagram, Reached):
            self._on_reached(source, datagram.view, datagram.held, datagram.delivered, now, out)
        elif isinstance(datagram, Heartbeat):
            self.views.on_heartbeat(source, datagram, now, out)
            if datagram.stateful and self.transfer.owed:
                self.transfer.on_stateful(Life(source, datagram.inc))
            self._on_reached(source, datagram.view, datagram.held, datagram.delivered, now, out)
        elif isinstance(datagram, WantState):
            self.transfer.on_want(source, datagram, out)
        elif isinstance(datagram, StateChunk):
            self.transfer.on_chunk(source, datagram, now, out)
        else:
            self.views.on_datagram(source, datagram, now, out)
        self._settle(now, out)

    def _on_enclosed(self, source: Pid, enclosed: Enclosed, now: float, out: Effects) -> None:
        if self.tenures and enclosed.view == self.view.id:
            self.tenures[-1].on_datagram(source, enclosed, now, out)
        elif self.past is not None and enclosed.view == self.past.view.id:
            self.past.on_datagram(source, enclosed, now, out)

    def _on_reached(
        self, source: Pid, view: ViewId, held: Seq, delivered: int, now: float, out: Effects
    ) -> None:
        if self.tenures and view == self.view.id:
            self.tenures[-1].on_reached(source, held, delivered, now, out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        if self.shown.id == 0 or not self.tenures:
            self.ready += count
        else:
            self.tenures[0].on_ready(count, now, out)
        self._settle(now, out)

    def on_state(self, view: ViewId, state: bytes, now: float, out: Effects) -> None:
        """The application's state as it was when it entered `view`."""
        self.transfer.on_state(view, state, out)
        self._settle(now, out)

    def leave(self, now: float, out: Effects) -> None:
        """Ask to be let go."""
        if self.ended or self.views.is_leaving:
            return
        self.views.is_leaving = True
        self._record(Event(LEAVE, self.pid), out)
        self.heartbeat_at = now
        self.on_time(now, out)

    def flush(self, now: float, out: Effects) -> None:
        """No more company is to be expected for what waits to be sent."""
        if self.tenures and not self.ended:
            self.tenures[-1].flush(now, out)
            self._settle(now, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.ended:
            return
        self.suspicion.on_wake(now)
        if now >= self.heartbeat_at:  # Often enough to look who is silent.
            for pid in self.suspicion.on_time(now):
                self._record(Event(SUSPECT, self.pid, peer=pid), out)
        if self.tenures and self.tenures[-1].deadline <= now:
            self.tenures[-1].on_time(now, out)
        self.transfer.on_time(now, out)
        if not self.tenures and not self.recipe.is_primary:
            self._enter(self.partitionable.start(), now)
            self.partitionable.enter(self.view)
        if now >= self.heartbeat_at:
            self._beat(now, out)
        self.partitionable.sent = self.sent
        self.views.on_time(now, out)
        if self.past is not None and self.primary.all_have_entered:
            self.past = None
        self._settle(now, out)

    def _beat(self, now: float, out: Effects) -> None:
        self.heartbeat_at = now + self.recipe.heartbeat_s
        held = delivered = 0
        if self.tenures and self.tenures[-1].placed is not None:
            held, delivered = self.tenures[-1].frontier[0], self.tenures[-1].handed
        expels = self.primary.expels = self._expels(now)
        heartbeat = Heartbeat(
            self.life.inc,
            self.view.id,
            self.shown.id > 0,
            self.views.is_leaving,
            expels,
            held,
            delivered,
        )
        out.send.append((EVERYONE, heartbeat))

    def _expels(self, now: float) -> tuple[Life, ...]:
        """Under overflow "exclude": the member that is furthest behind in the own stream."""
        if self.recipe.overflow != "exclude" or self.status != MEMBER:
            return ()
        if now - self.stuck_since < self.recipe.exclude_after_s:
            return ()
        tenure = self.tenures[-1]
        reached = tenure.member.outbox.reached
        slowest = min(reached, key=lambda rank: reached[rank], default=None)
        if slowest is None or reached[slowest] == tenure.member.last:
            return ()
        return (tenure.view.members[slowest],)

    def _settle(self, now: float, out: Effects) -> None:
        """After every input: change the view if it is agreed, show what is due, set the timer."""
        if self.ended:
            return
        if self.recipe.is_primary:
            self._settle_primary(now, out)
        else:
            self.partitionable.sent = self.sent
            if self.tenures:
                self.tenures[-1].is_silent = self.partitionable.is_bound
            if self.partitionable.next is not None:
                self._install(self.partitionable.next, None, now, out)
            elif self.partitionable.has_left:
                self._end(LEFT, out)
        if self.ended:
            return
        self._show(now, out)
        could_send, self.can_send = self.can_send, self.status == MEMBER
        if self.is_refused and self.can_send and not could_send:
            self.is_refused, out.room = False, True
        self.deadline = min(
            self.heartbeat_at,
            self.views.deadline,
            self.transfer.deadline,
            self.tenures[-1].deadline if self.tenures else NEVER,
        )

    def _settle_primary(self, now: float, out: Effects) -> None:
        primary = self.primary
        primary.settle(now, out)
        if primary.next is not None:
            proposal = primary.next
            if self.life in proposal.next.members:
                self._install(proposal.next, proposal, now, out)
            else:
                self._end(LEFT if primary.is_leaving else EXCLUDED, out)
        elif primary.is_excluded:
            self._end(LEFT if primary.is_leaving else EXCLUDED, out)
        elif primary.is_leaving and self._is_alone:
            self._end(LEFT, out)

    @property
    def _is_alone(self) -> bool:
        return len(self.view.members) <= 1 and not self.primary.is_changing

    def _end(self, status: str, out: Effects) -> None:
        self.ended = status
        self.deadline = NEVER
        out.room = out.excluded = True

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
                out.room = True
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
        out.installs.append((len(out.deliver), Installation(view, state, wants_state)))
        members = tuple(life.pid for life in view.members)
        self._record(Event(INSTALL, self.pid, members=members, view=view.id), out)

    def _record(self, event: Event, out: Effects) -> None:
        if out.events is not None:
            event.inc = self.life.inc
            event.view = event.view or self.view.id
            out.events.append(event)
