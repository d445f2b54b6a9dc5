"""One member of a group: the machines of a recipe, wired together.  No protocol rule is here.

A driver calls it as any `Machine`.  The same object runs under the simulator and between real
processes.
"""

from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from semcast import kernel
from semcast.core.detector import QuorumDetector
from semcast.core.holdings import Holdings
from semcast.core.outbox import Outbox, repairs
from semcast.core.placing import PlacedQueue
from semcast.core.reception import Reception
from semcast.core.recipe import Recipe
from semcast.core.recovery import RepairRequester
from semcast.core.sending import Sending
from semcast.core.trace import Trace
from semcast.core.vetting import Vetting
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.events import RECLAIM, SAFE, STABLE
from semcast.terms.ids import NEVER, Rank, Seq
from semcast.terms.machine import Command, ForgetMember, Machine, Status
from semcast.terms.messages import (
    Ballot,
    Data,
    Datagram,
    Excluded,
    Nack,
    SafetyGossip,
    StabilityGossip,
    Submission,
    WindowEmpty,
)
from semcast.terms.outputs import Ended
from semcast.terms.views import EXCLUDED, MEMBER

PACKS: Final = kernel.BUILD == "compiled"  # Otherwise msgspec is faster.


class Member(Machine):
    """Lives as long as the process takes part in the group."""

    def __init__(
        self,
        recipe: Recipe,
        rank: Rank,
        rng: Random,
        placed: PlacedQueue | None = None,
        trace: Trace | None = None,
        bases: Sequence[Seq] = (),
    ) -> None:
        """With `placed`, messages are delivered at the places that the first member gives them."""
        if not 0 <= rank < recipe.members:
            raise ConfigError(f"rank: {rank} is not in 0..{recipe.members - 1}")
        self.recipe = recipe
        self.rank = rank
        self.forgotten: set[Rank] = set()
        self.given_up = 0  # how many of them did not leave drained
        self.excluded = False
        self.deadline = NEVER  # when `on_time` wants to be called next
        self.holdings = Holdings(recipe, rank, placed, trace, bases)
        self.trace = self.holdings.trace
        self.reception = Reception(recipe, rank, self.holdings, bases)
        self.vetting = Vetting(recipe, rank, self.reception.frontier, places=placed is not None)
        self.recovery = RepairRequester(recipe, rank, self.reception, self.holdings, rng)
        self.outbox = Outbox(recipe, rank, self.holdings.store, bases[rank] if bases else 0)
        self.sending = Sending(
            recipe, rank, self.holdings, self.reception, self.vetting, self.outbox, bases
        )
        frontier = self.reception.frontier
        members, fanout = recipe.members, recipe.fanout
        how = (recipe.gossip_after, recipe.direct_gossip, bases)
        self.stability = QuorumDetector(
            rank, members, None, frontier, rng, recipe.period_s, fanout, StabilityGossip, *how
        )
        quorum, period_s = recipe.f + 1, recipe.safety_period_s
        self.safety = QuorumDetector(
            rank, members, quorum, frontier, rng, period_s, fanout, SafetyGossip, *how
        )
        self.gossip_after_bytes = self.gossip_at_bytes = recipe.gossip_after_bytes or inf
        self.needs_safety = recipe.needs_safety
        self.adapts = recipe.needs_safety and not recipe.safety_always
        self.safety.enabled = recipe.needs_safety and recipe.safety_always

    def __repr__(self) -> str:
        return f"Member({self.rank}, {self.reception}, {self.holdings}, {self.recovery})"

    @property
    def sent(self) -> Seq:
        """The number of the last own message."""
        return self.sending.last

    def submit(self, submissions: Sequence[Submission], now: float, out: Effects) -> int:
        """Send to the group; returns how many, from the front, there was room for."""
        if self.excluded:
            raise LocalProtocolError(
                "this member was excluded from the group and can no longer send"
            )
        try:
            return self.sending.submit(submissions, now, out)
        finally:
            self.outbox.flush(now, out)
            self.holdings.purge_stored(self.rank, out)
            self._settle(now, out)

    def order(self, runs: tuple[tuple[Rank, Seq], ...], now: float, out: Effects) -> None:
        """Multicast an order message: it gives the next places."""
        self.sending.order(runs, now, out)
        self.outbox.flush(now, out)
        self._settle(now, out)

    def on_datagram(self, source: Rank, datagram: Datagram, now: float, out: Effects) -> None:
        """Something came from `source`; raises RemoteProtocolError if this group cannot say it."""
        if self.excluded:
            return
        if source in self.forgotten:
            self._turn_away(source, out)
            return
        self.vetting.check(source, datagram)
        if self.vetting.shows_exclusion(datagram):
            self._end(out)
        else:
            _HANDLERS[type(datagram)](self, source, datagram, now, out)
        self._settle(now, out)

    def _turn_away(self, source: Rank, out: Effects) -> None:
        out.send.append(((source,), Excluded(source)))
        self.trace.turned_away(source, out)

    def _on_data(self, source: Rank, data: Data, now: float, out: Effects) -> None:
        if data.safe:
            self._on_safe(self.safety.on_agreed(source, data.safe), out)
        if data.purged:
            self.reception.on_notices(data.purged, source, out)
        self.reception.on_messages(data.messages, source, out)
        if data.answers:
            self.recovery.on_answer(data, now)

    def _on_nack(self, source: Rank, nack: Nack, now: float, out: Effects) -> None:
        if nack.sender == self.rank and nack.ranges:
            self.outbox.on_nack(source, nack)
        messages, notices = self.holdings.store.find(
            nack.sender, nack.ranges, self.reception.frontier[nack.sender], nack.limit
        )
        if self.reception.limit is not None and len(messages) < nack.limit:
            early, gone = self.reception.find_ahead(nack)
            messages += early[: nack.limit - len(messages)]
            notices += gone
        *parts, last = repairs(messages, notices, self.recipe.datagram_bytes)
        for part in parts:
            out.send.append(((source,), part))
        if last.messages or last.purged:
            self.trace.repaired(nack.sender, messages, notices, source, out)
            # It closes the request: were the first part to, the rest would be asked for twice.
            out.send.append(((source,), replace(last, answers=nack.number)))

    def _on_stability(self, source: Rank, g: StabilityGossip, now: float, out: Effects) -> None:
        self._take_hints(source, g.ballots, out)
        self._on_stable(self.stability.on_gossip(source, g.ballots, now), out)

    def _on_safety(self, source: Rank, g: SafetyGossip, now: float, out: Effects) -> None:
        self._take_hints(source, g.ballots, out)
        self._on_safe(self.safety.on_gossip(source, g.ballots, now), out)

    def _on_window_empty(self, source: Rank, w: WindowEmpty, now: float, out: Effects) -> None:
        self.reception.learn(w.sender, w.last)

    def _on_excluded(self, source: Rank, e: Excluded, now: float, out: Effects) -> None:
        if e.member == self.rank:
            self._end(out)

    def _end(self, out: Effects) -> None:
        self.excluded = True
        out.outputs.append(Ended(EXCLUDED))

    def _take_hints(self, source: Rank, ballots: tuple[Ballot, ...], out: Effects) -> None:
        """Gossip tells where streams end and who holds them [SRM §5.3]."""
        for ballot in ballots:
            reached = self.stability.reached(ballot)
            self.reception.hear(ballot.sender, max(ballot.frontier, reached))
            self.recovery.on_claim(source, ballot.sender, ballot.frontier)
            if ballot.sender == self.rank:
                self._on_claim(source, ballot.frontier, out)

    def _on_claim(self, source: Rank, frontier: Seq, out: Effects) -> None:
        """A peer has come so far in the own stream."""
        self.outbox.on_claim(source, frontier)
        if self.needs_safety and self.safety.on_claim(source, frontier):
            self._on_safe([self.rank], out)
        if self.stability.on_claim(source, frontier):
            self._on_stable([self.rank], out)

    def _on_stable(self, streams: list[Rank], out: Effects) -> None:
        for sender in streams:
            stable = self.stability.agreed[sender]
            self._record(STABLE, sender, stable, out)
            if sender == self.rank:
                if self.stability.direct and self.outbox.peers:
                    # Before anything is sent into the room that it makes.
                    self.stability.announce(self.outbox.audience, out)
                self.outbox.on_stable(stable)
            if self.recipe.elsewhere or sender == self.rank:
                self.holdings.on_stable(sender, stable, out)
                self._record(RECLAIM, sender, stable, out)

    def _on_safe(self, streams: list[Rank], out: Effects) -> None:
        for sender in streams:
            safe = self.safety.agreed[sender]
            self._record(SAFE, sender, safe, out)
            self.holdings.on_safe(sender, safe, out)

    def _record(self, kind: str, sender: Rank, seq: Seq, out: Effects) -> None:
        if out.events is not None:
            self.trace.advanced(kind, sender, seq, self.holdings.messages, out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        self.holdings.on_ready(count, out)
        self._settle(now, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.excluded:
            return
        self.outbox.on_time(now, out)
        if now >= self.stability.deadline:
            self._on_stable(self.stability.on_time(now, out), out)
        if now >= self.safety.deadline:
            self._on_safe(self.safety.on_time(now, out), out)
        self._settle(now, out)

    def on_idle(self, now: float, out: Effects) -> None:
        """No more company is to be expected for what waits to be sent."""
        if not self.outbox.is_empty:
            self.outbox.hurry(now)
            self.outbox.flush(now, out)
            self._settle(now, out)

    @property
    def is_drained(self) -> bool:
        """Whether everything known here is stable: the group loses nothing if this one leaves."""
        return not self.stability.open and not self.reception.gaps

    def status(self, now: float) -> Status:
        """How it is doing."""
        holdings, sent = self.holdings, self.sent
        agreed, closed = self.stability.agreed, self.stability.closed
        frontier = self.reception.frontier
        return Status(
            phase=EXCLUDED if self.excluded else MEMBER,
            sent=sent,
            passed=sum(frontier),
            skipped=holdings.skipped,
            purged=holdings.purged,
            queued=len(holdings.queue),
            held=holdings.messages,
            held_bytes=holdings.bytes,
            lags={peer: sent - reached for peer, reached in self.outbox.reached.items()},
            forgotten=self.forgotten,
            is_blocked=holdings.refused,
            is_drained=self.is_drained,
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
        if not drained and self.given_up >= self.recipe.f:
            raise LocalProtocolError(
                f"forget: the limit of f = {self.recipe.f} forgotten members is reached; f is "
                "fixed while the group runs: wait, or leave and restart with a larger f"
            )
        self.forgotten.add(member)
        self.given_up += not drained
        self.trace.forgot(member, drained, out)
        self.reception.forget(member, out)
        self.recovery.forget(member)
        self.outbox.forget(member)
        if not self.recipe.elsewhere:
            self.stability.close(member)
        self._on_safe(self.safety.forget(member), out)
        self._on_stable(self.stability.forget(member), out)
        self._settle(now, out)

    def freeze(self, now: float, out: Effects) -> None:
        """The view ends: what waits to be sent leaves, and no frontier moves any more."""
        self.reception.freeze()
        self.outbox.hurry(now)
        self.outbox.flush(now, out)
        self._settle(now, out)

    def aim(self, cut: Sequence[Seq], sources: Sequence[Rank], now: float, out: Effects) -> None:
        """The view's streams end at `cut`; by stream, who holds them up to there."""
        self.reception.aim(cut)
        self.recovery.aim(sources)
        self._settle(now, out)

    def release(self, cut: Sequence[Seq], now: float, out: Effects) -> None:
        """Take what was held back, up to the cut."""
        self.reception.release(cut, out)
        self._settle(now, out)

    def _settle(self, now: float, out: Effects) -> None:
        """After every input: let the detectors see the frontier, and recovery the gaps."""
        if self.excluded:
            self.deadline = NEVER
            return
        moved = self.reception.moved
        if moved:
            for sender in moved:
                self.stability.on_frontier(sender, now)
                if self.safety.enabled:
                    self.safety.on_frontier(sender, now)
            moved.clear()
            if self.holdings.admitted_bytes >= self.gossip_at_bytes:
                self.gossip_at_bytes = self.holdings.admitted_bytes + self.gossip_after_bytes
                self.stability.hurry(now)
        if self.adapts and self.holdings.congested != self.safety.enabled:
            streams = self.stability.open  # What is stable needs no purging.
            self.safety.enable(not self.safety.enabled, streams, now)  # [SRM §6.4]
        if self.reception.gaps or self.recovery.noticed:
            self.recovery.poll(now, out)
        self.deadline = min(
            self.outbox.flush_at,
            self.outbox.idle_at,
            self.stability.deadline,
            self.safety.deadline,
            self.recovery.deadline,
        )


_HANDLERS: dict[type, Callable[[Member, Rank, Any, float, Effects], None]] = {
    Data: Member._on_data,
    Nack: Member._on_nack,
    StabilityGossip: Member._on_stability,
    SafetyGossip: Member._on_safety,
    WindowEmpty: Member._on_window_empty,
    Excluded: Member._on_excluded,
}
