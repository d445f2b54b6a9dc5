"""How receivers learn of the last message before an idle time.

LBRM multicasts heartbeats at growing intervals [RPB §5.1, table 7.1]; with hashed heartbeats one
multicast goes out before idling and signatures in gossip do the rest.  pbcast needs none: a digest
says what exists.
"""

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq
from semcast.terms.pubsub import PublisherHeartbeat


class HeartbeatTimer:
    """Of one publisher.  Invariant: `deadline` is NEVER until it has published."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank) -> None:
        self.pid = pid
        self.is_sent = recipe.protocol != "pbcast"
        self.is_repeated = recipe.protocol == "lbrm"
        self.min_s = recipe.heartbeat_min_s if self.is_repeated else recipe.period_s
        self.max_s = recipe.heartbeat_max_s
        self.factor = recipe.heartbeat_factor
        self.interval_s = self.min_s
        self.last: Seq = 0
        self.deadline = NEVER

    def __repr__(self) -> str:
        return f"HeartbeatTimer(last={self.last}, deadline={self.deadline})"

    def on_published(self, last: Seq, now: float) -> None:
        """The stream went on, which says as much as a heartbeat."""
        if self.is_sent and last:
            self.last = last
            self.interval_s = self.min_s
            self.deadline = now + self.min_s

    def on_time(self, now: float, out: Effects) -> None:
        """Say where the stream ends, if nothing else did."""
        if now < self.deadline:
            return
        out.send.append((EVERYONE, PublisherHeartbeat(self.pid, self.last)))
        self.interval_s = min(self.max_s, self.interval_s * self.factor)
        self.deadline = now + self.interval_s if self.is_repeated else NEVER
