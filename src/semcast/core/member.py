"""One member of a view: the machines of a recipe, wired together.  No protocol rule is here.

A fixed group is a view that never changes: there a driver calls the member as any `Machine`.  In a
group with views the process has one member for each view that it has not finished with.  What is
sent in a view is delivered in that view only [SVS §4.1].
"""

from collections.abc import Callable, Collection, Sequence
from math import inf
from random import Random
from typing import Any

from semcast import kernel
from semcast.core.answering import RepairAnswerer
from semcast.core.datagram_validator import DatagramValidator
from semcast.core.detection import Detection
from semcast.core.flush import CLOSED, OPEN, Flush
from semcast.core.member_buffers import MemberBuffers
from semcast.core.neighbours import group_first_transmissions, join_first_transmissions
from semcast.core.order import ORDERS
from semcast.core.outbox import Outbox
from semcast.core.port import Port, ViewPort
from semcast.core.receiver import Receiver
from semcast.core.recipe import Recipe
from semcast.core.repair_requester import RepairRequester
from semcast.core.sending import Sending
from semcast.core.trace import Trace
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.ids import NEVER, Incarnation, Pid, Rank, Seq
from semcast.terms.machine import Command, ForgetMember, Machine, Status
from semcast.terms.messages import (
    Data,
    Datagram,
    Excluded,
    Nack,
    SafetyGossip,
    StabilityGossip,
    Update,
    WindowEmpty,
)
from semcast.terms.outputs import Ended
from semcast.terms.views import EXCLUDED, MEMBER, GroupView, fixed_view


class Member(Machine):
    """Lives as long as the process takes part in the view."""

    def __init__(
        self, recipe: Recipe, rank: Rank, rng: Random, view: GroupView | None = None
    ) -> None:
        """Without a view, the group is fixed."""
        if not 0 <= rank < recipe.members:
            raise ConfigError(f"rank: {rank} is not in 0..{recipe.members - 1}")
        self.recipe = recipe
        self.rank = rank
        self.view = view = view or fixed_view(recipe.members)
        self.port = ViewPort(view) if view.id else Port()
        self.forgotten: set[Rank] = set()
        self.forgotten_undrained = 0  # how many of them did not leave drained
        self.excluded = False
        self.is_silent = False  # for the while: nothing of its own is sent
        self.deadline = NEVER  # when `on_time` wants to be called next
        order, bases, port = ORDERS[recipe.order], view.seq_bases, self.port
        self.trace = Trace(rank, view, gives_places=order.gives_places)
        self.buffers = MemberBuffers(recipe, rank, self.trace, bases)
        self.receiver = Receiver(recipe, rank, self.buffers, bases)
        self.frontier: Sequence[Seq] = self.receiver.frontier
        add = order.ordering
        self.ordering = add and add(recipe, view, rank, self.buffers, self.frontier)
        self.validator = DatagramValidator(recipe, rank, self.frontier)
        self.recovery = RepairRequester(recipe, rank, self.receiver, self.buffers, rng, port)
        self.ending = Flush(self.receiver, self.recovery)
        store = self.buffers.store
        self.outbox = Outbox(recipe, rank, store, bases[rank], port)
        self.answerer = RepairAnswerer(recipe, self.receiver, store, self.outbox, port, self.trace)
        machines = self.buffers, self.receiver, self.validator, self.outbox
        self.sending = Sending(recipe, rank, *machines, bases[rank], self.ordering)
        hears = self.buffers, self.receiver, self.recovery, self.outbox, self.trace
        self.detection = Detection(recipe, rank, view, *hears, rng, port)
        self.stability, self.safety = self.detection.stability, self.detection.safety
        self.gossip_after_bytes = self.gossip_at_bytes = recipe.gossip_after_bytes or inf
        self.adapts = recipe.needs_safety and not recipe.safety_always

    def __repr__(self) -> str:
        return f"Member({self.rank}, {self.view}, {self.receiver}, {self.buffers})"

    @property
    def sent(self) -> Seq:
        """The number of the last message that the application sent."""
        return self.sending.last_update

    @property
    def last(self) -> Seq:
        """The number of the last own message, order messages included."""
        return self.sending.last

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Send to the group; returns how many, from the front, there was room for."""
        if self.excluded:
            raise LocalProtocolError(
                "this member was excluded from the group and can no longer send"
            )
        try:
            return self.sending.submit(updates, now, out)
        finally:
            self.outbox.flush(now, out)
            self.buffers.purge_stored(self.rank, out)
            self._settle(now, out)

    def on_datagrams(
        self, source: Rank, datagrams: Sequence[Datagram], now: float, out: Effects
    ) -> None:
        """Something came from `source`; what this group cannot say is refused."""
        if source in self.forgotten and not self.excluded:
            self.port.send((source,), Excluded(source), out)
            self.trace.turned_away(source, out)
            return
        for group in (datagrams,) if len(datagrams) == 1 else group_first_transmissions(datagrams):
            if self.excluded:
                return
            if self.ending.state == CLOSED and not isinstance(group[0], Nack):
                continue
            try:
                datagram = group[0] if len(group) == 1 else join_first_transmissions(group)
                if isinstance(datagram, Data):
                    runs = kernel.runs_of(datagram.messages)
                    if self.validator.check_data(source, datagram, runs):
                        self._end(out)
                        return
                    if datagram.safe or datagram.notices:
                        self._on_news(source, datagram, out)
                    for run in runs:
                        self.receiver.on_run(run, source, out)
                    if datagram.nack_number:
                        self.recovery.on_answer(datagram, now)
                else:
                    self._on_control(source, datagram, now, out)
                self._settle(now, out)
            except Exception as error:
                if len(group) == 1:
                    out.refused.append(error)
                    continue
                for each in group:  # Not all of them are at fault.
                    self.on_datagrams(source, (each,), now, out)

    def _on_control(self, source: Rank, datagram: Datagram, now: float, out: Effects) -> None:
        """What carries no messages."""
        if self.validator.check(source, datagram):
            self._end(out)
        else:
            _HANDLERS[type(datagram)](self, source, datagram, now, out)

    def _on_news(self, source: Rank, data: Data, out: Effects) -> None:
        """A datagram says what is safe or was purged."""
        if data.safe:
            self.detection.on_known_safe(source, data.safe, out)
        if data.notices:
            self.receiver.on_notices(data.notices, source, out)

    def _on_nack(self, source: Rank, nack: Nack, now: float, out: Effects) -> None:
        self.answerer.on_nack(source, nack, out)

    def _on_window_empty(self, source: Rank, w: WindowEmpty, now: float, out: Effects) -> None:
        self.receiver.learn_sent(w.sender, w.last)

    def _on_excluded(self, source: Rank, e: Excluded, now: float, out: Effects) -> None:
        if e.member == self.rank:
            self._end(out)

    def _end(self, out: Effects) -> None:
        self.excluded, self.deadline = True, NEVER
        if not self.view.id:  # Who is in a view that changes, its members decide elsewhere.
            out.outputs.append(Ended(EXCLUDED))

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        self.buffers.on_ready(count, out)
        self._settle(now, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.excluded:
            return
        self.outbox.on_time(now, out)
        self.detection.on_time(now, out)
        self._settle(now, out)

    def on_idle(self, now: float, out: Effects) -> None:
        """No more company is to be expected for what waits to be sent."""
        if not self.outbox.is_empty:
            self.outbox.send_soon(now)
            self.outbox.flush(now, out)
            self._settle(now, out)

    def status(self, now: float) -> Status:
        """How it is doing."""
        buffers, last = self.buffers, self.last
        agreed, closed = self.stability.agreed, self.stability.closed
        frontier = self.receiver.frontier
        return Status(
            phase=EXCLUDED if self.excluded else MEMBER,
            sent=self.sent,
            passed=sum(frontier),
            skipped=buffers.skipped,
            purged=buffers.purged,
            queued=len(buffers.queue),
            held=buffers.messages,
            held_bytes=buffers.bytes,
            lags={peer: last - reached for peer, reached in self.outbox.peer_frontier.items()},
            forgotten=self.forgotten,
            is_blocked=buffers.has_refused,
            is_drained=not self.stability.unagreed and not self.receiver.gaps,
            owes_nothing=self.outbox.is_empty
            and all(s in closed or seq <= agreed[s] for s, seq in enumerate(frontier)),
        )

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """The group goes on without a member."""
        if not isinstance(command, ForgetMember):
            super().on_command(command, now, out)
            return
        member, drained = command.member, command.drained
        if member == self.rank or not 0 <= member < self.recipe.members:
            raise LocalProtocolError(f"forget: {member} is not another member of the group")
        if member in self.forgotten:
            return
        if not drained and self.forgotten_undrained >= self.recipe.f:
            raise LocalProtocolError(
                f"forget: the limit of f = {self.recipe.f} forgotten members is reached; f is "
                "fixed while the group runs: wait, or leave and restart with a larger f"
            )
        self.forgotten.add(member)
        self.forgotten_undrained += not drained
        self.trace.forgot(member, drained, out)
        self.receiver.forget(member, out)
        self.recovery.forget(member)
        self.outbox.forget(member)
        self.detection.forget(member, out)
        self._settle(now, out)

    def stop(self, now: float, out: Effects) -> None:
        """The view ends: what waits to be sent leaves, and no frontier moves any more."""
        if self.ending.state == OPEN:
            self.ending.stop()
            self.outbox.send_soon(now)
            self.outbox.flush(now, out)
            self._settle(now, out)

    def fetch(self, cut: Sequence[Seq], holders: Sequence[Rank], now: float, out: Effects) -> None:
        """The view's streams end at `cut`; by stream, who holds them up to there."""
        self.ending.fetch(cut, holders)
        self._settle(now, out)

    def finish(self, cut: Sequence[Seq] | None, now: float, out: Effects) -> None:
        """The view is over.  With a cut everything up to it is delivered here; without, what has
        its place is."""
        self.ending.finish(cut, out)
        if self.ordering is not None:
            self.ordering.close(cut, out)
        self._settle(now, out)

    def on_suspects(self, suspects: Collection[Rank]) -> None:
        """These seem to have crashed: others are asked for repair, if there are any."""
        self.recovery.suspected = suspects

    def on_progress(self, source: Pid, held: Seq, delivered: int, now: float, out: Effects) -> None:
        """A process tells how far it got in the order of the view."""
        peer = self.port.rank_of.get(source)
        if peer is not None and self.ordering is not None and self.ending.state != CLOSED:
            self.ordering.on_progress(peer, held, delivered)
            self._settle_order(now, out)

    def pace(self, is_busy: bool, now: float, out: Effects) -> None:
        """The application says whether it is busy with what it got."""
        if self.ordering is not None and self.ordering.pace(is_busy):
            self._settle_order(now, out)

    @property
    def progress(self) -> tuple[Seq, int]:
        """How far it got in the order of the view, as `on_progress` of the others is told."""
        return (0, 0) if self.ordering is None else self.ordering.progress

    @property
    def slowest(self) -> tuple[Incarnation, ...]:
        """The member that is furthest behind in the own stream, if any is."""
        rank = self.outbox.slowest
        return () if rank is None else (self.view.members[rank],)

    @property
    def is_empty(self) -> bool:
        """Whether the application has taken everything that it may."""
        return not self.buffers.queue.has_next

    def withdraw_credit(self) -> int:
        """How many messages the application would still take; it takes none here any more."""
        ready, self.buffers.ready = self.buffers.ready, 0
        return ready

    def _settle_order(self, now: float, out: Effects) -> None:
        """Order what came, hand over what has its place, and tell the others."""
        ordering = self.ordering
        if ordering is None:
            return
        if ordering.polls:
            if self.ending.state != OPEN or self.is_silent:
                ordering.pause()
            elif runs := ordering.poll(self.sending.last_update, now):
                self.sending.order(runs, now, out)
                self.outbox.send_soon(now)
                self.outbox.flush(now, out)
                self._settle(now, out, orders=False)
        ordering.settle(now, out)
        self.deadline = min(self.deadline, ordering.deadline)

    def _settle(self, now: float, out: Effects, *, orders: bool = True) -> None:
        """After every input: let the detectors see the frontier, recovery the gaps, and order."""
        if self.excluded or self.ending.state == CLOSED:
            self.deadline = NEVER
            return
        moved = self.receiver.moved
        if moved:
            for sender in moved:
                self.stability.on_frontier(sender, now)
                if self.safety.enabled:
                    self.safety.on_frontier(sender, now)
            moved.clear()
            if self.buffers.admitted_bytes >= self.gossip_at_bytes:
                self.gossip_at_bytes = self.buffers.admitted_bytes + self.gossip_after_bytes
                self.stability.gossip_now(now)
        if self.adapts and self.buffers.is_congested != self.safety.enabled:
            streams = self.stability.unagreed  # What is stable needs no purging.
            self.safety.enable(not self.safety.enabled, streams, now)  # [SRM §6.4]
        if self.receiver.gaps or self.recovery.gaps_since:
            self.recovery.poll(now, out)
        outbox, deadline = self.outbox, self.recovery.deadline
        # Comparing is four times as fast as `min`, and this is done after every input.
        if (due := outbox.flush_at) < deadline:
            deadline = due
        if (due := outbox.idle_at) < deadline:
            deadline = due
        if (due := self.stability.deadline) < deadline:
            deadline = due
        if (due := self.safety.deadline) < deadline:
            deadline = due
        self.deadline = deadline
        if orders and self.ordering is not None:
            self._settle_order(now, out)


_HANDLERS: dict[type, Callable[[Member, Rank, Any, float, Effects], None]] = {
    Nack: Member._on_nack,
    StabilityGossip: lambda m, source, g, now, out: m.detection.on_stability(source, g, now, out),
    SafetyGossip: lambda m, source, g, now, out: m.detection.on_safety(source, g, now, out),
    WindowEmpty: Member._on_window_empty,
    Excluded: Member._on_excluded,
}
