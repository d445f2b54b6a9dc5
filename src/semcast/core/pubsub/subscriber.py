"""The receiving side through its life: joined, away, back, gone, and after a crash.

Guarantees: what is delivered in one subscription, or in an earlier life that left its cursor on the
disk, is not delivered again in the next (at most once), or goes on from where the cursor stood (at
least once) [RPB §6.2].  Who is new or was away asks a logger where the streams end instead of
waiting for a heartbeat.  Under `lbrm` everybody does now and then: a publisher that crashed for
good sends no heartbeat, and what it said last may have reached loggers alone.
A logger's own subscriber follows its log, and after a crash always goes on at most once.
"""

from semcast.core.pubsub.gossiper import Gossiper
from semcast.core.pubsub.join_protocol import NOT_JOINED, OFFLINE, JoinProtocol
from semcast.core.pubsub.recovery import Recovery
from semcast.core.pubsub.storage import RestoredState
from semcast.core.pubsub.subscriber_delivery import SubscriberDelivery
from semcast.terms.effects import Effects
from semcast.terms.events import JOIN, LEAVE, Event
from semcast.terms.ids import NEVER, Rank, Seq
from semcast.terms.outputs import ROOM
from semcast.terms.pubsub import StreamStatus, SubscriptionRecord, Unsubscribed, Welcome


class Subscriber:
    """One life.  Invariant: the delivery has streams only while `is_open`."""

    def __init__(
        self,
        delivery: SubscriberDelivery,
        membership: JoinProtocol,
        recovery: Recovery,
        gossiper: Gossiper,
        restored: RestoredState,
        now: float,
    ) -> None:
        recipe = self.recipe = membership.recipe
        pid = self.pid = membership.pid
        self.storage = membership.storage
        self.rng = membership.rng
        self.delivery = delivery
        self.membership = membership
        self.recovery = recovery
        self.gossiper = gossiper
        self.restored = restored
        self.loggers = tuple(logger for logger in recipe.logger_pids if logger != pid)
        self.follows_log = membership.is_logger
        self.at_least_once = recipe.recovery == "at-least-once" and not self.follows_log
        self.is_open = False
        self.wants_open = False  # to be open, once the own log counts
        self.floor: dict[Rank, Seq] = dict(restored.cursors)  # not to be delivered again
        self.save_at = NEVER
        self.refresh_at = NEVER  # when to ask a logger again where streams end
        if self.follows_log:
            self.gossiper.start(now)
            self._ask_home(now, at_once=True)

    def __repr__(self) -> str:
        return f"Subscriber(open={self.is_open}, {self.membership}, {self.delivery})"

    @property
    def deadline(self) -> float:
        """When to write a cursor or to ask again."""
        return min(self.save_at, self.refresh_at, self.membership.deadline)

    def join(self, own: Seq, now: float, out: Effects) -> None:
        """Subscribe, at once or when there are sponsors; `own` was the last number sent here."""
        if self.is_open or self.membership.state == OFFLINE:
            return
        if self.follows_log:
            self.wants_open = True
        elif self.at_least_once and self.restored.joined is not None:
            self._resume(self.restored.joined, now, out)
            self.restored.joined = None
        elif self.membership.join(now, out):
            self.subscribe({}, own, now, out)
            self._ask_home(now, at_once=False)  # A founder: nothing was sent before.

    def on_welcome(self, peer: Rank, welcome: Welcome, own: Seq, now: float, out: Effects) -> None:
        """A sponsor accepted; with enough of them the join is done."""
        times = self.membership.on_welcome(peer, welcome)
        if times is not None:
            self.subscribe(times, own, now, out)

    def subscribe(self, times: dict[Rank, Seq], own: Seq, now: float, out: Effects) -> None:
        """What lies after the join time is owed from here on [RPB §5.3]."""
        self.wants_open = False
        starts = {s: max(times.get(s, 0), self.floor.get(s, 0)) for s in times | self.floor}
        if own:
            starts[self.pid] = max(own, starts.get(self.pid, 0))
        self._begin(starts, now)
        if self.at_least_once:
            lasts = tuple(StreamStatus(sender, start, start) for sender, start in starts.items())
            self.storage.write(SubscriptionRecord(self.membership.freshness, lasts), out)
        if out.events is not None:
            note = " ".join(f"{s}:{start}" for s, start in sorted(starts.items()) if start)
            out.events.append(Event(JOIN, self.pid, note=note))

    def _resume(self, joined: SubscriptionRecord, now: float, out: Effects) -> None:
        """Go on as the subscriber that an earlier life was, from its cursors [RPB §6.2]."""
        starts = {heard.sender: heard.last for heard in joined.lasts} | self.restored.cursors
        self.membership.resume(out)
        self._begin(starts, now)

    def _begin(self, starts: dict[Rank, Seq], now: float) -> None:
        self.is_open = True
        for sender, start in starts.items():
            self.delivery.tracker.open_stream(sender, start)
        if not self.follows_log:
            self.gossiper.start(now)
            self._ask_home(now, at_once=True)

    def _ask_home(self, now: float, *, at_once: bool) -> None:
        """Ask a logger where streams end: at once, or some time if there is no gossip."""
        later_s = self.recipe.heartbeat_max_s * (0.75 + 0.5 * self.rng.random())
        if not self.loggers or (self.recipe.has_gossip and not at_once):
            self.refresh_at = NEVER
        else:
            self.refresh_at = now if at_once else now + later_s

    def leave(self, now: float, out: Effects) -> None:
        """Be owed nothing more."""
        if out.events is not None and (self.is_open or self.membership.state != NOT_JOINED):
            out.events.append(Event(LEAVE, self.pid))
        self.floor |= self.delivery.reset()
        self.is_open = self.wants_open = False
        self.refresh_at = NEVER
        if self.at_least_once:
            self.storage.write(Unsubscribed(), out)
        self.membership.leave(now, out)
        if not self.follows_log:
            self.recovery.reset()
            self.gossiper.stop()

    def disconnect(self, out: Effects) -> None:
        """Out of reach for a while, and still owed everything."""
        self.membership.disconnect(out)
        if self.membership.state == OFFLINE:
            self.gossiper.stop()

    def reconnect(self, now: float, out: Effects) -> None:
        """Back in reach: get what was missed."""
        if self.membership.reconnect(out):
            self.gossiper.start(now)
            self._ask_home(now, at_once=True)
            out.outputs.append(ROOM)

    def on_stream_ends(self, now: float) -> None:
        """A logger said where the streams end."""
        self._ask_home(now, at_once=False)

    def on_time(self, own: Seq, now: float, out: Effects) -> None:
        """Write cursors, ask again."""
        self.membership.on_time(now, out)
        if self.membership.is_alone(now):
            self.subscribe({}, own, now, out)
        if now >= self.save_at:
            self.save_at = NEVER
            self.delivery.save(out)
        if now >= self.refresh_at:
            self.refresh_at = now + self.recipe.retry_s
            logger = self.rng.choice(self.loggers)
            out.send.append(((logger,), self.gossiper.status_list(wants_answer=True)))

    def after_input(self, now: float, out: Effects) -> None:
        """After every input: cursors before deliveries, or some time after them."""
        if self.delivery.uncovered:
            self.delivery.flush(out)
        if self.delivery.unsaved and self.save_at == NEVER:
            self.save_at = now + self.recipe.period_s
