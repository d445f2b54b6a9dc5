"""Partitionable views: every component has its own, and components that meet merge [VSD app. A].

Guarantees: ids are unique and increase at each member; nothing else, since VS asks for no
agreement between views.  The lowest process in reach invites all in reach; whoever consents
installs nothing lower any more and sends nothing until the view is formed or given up, so the
number of messages it reported stays true.  A process that does not answer in time is left out for
a while; so is, under overflow "exclude", a member that holds up a full buffer.  If it does so
again, the while is twice as long.  No process is left out for a while if too few others stay.
A process that gets too little processor time comes last in a view, so that it neither invites nor
gives messages their order.  If that happens to the first of a view, the others make a view in
which it is the last.
Departs: *createview* wants ids above all others; concurrent components cannot know them, and no
process could tell the difference.
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

from semcast.core.member import Member
from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.policy import Change, Exit, ViewPolicy
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import NEVER, VIEW_NAMER_BITS, Incarnation, Pid, Seq, ViewId
from semcast.terms.views import (
    CHANGING,
    LEFT,
    MEMBER,
    NO_VIEW,
    Consent,
    Formed,
    GroupView,
    Heartbeat,
    Invite,
    ViewDatagram,
)

IsEnough: TypeAlias = Callable[[Collection[Pid]], bool]

# Of a view id: below the count of views, who named it.
_SPREAD = (1 << 31) + 1
# Times `exclude_after_s`, for which no view is made with a member that was put out, and for which a
# view keeps its first member.
EXCLUSIONS = 4
# Times that, for which a member is left out at the most if it holds others up again and again.
ABSENCES = 4


class PartitionableViews(ViewPolicy):
    """Lives as long as the process.  Invariant: view.id <= promised."""

    def __init__(
        self,
        recipe: ViewRecipe,
        life: Incarnation,
        failure_detector: FailureDetector,
        highest: ViewId = 0,
        is_enough: IsEnough | None = None,
    ) -> None:
        """A member is put out only if `is_enough` is true of the processes that stay."""
        self.recipe = recipe
        self.is_enough = is_enough
        self.life = life
        self.failure_detector = failure_detector
        self.member: Member | None = None
        self.promised: ViewId = 0
        self.consented_until = -NEVER
        self.highest = highest  # heard of, or remembered from an earlier life
        self.heartbeats: dict[Pid, Heartbeat] = {}
        self.forming: Invite | None = None
        self.consents: dict[Pid, Seq] = {}
        self.retry_at = NEVER
        self.form_by = NEVER
        self.mismatch_since = NEVER  # when the view was first not what is in reach
        self.merge_since = NEVER  # when somebody in reach was first in another view
        self.is_leaving = False
        self.has_quorum = False  # That is for primary views.
        self.to_exclude: tuple[Incarnation, ...] = ()
        self.is_late = False
        self.excluded: dict[Incarnation, float] = {}  # and until when no view is made with it
        self.absences: dict[Pid, tuple[float, float]] = {}  # the last one: how long, and its end
        self.entered_at = NEVER
        self.patience_s = EXCLUSIONS * recipe.exclude_after_s
        self.next_view: GroupView | None = None  # to be installed now

    def __repr__(self) -> str:
        return f"PartitionableViews({self.view}, forming={self.forming}, {self.consents})"

    @property
    def deadline(self) -> float:
        """When `on_time` wants to be called."""
        return min(self.retry_at, self.form_by)

    @property
    def has_consented(self) -> bool:
        """Whether it has consented to a view that is not yet formed."""
        return self.promised > self.view.id and self.consented_until != -NEVER

    @property
    def view(self) -> GroupView:
        """The one that this process is in."""
        return NO_VIEW if self.member is None else self.member.view

    @property
    def sent(self) -> Seq:
        """How many messages this process has sent in its life, order messages included."""
        return 0 if self.member is None else self.member.last

    @property
    def steady_until(self) -> float | None:
        """The deadline, if the view goes on and there is nothing to poll for."""
        is_steady = not (self.has_consented or self.is_leaving) and self.next_view is None
        return self.deadline if is_steady else None

    @property
    def phase(self) -> str:
        """What keeps a member of the current view from sending, or MEMBER."""
        return CHANGING if self.has_consented else MEMBER

    def enter(self, member: Member, is_stateful: bool, now: float) -> None:
        """A view begins, of which this is the member here."""
        self.member = member
        self.next_view = None
        self.consented_until = -NEVER
        self.mismatch_since = self.merge_since = NEVER
        self.entered_at = now
        self.to_exclude = ()

    def poll(self, now: float, out: Effects) -> Change | Exit | None:
        """Be silent while it is bound, and enter the view that was formed."""
        if self.member is not None:
            self.member.is_silent = self.has_consented
        if self.next_view is not None:
            return Change(self.next_view)
        return Exit(LEFT) if self.has_left else None

    def start(self) -> GroupView:
        """The first view: this process alone."""
        self.promised = self._new_id()
        return GroupView(self.promised, (self.life,), (0,))

    def _new_id(self) -> ViewId:
        """An id that only this life gives, above every id heard of.

        Two lives of a process differ in the low bits, two processes in the same life too, and so do
        any two lives of processes 0 to 254.  Otherwise, a name's pid is a hash, and two lives share
        their low bits less often than two names share a pid.
        """
        count = (max(self.promised, self.highest) >> VIEW_NAMER_BITS) + 1
        pid, inc = self.life
        return count << VIEW_NAMER_BITS | (_SPREAD * pid + inc) % (1 << VIEW_NAMER_BITS)

    def left_out_s(self, now: float) -> dict[Pid, float]:
        """For how long no view is made with a process that was too slow."""
        return {life.pid: until - now for life, until in self.excluded.items() if now < until}

    def _in_reach(self) -> list[Incarnation]:
        """This process and all that are heard and stay, by number, and those that are late last."""
        lives = [
            Incarnation(pid, heartbeat.inc)
            for pid, heartbeat in self.heartbeats.items()
            if self.failure_detector.is_alive(pid) and not heartbeat.leaving
            if Incarnation(pid, heartbeat.inc) not in self.excluded
        ]
        return sorted([*lives, self.life], key=lambda life: (self._runs_late(life), life))

    def _runs_late(self, life: Incarnation) -> bool:
        """Whether it runs too seldom, as it says itself."""
        return self.is_late if life == self.life else self.heartbeats[life.pid].late

    @property
    def has_left(self) -> bool:
        """Whether it wants to leave, and no process in reach that stays is in its view any more.
        Processes that leave together do not wait for each other once the others have gone on."""
        if not self.is_leaving:
            return False
        beats = [
            heartbeat
            for pid, heartbeat in self.heartbeats.items()
            if self.failure_detector.is_alive(pid)
        ]
        staying = [heartbeat for heartbeat in beats if not heartbeat.leaving]
        return all(heartbeat.view != self.view.id for heartbeat in staying or beats)

    def _is_led_late(self, lives: list[Incarnation], now: float) -> bool:
        """Whether another member should be the first, and the view is not new."""
        is_due = now - self.entered_at >= self.patience_s
        return is_due and self._runs_late(self.view.members[0]) and not self._runs_late(lives[0])

    def _strays(self, lives: list[Incarnation]) -> bool:
        """Whether somebody in reach is in another view."""
        others = (self.heartbeats[life.pid].view for life in lives if life != self.life)
        return any(view != self.view.id for view in others)

    def on_heartbeat(self, source: Pid, heartbeat: Heartbeat, now: float, out: Effects) -> None:
        """Somebody is in reach."""
        known = self.heartbeats.get(source)
        if known is None or heartbeat.inc >= known.inc:
            self.heartbeats[source] = heartbeat
            self.highest = max(self.highest, heartbeat.view)
            if heartbeat.to_exclude and heartbeat.view == self.view.id:
                self._exclude(heartbeat.to_exclude, heartbeat.delivered, now)

    def _holds_up(self, life: Incarnation, delivered: int) -> bool:
        """Whether a member that has `delivered` so many messages may be waiting for this one.  It
        is not if this one is in another view already, because the next view ends that wait; nor if
        this one has delivered more, because then the member that waits is the slow one."""
        heartbeat = self.heartbeats.get(life.pid)
        if heartbeat is None:
            return True
        return heartbeat.view == self.view.id and heartbeat.delivered <= delivered

    def _exclude(self, lives: Collection[Incarnation], delivered: int, now: float) -> None:
        """Leave out the members that hold up one that has `delivered` so many messages; after a
        while they may come back."""
        for life in lives:
            if life == self.life or life in self.excluded or not self._holds_up(life, delivered):
                continue
            self._leave_out(life, self.patience_s, now)

    def _leave_out(self, life: Incarnation, usual_s: float, now: float) -> None:
        """Make no view with this member for a while, unless the others are too few.  The while is
        `usual_s`, or twice the last one if the member came back shortly before."""
        stay = [other.pid for other in self._in_reach() if other != life]
        if self.is_enough is not None and not self.is_enough(stay):
            return
        last_s, ended_at = self.absences.get(life.pid, (0.0, -NEVER))
        is_again = now - ended_at <= 2 * last_s
        for_s = min(2 * last_s, self.patience_s * ABSENCES) if is_again else usual_s
        self.excluded[life] = now + for_s
        self.absences[life.pid] = for_s, now + for_s

    def on_datagram(self, source: Pid, datagram: ViewDatagram, now: float, out: Effects) -> None:
        """What is said about a new view."""
        if isinstance(datagram, Invite):
            self._on_invite(source, datagram, now, out)
        elif isinstance(datagram, Consent):
            if self.forming is not None and datagram.view == self.forming.view:
                self.consents[source] = datagram.base
                self._form(now, out)
        elif isinstance(datagram, Formed):
            self._on_formed(datagram.view, now)

    def _on_invite(self, source: Pid, invite: Invite, now: float, out: Effects) -> None:
        self.highest = max(self.highest, invite.view)
        if self.life not in invite.members or invite.view <= self.view.id:
            return
        if any(life.pid == source and life in self.excluded for life in invite.members):
            return  # Not yet.  It may come back earlier in a view that another process proposes.
        if invite.view < self.promised:
            return
        if invite.view > self.promised:
            self.promised = invite.view
            self.forming = None  # Somebody in reach knows of higher ids.
            self.retry_at = self.form_by = NEVER
        self.consented_until = now + 2 * self.recipe.patience_s
        out.send.append(((source,), Consent(invite.view, self.sent)))

    def _on_formed(self, view: GroupView, now: float) -> None:
        if view.id != self.promised or view.id <= self.view.id or not self.has_consented:
            return
        if self.life not in view.members:
            self.consented_until = -NEVER  # The consent came too late.
            return
        if view.seq_bases[view.members.index(self.life)] != self.sent:
            raise RemoteProtocolError(
                f"view {view.id}: sequence numbers differ from those this process consented to"
            )
        self.next_view = view

    def on_time(self, now: float, out: Effects) -> None:
        """Invite, ask again, or go on without those who do not answer."""
        if self.to_exclude and self.member is not None:
            self._exclude(self.to_exclude, self.member.progress[1], now)
        self.excluded = {life: until for life, until in self.excluded.items() if now < until}
        if self.has_consented and now >= self.consented_until:
            self.consented_until = -NEVER
        if self.forming is not None:
            if now >= self.form_by:
                self._form(now, out, over=True)
            elif now >= self.retry_at:
                self._ask(now, out)
            return
        lives = self._in_reach()
        is_wanted = set(lives) == set(self.view.members) and not self._is_led_late(lives, now)
        self.mismatch_since = self._since(self.mismatch_since, not is_wanted, now)
        self.merge_since = self._since(self.merge_since, self._strays(lives), now)
        due = min(
            self.mismatch_since + self.recipe.gather_s,
            self.merge_since + 2 * self.recipe.patience_s,
        )
        if now >= due and lives[0] == self.life and not self.has_consented:
            self._invite(lives, now, out)

    @staticmethod
    def _since(before: float, holds: bool, now: float) -> float:
        if not holds:
            return NEVER
        return min(before, now)

    def _invite(self, lives: list[Incarnation], now: float, out: Effects) -> None:
        self.promised = self._new_id()
        self.forming = Invite(self.promised, tuple(lives))
        self.consents = {self.life.pid: self.sent}
        self.consented_until = self.form_by = now + self.recipe.patience_s
        self._ask(now, out)
        self._form(now, out)

    def _ask(self, now: float, out: Effects) -> None:
        assert self.forming is not None
        asked = [life.pid for life in self.forming.members if life.pid not in self.consents]
        if asked:
            out.send.append((asked, self.forming))
        self.retry_at = now + self.recipe.retry_s

    def _form(self, now: float, out: Effects, *, over: bool = False) -> None:
        """All have consented, or there was time enough."""
        forming = self.forming
        assert forming is not None
        members = [life for life in forming.members if life.pid in self.consents]
        awaited = [
            life
            for life in forming.members
            if life.pid not in self.consents and self.failure_detector.is_alive(life.pid)
        ]
        if awaited and not over:
            return
        for life in awaited:
            self._leave_out(life, 2 * self.recipe.patience_s, now)
        bases = tuple(self.consents[life.pid] for life in members)
        view = GroupView(forming.view, tuple(members), bases)
        others = [life.pid for life in members if life != self.life]
        if others:
            out.send.append((others, Formed(view)))
        self.forming = None
        self.retry_at = self.form_by = NEVER
        self.next_view = view
