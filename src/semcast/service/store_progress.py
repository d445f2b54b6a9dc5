"""Tells the other servers of the store what this one has on its disk and has executed.

At once it tells those that wait for it: the servers whose clients have asked for the updates, and
the sequencer of the group, which lets updates gather meanwhile.  The others learn it beside the
next datagram that this server sends to all: from the sequencer after `order_s` at the latest,
because what it has executed is safe for all, and else after `retry_s`.
Rejected: telling all at once.  With one server that has all clients that is three times as many
datagrams, and nobody waits for four of six.
"""

from collections.abc import Sequence
from typing import Any

from semcast.service.store_recipe import StoreRecipe
from semcast.service.store_replica import StoreReplica
from semcast.terms.ids import NEVER, Incarnation, Pid

Sends = list[tuple[Sequence[Pid], Any]]


class ProgressReporter:
    """Lives as long as the server; what was told counts in one view."""

    def __init__(self, recipe: StoreRecipe, life: Incarnation, replica: StoreReplica) -> None:
        self.recipe = recipe
        self.life = life
        self.replica = replica
        self.reported = -1  # of what is on the disk, to those that wait for it
        self.announced = -1, -1  # to all: what is on the disk, and what was executed
        self.others: list[Pid] = []
        self.sequencer: Pid = life.pid
        self._last: dict[Pid, int] = {}  # by server: the last update that its clients asked for
        self._askers: set[Pid] = set()
        self._safe_before = -1
        self.ask_at = self.tell_at = NEVER

    def __repr__(self) -> str:
        return f"ProgressReporter(reported={self.reported}, announced={self.announced})"

    @property
    def deadline(self) -> float:
        """When `poll` has something to say, at the latest."""
        return min(self.ask_at, self.tell_at)

    @property
    def is_active(self) -> bool:
        """Whether there is somebody to tell."""
        return self.replica.is_primary and self.replica.is_in_place and bool(self.others)

    @property
    def is_awaited(self) -> bool:
        """Whether others may wait for what came to the disk since the last report."""
        return self.replica.disk.length > self.reported and self.is_active

    def enter(self) -> None:
        """newview: the others know nothing."""
        members = self.replica.view.members
        self.reported, self.announced = -1, (-1, -1)
        self.others = [life.pid for life in members if life != self.life]
        self.sequencer = members[0].pid
        self._last.clear()
        self._askers.clear()

    def on_updates(self, last: int, origin: Pid) -> None:
        """The updates up to `last` are of clients of this server."""
        self._last[origin] = last

    def on_asked(self, source: Pid) -> None:
        """A server waits for something to become safe."""
        self._askers.add(source)

    def poll(self, now: float, sends: Sends, *, has_company: bool) -> None:
        """Tell what has to be told now; `has_company`: something else is sent to all."""
        if not self.is_active:
            self.ask_at = self.tell_at = NEVER
            return
        replica, recipe = self.replica, self.recipe
        is_sequencer = self.sequencer == self.life.pid
        asks = self._asks(now)
        news = replica.disk.length, replica.executed
        is_news = news != self.announced
        audience: Sequence[Pid] = self._waiting(news[0])
        if is_news and self.tell_at == NEVER:
            self.tell_at = now + (recipe.group.order_s if is_sequencer else recipe.retry_s)
        if asks or now >= self.tell_at or (is_news and is_sequencer and has_company):
            audience, self.announced, self.tell_at = self.others, news, NEVER
        self._askers.clear()
        self.reported = news[0]
        if audience:
            sends.append((audience, replica.progress(asks)))

    def _asks(self, now: float) -> bool:
        """Whether nothing became safe for some time, though something waits for that."""
        replica = self.replica
        is_waiting, has_moved = replica.safe < replica.log.length, replica.safe != self._safe_before
        self._safe_before = replica.safe
        asks = is_waiting and not has_moved and now >= self.ask_at
        if not is_waiting:
            self.ask_at = NEVER
        elif asks or has_moved or self.ask_at == NEVER:
            self.ask_at = now + self.recipe.retry_s
        return asks

    def _waiting(self, length: int) -> Sequence[Pid]:
        """Those who wait for what came to the disk since the last report, and those who ask."""
        waiting, reported = self._askers, self.reported
        if length > reported:
            waiting.add(self.sequencer)
            waiting.update([pid for pid, last in self._last.items() if last > reported])
            waiting.discard(self.life.pid)
        return tuple(sorted(waiting))
