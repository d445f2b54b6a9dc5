"""Primary views: one sequence, each decided by a majority of the one before [SVS §2].

The lowest member that is not suspected coordinates.  A view changes because a process is suspected,
came back as a new incarnation, wants to leave or to join, is excluded for holding up a full buffer,
or does not get into the view.  Besides leavers that vote, a view change drops at most n - q of n
members; more follow in the next one.
A member that reaches no quorum waits: the others may have gone on without it.
"""

from functools import partial
from random import Random

from semcast.core.flush import OPEN
from semcast.core.member import Member
from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.policy import Change, Exit, ViewPolicy
from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.view_agreement import ViewAgreement
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import NEVER, Incarnation, Pid, Rank
from semcast.terms.views import (
    CHANGING,
    EXCLUDED,
    LEFT,
    MEMBER,
    MINORITY,
    Accepted,
    BallotRejected,
    Decided,
    GroupView,
    Heartbeat,
    NotInView,
    Prepare,
    Promise,
    Propose,
    ViewDatagram,
    ViewProposal,
)


class PrimaryViews(ViewPolicy):
    """Lives as long as the process; `agreement` as long as the view."""

    def __init__(
        self, recipe: ViewRecipe, life: Incarnation, failure_detector: FailureDetector, rng: Random
    ) -> None:
        self.recipe = recipe
        self.life = life
        self.failure_detector = failure_detector
        self.rng = rng
        self.member: Member | None = None
        self.agreement: ViewAgreement | None = None
        self.decision: Decided | None = None  # that led to the current view
        self.heartbeats: dict[Pid, Heartbeat] = {}
        self.installed_at = 0.0
        self.change_since = NEVER  # when there was first a reason to change the view
        self.is_leaving = False
        self.to_exclude: tuple[Incarnation, ...] = ()  # those that this member wants put out
        self.is_late = False
        self.next_view: Decided | None = None  # to be installed now
        self.is_excluded = False
        self.has_quorum = False  # whether enough members can be reached to go on

    def __repr__(self) -> str:
        return f"PrimaryViews({self.member}, {self.agreement})"

    @property
    def steady_until(self) -> float | None:
        """The deadline, if the view can go on and nobody wants to change it."""
        agreement = self.agreement
        if (
            agreement is None
            or not self.has_quorum
            or agreement.promised
            or agreement.decided is not None
            or self.is_leaving
            or self.is_excluded
        ):
            return None
        return NEVER if self.change_since == NEVER else self.deadline

    @property
    def deadline(self) -> float:
        """When `on_time` wants to be called."""
        agreement = self.agreement
        if agreement is None or agreement.decided is not None:
            return NEVER
        if agreement.ballot:
            return agreement.retry_at
        if self.change_since == NEVER or not (self._coordinates and self.has_quorum):
            return NEVER
        return max(self.change_since + self.recipe.gather_s, agreement.backoff_until)

    @property
    def phase(self) -> str:
        """What keeps a member of the current view from sending, or MEMBER."""
        if not self.has_quorum:
            return MINORITY
        return MEMBER if self.member is None or self.member.ending.state == OPEN else CHANGING

    def enter(self, member: Member, is_stateful: bool, now: float) -> None:
        """A view begins: the one that was decided on, or the first."""
        self.member, self.decision = member, self.next_view
        self.agreement = ViewAgreement(self.recipe, member, self.rng)
        self.agreement.is_stateful = is_stateful
        self.installed_at = now
        self.change_since = NEVER
        self.next_view = None
        self._count()

    @property
    def all_have_entered(self) -> bool:
        """Whether nobody in the view needs anything of the one before."""
        assert self.member is not None
        view = self.member.view
        others = [self.heartbeats.get(m.pid) for m in view.members if m != self.life]
        return all(h is not None and h.view >= view.id for h in others)

    def on_stateful(self) -> None:
        """The application has its state now."""
        if self.agreement is not None:
            self.agreement.is_stateful = True

    def _count(self) -> None:
        """See who is in reach: whether they are enough, and whom to ask for what is missing."""
        assert self.member is not None
        assert self.agreement is not None
        members = self.member.view.members
        away = {rank for rank, life in enumerate(members) if self._is_gone(life)}
        self.member.on_suspects(away)
        self.has_quorum = len(members) - len(away) >= self.agreement.quorum

    def _is_gone(self, life: Incarnation) -> bool:
        """Suspected, or its process has begun another life."""
        if life == self.life:
            return False
        heartbeat = self.heartbeats.get(life.pid)
        reborn = heartbeat is not None and heartbeat.inc > life.inc
        return reborn or not self.failure_detector.is_alive(life.pid)

    def _leavers(self) -> set[Incarnation]:
        """Those who want to leave, and may: not while all who stay wait for the state."""
        assert self.member is not None
        assert self.agreement is not None
        leave = {self.life} if self.is_leaving else set()
        stay = set() if self.is_leaving else {self.life}
        has_state = not self.is_leaving and self.agreement.is_stateful
        for life in self.member.view.members:
            heartbeat = self.heartbeats.get(life.pid)
            if heartbeat is None or heartbeat.inc != life.inc:
                continue
            if heartbeat.leaving:
                leave.add(life)
            elif not self._is_gone(life):
                stay.add(life)
                has_state |= heartbeat.has_state
        return leave if has_state or not stay else set()

    @property
    def _coordinates(self) -> bool:
        assert self.member is not None
        for life in self.member.view.members:
            if not self._is_gone(life):
                return life == self.life
        return False

    def _joiners(self) -> list[Incarnation]:
        """Those who are heard, in no view and not in this one."""
        assert self.member is not None
        members = set(self.member.view.members)
        lives = [
            Incarnation(pid, heartbeat.inc)
            for pid, heartbeat in sorted(self.heartbeats.items())
            if heartbeat.view == 0 and not heartbeat.leaving and self.failure_detector.is_alive(pid)
        ]
        return [life for life in lives if life not in members]

    def _unwanted(self, now: float) -> set[Incarnation]:
        """Members that should not be in the next view."""
        assert self.member is not None
        view = self.member.view
        late = now - self.installed_at >= 2 * self.recipe.patience_s
        unwanted = set(self.to_exclude) & set(view.members) | self._leavers()
        for life in view.members:
            heartbeat = self.heartbeats.get(life.pid)
            if self._is_gone(life):
                unwanted.add(life)
            if heartbeat is None:
                continue
            if late and heartbeat.view < view.id:
                unwanted.add(life)
            if heartbeat.view == view.id:
                unwanted.update(x for x in heartbeat.to_exclude if x in view.members and x != life)
        return unwanted

    def on_heartbeat(self, source: Pid, heartbeat: Heartbeat, now: float, out: Effects) -> None:
        """Somebody is alive, and says where it is."""
        known = self.heartbeats.get(source)
        if known is not None and heartbeat.inc < known.inc:
            return
        self.heartbeats[source] = heartbeat
        if self.member is None:
            return
        self._count()
        view, life = self.member.view, Incarnation(source, heartbeat.inc)
        if self.next_view is not None and life in self.next_view.proposal.next.members:
            if heartbeat.view <= view.id:  # This member leaves, and waits until one of them knows.
                out.send.append(((source,), self.next_view))
            return
        if heartbeat.view >= view.id or not self._answers(life):
            return
        if life in view.members:
            if self.decision is not None:
                holder = self.decision.holder
                out.send.append(
                    ((source,), Decided(self.decision.view, self.decision.proposal, holder))
                )
        elif heartbeat.view:
            out.send.append(((source,), NotInView(heartbeat.inc, view.id)))

    def _answers(self, asks: Incarnation) -> bool:
        """One is enough to tell what was missed: the lowest in reach that is in the view."""
        assert self.member is not None
        view = self.member.view
        for life in view.members:
            heartbeat = self.heartbeats.get(life.pid)
            is_there = heartbeat is not None and heartbeat.view >= view.id
            if life == self.life or (life != asks and is_there and not self._is_gone(life)):
                return life == self.life
        return False

    def on_datagram(self, source: Pid, datagram: ViewDatagram, now: float, out: Effects) -> None:
        """What is said about the view after this one."""
        if isinstance(datagram, NotInView):
            if datagram.inc == self.life.inc and self.member is not None:
                self.is_excluded |= datagram.view > self.member.view.id
            return
        if isinstance(datagram, Decided):
            self._on_decided(datagram, now, out)
            return
        member, agreement = self.member, self.agreement
        if member is None or agreement is None:
            return
        assert isinstance(datagram, Prepare | Promise | Propose | Accepted | BallotRejected)
        rank = member.port.rank_of.get(source)
        if rank is None or datagram.view != member.view.id:
            return
        self._check(datagram)
        if isinstance(datagram, Prepare):
            agreement.on_prepare(rank, datagram, now, out)
        elif isinstance(datagram, Promise):
            agreement.on_promise(rank, datagram)
        elif isinstance(datagram, Propose):
            agreement.on_propose(rank, datagram, now, out)
        elif isinstance(datagram, Accepted):
            agreement.on_accepted(rank, datagram, now, out)
        else:
            agreement.on_refused(datagram, now)

    def _check(self, datagram: ViewDatagram) -> None:
        """Refuse what does not fit this view."""
        assert self.member is not None
        members = len(self.member.view.members)
        if isinstance(datagram, Promise):
            proposal, by_rank = datagram.accepted, [datagram.frontier]
        elif isinstance(datagram, Propose | Decided):
            proposal = datagram.proposal
            holders = datagram.holders if isinstance(datagram, Propose) else (datagram.holder,)
            if any(rank >= members for rank in holders):
                raise RemoteProtocolError(
                    f"holders: a rank is outside the {members} members of the view"
                )
            by_rank = [datagram.holders] if isinstance(datagram, Propose) else []
        else:
            return
        by_rank += [proposal.cut] if proposal is not None else []
        if any(len(each) != members for each in by_rank):
            raise RemoteProtocolError(
                f"cut: number of entries differs from the {members} members of the view"
            )

    def _on_decided(self, decided: Decided, now: float, out: Effects) -> None:
        if self.member is None:
            if self.life in decided.proposal.next.members:
                self.next_view = decided
        elif decided.view == self.member.view.id and self.agreement is not None:
            self._check(decided)
            self.agreement.on_decided(decided, now, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Begin to change the view, if that is due and this member's to do."""
        agreement = self.agreement
        if agreement is None:
            return
        self._count()
        if agreement.decided is not None:
            return
        is_reason = agreement.is_under_way or bool(self._unwanted(now)) or bool(self._joiners())
        if not is_reason:
            self.change_since = NEVER
        elif self.change_since == NEVER:
            self.change_since = now
        if agreement.ballot or not self._coordinates or not self.has_quorum:
            return
        if self.is_leaving and agreement.members == 1:
            return  # There is nobody to decide for.
        if now >= max(self.change_since + self.recipe.gather_s, agreement.backoff_until):
            agreement.start(now, out)

    def poll(self, now: float, out: Effects) -> Change | Exit | None:
        """Go on where that has become possible."""
        agreement = self.agreement
        if agreement is not None:
            agreement.on_progress(now, out)
            compose = partial(self._compose, now=now)
            agreement.poll(self._is_awaited, compose, now, out)
            if agreement.is_complete:
                self.next_view = agreement.decision
        if self.next_view is not None and self.life in self.next_view.proposal.next.members:
            proposal = self.next_view.proposal
            return Change(proposal.next, proposal.cut, proposal.donor, proposal.without_state)
        if self.is_leaving and self._is_needed:
            return None
        if self.next_view is not None or self.is_excluded:
            return Exit(LEFT if self.is_leaving else EXCLUDED)
        is_alone = agreement is None or (agreement.members == 1 and not agreement.is_under_way)
        return Exit(LEFT) if self.is_leaving and is_alone else None

    @property
    def _is_needed(self) -> bool:
        """Whether this leaving member must stay: of the members that carry the state into the next
        view and are in reach, none has reported that it is in that view."""
        if self.next_view is None or self.is_excluded:
            return False
        proposal = self.next_view.proposal
        reached = [
            self.heartbeats[life.pid].view
            for life in proposal.next.members
            if life not in proposal.without_state
            and life.pid in self.heartbeats
            and not self._is_gone(life)
        ]
        return bool(reached) and max(reached) < proposal.next.id

    def _is_awaited(self, rank: Rank) -> bool:
        assert self.member is not None
        return not self._is_gone(self.member.view.members[rank])

    def _compose(self, promises: dict[Rank, Promise], now: float) -> ViewProposal:
        """The next view: who answered and is wanted, at least a quorum, and who asks to join."""
        assert self.member is not None
        assert self.agreement is not None
        view, unwanted, leavers = self.member.view, self._unwanted(now), self._leavers()
        spare = len(promises) - self.agreement.quorum
        stay = []
        for rank in sorted(promises):
            life = view.members[rank]
            if life in unwanted and life not in leavers:
                spare -= 1
            if life not in unwanted or (spare < 0 and life not in leavers):
                stay.append(rank)
        if not any(promises[rank].has_state for rank in stay):
            stay = sorted([*stay, min(rank for rank in promises if promises[rank].has_state)])
        joiners = [life for life in self._joiners() if life.pid not in _pids(view, stay)]
        members = tuple(view.members[rank] for rank in stay) + tuple(joiners)
        bases = tuple(promises[rank].sent for rank in stay)
        stateful = [view.members[rank] for rank in stay if promises[rank].has_state]
        cut = tuple(
            max(promise.frontier[sender] for promise in promises.values())
            for sender in range(len(view.members))
        )
        return ViewProposal(
            GroupView(view.id + 1, members, bases + (0,) * len(joiners), view.lineage),
            cut,
            stateful[0].pid,
            tuple(life for life in members if life not in stateful),
        )


def _pids(view: GroupView, ranks: list[Rank]) -> set[Pid]:
    return {view.members[rank].pid for rank in ranks}
