"""How a process becomes a member, leaves, goes out of reach and comes back [RPB §5.3].

Guarantees: who joins is owed every message after its join time, the largest of what its sponsors
knew when they accepted it [Property 5.2].  A sponsor has not acknowledged those messages, and once
it does its membership tells the logger of the new member first; `sponsors` of them may crash but
for one.  Loggers sponsor after they wrote the member down; `copies` of them suffice.  Nobody who
sends ever waits for any of this.
Departs: to leave, a process asks `copies` loggers, which strike it only once both know the same
members; else a sponsor that leaves takes the knowledge of whom it sponsored with it.  Members
answer a join with a chance that brings about `sponsors` answers, not all of them.
"""

from collections import deque
from random import Random

from semcast.core.pubsub.membership import Roster
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.storage import Storage
from semcast.core.pubsub.tracking import Tracker
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq
from semcast.terms.pubsub import (
    DISCONNECTED,
    LEFT,
    MEMBER,
    Admitted,
    Entry,
    Heard,
    Join,
    Leave,
    LeaveAck,
    Members,
    Welcome,
)

OUTSIDE = "outside"
JOINING = "joining"
IN = "in"
LEAVING = "leaving"
AWAY = "away"
LIFE = 32  # bits of freshness within one life


class Membership:
    """One life of a process.  Invariant: `fresh` is above every one it used before."""

    def __init__(
        self,
        recipe: PubsubRecipe,
        pid: Rank,
        roster: Roster,
        tracker: Tracker,
        storage: Storage,
        rng: Random,
        inc: int,
    ) -> None:
        self.recipe = recipe
        self.pid = pid
        self.roster = roster
        self.tracker = tracker  # what this process knows as a sponsor
        self.storage = storage
        self.rng = rng
        self.loggers = recipe.keepers
        self.is_logger = pid in recipe.keepers
        self.fresh = inc << LIFE
        self.state = IN if self.is_logger else OUTSIDE
        self.sponsors: dict[Rank, None] = {}
        self.times: dict[Rank, Seq] = {}
        self.admitting: deque[tuple[int, Rank, int]] = deque()  # until it is durable
        self.patient_until = NEVER
        self.deadline = NEVER
        if self.is_logger and inc:
            self.roster.merge(self._entry(MEMBER))

    def __repr__(self) -> str:
        return f"Membership({self.state}, fresh={self.fresh}, sponsors={list(self.sponsors)})"

    def _entry(self, status: int) -> Entry:
        return Entry(self.pid, status, self.fresh)

    @property
    def is_founder(self) -> bool:
        """Whether it is a member without asking."""
        return self.fresh == 0 and self.pid < self.recipe.founders

    def join(self, now: float, out: Effects) -> bool:
        """Ask for sponsors; whether none are needed."""
        if self.state != OUTSIDE:
            return False
        if self.is_founder:
            self.state = IN
            return True
        self.fresh += 1
        self.state = JOINING
        self.sponsors.clear()
        self.times.clear()
        self.roster.merge(self._entry(MEMBER))
        self.patient_until = now + self.recipe.rounds * self.recipe.period_s
        self.deadline = now
        self.on_time(now, out)
        return False

    def resume(self, out: Effects) -> None:
        """Go on as the member that an earlier life was."""
        self.state = IN
        self._announce(MEMBER, out)

    def leave(self, now: float, out: Effects) -> None:
        """Ask to be struck; without loggers, say so."""
        if self.state not in (IN, JOINING, AWAY) or self.is_logger:
            return
        self.fresh += 1
        if self.loggers:
            self.state = LEAVING
            self.sponsors.clear()
            self.deadline = now
            self.on_time(now, out)
        else:
            self.state = OUTSIDE
            self._announce(LEFT, out)

    def disconnect(self, out: Effects) -> None:
        """Say that it will be out of reach; it is still owed everything."""
        if self.state == IN:
            self.fresh += 1
            self.state = AWAY
            self._announce(DISCONNECTED, out)

    def reconnect(self, out: Effects) -> bool:
        """Say that it is back; whether it was away."""
        if self.state != AWAY:
            return False
        self.fresh += 1
        self.state = IN
        self._announce(MEMBER, out)
        return True

    def _announce(self, status: int, out: Effects) -> None:
        entry = self._entry(status)
        self.roster.merge(entry)
        out.send.append((EVERYONE, Members(self.pid, self.pid, (entry,), False)))

    def is_alone(self, now: float) -> bool:
        """Whether, without loggers, nobody was there to sponsor it: then it is the first."""
        if self.state != JOINING or self.loggers or now < self.patient_until:
            return False
        self.state = IN
        self.deadline = NEVER
        return True

    def on_time(self, now: float, out: Effects) -> None:
        """Ask again."""
        if now < self.deadline:
            return
        self.deadline = now + self.recipe.retry_s
        if self.state == JOINING:
            out.send.append((EVERYONE, Join(self.fresh)))
        elif self.state == LEAVING:
            asked = [logger for logger in self.loggers if logger not in self.sponsors]
            out.send.append(((self.rng.choice(asked),), Leave(self.fresh, self.roster.signature)))
        else:
            self.deadline = NEVER

    def on_join(self, peer: Rank, join: Join, is_complete: bool, out: Effects) -> None:
        """Accept a member; only a member may, and a logger only if it counts [RPB §5.3]."""
        if self.state != IN or not is_complete:
            return
        wanted = Entry(peer, MEMBER, join.fresh)
        is_new = self.roster.merge(wanted)
        if self.roster.entry(peer) != wanted:
            return  # An older attempt.
        if self.is_logger:
            if is_new:
                self.admitting.append((self.storage.write(Admitted(wanted), out), peer, join.fresh))
            elif all(peer != admitted for _, admitted, _ in self.admitting):
                self._welcome(peer, join.fresh, out)
        elif self.recipe.gossips and self._is_sampled():
            self._welcome(peer, join.fresh, out)

    def _is_sampled(self) -> bool:
        return self.rng.random() * self.roster.owed < 2 * self.recipe.sponsors

    def _welcome(self, peer: Rank, fresh: int, out: Effects) -> None:
        streams = self.tracker.streams.items()
        lasts = tuple(Heard(sender, stream.last, stream.last) for sender, stream in streams)
        out.send.append(((peer,), Welcome(fresh, lasts)))

    def on_persisted(self, is_complete: bool, out: Effects) -> None:
        """Members are written down: welcome them, or say goodbye."""
        while self.admitting and self.admitting[0][0] <= self.storage.durable:
            _, peer, fresh = self.admitting.popleft()
            entry = self.roster.entry(peer)
            if entry is None or entry.fresh != fresh or not is_complete:
                continue
            if entry.status == LEFT:
                out.send.append(((peer,), LeaveAck(fresh)))
            else:
                self._welcome(peer, fresh, out)

    def on_welcome(self, peer: Rank, welcome: Welcome) -> dict[Rank, Seq] | None:
        """A sponsor; the join time once there are enough, else None [RPB §5.3]."""
        if self.state != JOINING or welcome.fresh != self.fresh:
            return None
        self.sponsors[peer] = None
        for heard in welcome.lasts:
            self.times[heard.sender] = max(heard.last, self.times.get(heard.sender, 0))
        loggers = sum(sponsor in self.loggers for sponsor in self.sponsors)
        if self.loggers:
            by_members = self.recipe.gossips and len(self.sponsors) >= self.recipe.sponsors
            if not by_members and loggers < self.recipe.copies:
                return None
        self.state = IN
        self.deadline = NEVER
        return self.times

    def on_leave(self, peer: Rank, leave: Leave, is_complete: bool, out: Effects) -> None:
        """Strike a member, once both know the same members."""
        if not self.is_logger or self.state != IN or not is_complete:
            return
        left = Entry(peer, LEFT, leave.fresh)
        if self.roster.entry(peer) == left:
            if all(peer != admitted for _, admitted, _ in self.admitting):
                out.send.append(((peer,), LeaveAck(leave.fresh)))
        elif leave.members == self.roster.signature:
            self.roster.merge(left)
            self.admitting.append((self.storage.write(Admitted(left), out), peer, leave.fresh))
        else:
            out.send.extend(((peer,), part) for part in self.roster.digest(wants_answer=True))

    def on_goodbye(self, logger: Rank, goodbye: LeaveAck) -> None:
        """Struck, by a logger; once `copies` wrote it down, a lost disk does not bring it back."""
        if self.state != LEAVING or goodbye.fresh != self.fresh:
            return
        self.sponsors[logger] = None
        if len(self.sponsors) >= self.recipe.copies:
            self.state = OUTSIDE
            self.deadline = NEVER
            self.roster.merge(self._entry(LEFT))

    def merge(self, entry: Entry, out: Effects) -> None:
        """Somebody says something of a process; of itself each process alone knows."""
        if entry.pid == self.pid:
            if entry.fresh > self.fresh and self.state == IN:
                self.fresh = entry.fresh + 1
                self._announce(MEMBER, out)
        elif self.roster.merge(entry) and self.is_logger:
            self.storage.write(Admitted(entry), out)
