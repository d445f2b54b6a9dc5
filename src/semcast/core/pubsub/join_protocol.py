"""How a process becomes a member, leaves, goes out of reach and comes back [RPB §5.3].

Guarantees: a joiner is owed every message after its join time, the largest of what its sponsors
knew when they accepted it [Property 5.2].  A sponsor has not acknowledged those messages, and once
it does its membership tells the logger of the new member first.  All sponsors but one may crash.
Loggers sponsor after they wrote the member to disk; `copies` of them suffice.  No sender ever waits
for any of this.
Departs: to leave, a process asks `copies` loggers.  A logger strikes it only when leaver and logger
know the same members; otherwise a sponsor that leaves takes the knowledge of whom it sponsored with
it.  Members answer a join at random, so that about `sponsors` of them do, not all.
"""

from collections import deque
from random import Random

from semcast.core.pubsub.member_table import MemberTable
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.pubsub.storage import Storage
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq
from semcast.terms.pubsub import (
    DISCONNECTED,
    LEFT,
    MEMBER,
    Join,
    LeaveAck,
    LeaveRequest,
    MemberEntry,
    MemberList,
    MemberRecord,
    StreamStatus,
    Welcome,
)

NOT_JOINED = "outside"
JOINING = "joining"
JOINED = "in"
LEAVING = "leaving"
OFFLINE = "away"
INC_SHIFT = 32  # bits of freshness within one life


class JoinProtocol:
    """One life of a process.  Invariant: `freshness` is above every one it used before."""

    def __init__(
        self,
        recipe: PubsubRecipe,
        pid: Rank,
        roster: MemberTable,
        tracker: SeqTracker,
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
        self.loggers = recipe.logger_pids
        self.is_logger = pid in recipe.logger_pids
        self.freshness = inc << INC_SHIFT
        self.state = JOINED if self.is_logger else NOT_JOINED
        self.sponsors: dict[Rank, None] = {}
        self.join_vector: dict[Rank, Seq] = {}
        self.admitting: deque[tuple[int, Rank, int]] = deque()  # until it is durable
        self.sponsor_deadline = NEVER
        self.deadline = NEVER
        if self.is_logger and inc:
            self.roster.merge(self._entry(MEMBER))

    def __repr__(self) -> str:
        return f"JoinProtocol({self.state}, fresh={self.freshness}, sponsors={list(self.sponsors)})"

    def _entry(self, status: int) -> MemberEntry:
        return MemberEntry(self.pid, status, self.freshness)

    @property
    def is_founder(self) -> bool:
        """Whether it is a member without asking."""
        return self.freshness == 0 and self.pid < self.recipe.founders

    def join(self, now: float, out: Effects) -> bool:
        """Ask for sponsors; whether none are needed."""
        if self.state != NOT_JOINED:
            return False
        if self.is_founder:
            self.state = JOINED
            return True
        self.freshness += 1
        self.state = JOINING
        self.sponsors.clear()
        self.join_vector.clear()
        self.roster.merge(self._entry(MEMBER))
        self.sponsor_deadline = now + self.recipe.rounds * self.recipe.period_s
        self.deadline = now
        self.on_time(now, out)
        return False

    def resume(self, out: Effects) -> None:
        """Go on as the member that an earlier life was."""
        self.state = JOINED
        self._announce(MEMBER, out)

    def leave(self, now: float, out: Effects) -> None:
        """Ask to be struck; without loggers, say so."""
        if self.state not in (JOINED, JOINING, OFFLINE) or self.is_logger:
            return
        self.freshness += 1
        if self.loggers:
            self.state = LEAVING
            self.sponsors.clear()
            self.deadline = now
            self.on_time(now, out)
        else:
            self.state = NOT_JOINED
            self._announce(LEFT, out)

    def disconnect(self, out: Effects) -> None:
        """Say that it will be out of reach; it is still owed everything."""
        if self.state == JOINED:
            self.freshness += 1
            self.state = OFFLINE
            self._announce(DISCONNECTED, out)

    def reconnect(self, out: Effects) -> bool:
        """Say that it is back; whether it was away."""
        if self.state != OFFLINE:
            return False
        self.freshness += 1
        self.state = JOINED
        self._announce(MEMBER, out)
        return True

    def _announce(self, status: int, out: Effects) -> None:
        entry = self._entry(status)
        self.roster.merge(entry)
        out.send.append((EVERYONE, MemberList(self.pid, self.pid, (entry,), False)))

    def is_alone(self, now: float) -> bool:
        """Whether, without loggers, nobody was there to sponsor it: then it is the first."""
        if self.state != JOINING or self.loggers or now < self.sponsor_deadline:
            return False
        self.state = JOINED
        self.deadline = NEVER
        return True

    def on_time(self, now: float, out: Effects) -> None:
        """Ask again."""
        if now < self.deadline:
            return
        self.deadline = now + self.recipe.retry_s
        if self.state == JOINING:
            out.send.append((EVERYONE, Join(self.freshness)))
        elif self.state == LEAVING:
            asked = [logger for logger in self.loggers if logger not in self.sponsors]
            out.send.append(
                ((self.rng.choice(asked),), LeaveRequest(self.freshness, self.roster.signature))
            )
        else:
            self.deadline = NEVER

    def on_join(self, peer: Rank, join: Join, is_complete: bool, out: Effects) -> None:
        """Accept a member; only a member may, and a logger only if it counts [RPB §5.3]."""
        if self.state != JOINED or not is_complete:
            return
        wanted = MemberEntry(peer, MEMBER, join.freshness)
        is_new = self.roster.merge(wanted)
        if self.roster.entry(peer) != wanted:
            return  # An older attempt.
        if self.is_logger:
            if is_new:
                self.admitting.append(
                    (self.storage.write(MemberRecord(wanted), out), peer, join.freshness)
                )
            elif all(peer != admitted for _, admitted, _ in self.admitting):
                self._welcome(peer, join.freshness, out)
        elif self.recipe.has_gossip and self._is_sampled():
            self._welcome(peer, join.freshness, out)

    def _is_sampled(self) -> bool:
        return self.rng.random() * self.roster.owed < 2 * self.recipe.sponsors

    def _welcome(self, peer: Rank, fresh: int, out: Effects) -> None:
        streams = self.tracker.streams.items()
        lasts = tuple(StreamStatus(sender, stream.last, stream.last) for sender, stream in streams)
        out.send.append(((peer,), Welcome(fresh, lasts)))

    def on_persisted(self, is_complete: bool, out: Effects) -> None:
        """Members are written down: welcome them, or say goodbye."""
        while self.admitting and self.admitting[0][0] <= self.storage.durable:
            _, peer, fresh = self.admitting.popleft()
            entry = self.roster.entry(peer)
            if entry is None or entry.freshness != fresh or not is_complete:
                continue
            if entry.status == LEFT:
                out.send.append(((peer,), LeaveAck(fresh)))
            else:
                self._welcome(peer, fresh, out)

    def on_welcome(self, peer: Rank, welcome: Welcome) -> dict[Rank, Seq] | None:
        """A sponsor; the join time once there are enough, else None [RPB §5.3]."""
        if self.state != JOINING or welcome.freshness != self.freshness:
            return None
        self.sponsors[peer] = None
        for heard in welcome.lasts:
            self.join_vector[heard.sender] = max(heard.last, self.join_vector.get(heard.sender, 0))
        loggers = sum(sponsor in self.loggers for sponsor in self.sponsors)
        if self.loggers:
            by_members = self.recipe.has_gossip and len(self.sponsors) >= self.recipe.sponsors
            if not by_members and loggers < self.recipe.copies:
                return None
        self.state = JOINED
        self.deadline = NEVER
        return self.join_vector

    def on_leave(self, peer: Rank, leave: LeaveRequest, is_complete: bool, out: Effects) -> None:
        """Strike a member, once both know the same members."""
        if not self.is_logger or self.state != JOINED or not is_complete:
            return
        left = MemberEntry(peer, LEFT, leave.freshness)
        if self.roster.entry(peer) == left:
            if all(peer != admitted for _, admitted, _ in self.admitting):
                out.send.append(((peer,), LeaveAck(leave.freshness)))
        elif leave.members == self.roster.signature:
            self.roster.merge(left)
            self.admitting.append(
                (self.storage.write(MemberRecord(left), out), peer, leave.freshness)
            )
        else:
            out.send.extend(((peer,), part) for part in self.roster.digest(wants_answer=True))

    def on_goodbye(self, logger: Rank, goodbye: LeaveAck) -> None:
        """Struck, by a logger; once `copies` wrote it down, a lost disk does not bring it back."""
        if self.state != LEAVING or goodbye.freshness != self.freshness:
            return
        self.sponsors[logger] = None
        if len(self.sponsors) >= self.recipe.copies:
            self.state = NOT_JOINED
            self.deadline = NEVER
            self.roster.merge(self._entry(LEFT))

    def merge(self, entry: MemberEntry, out: Effects) -> None:
        """Somebody says something of a process; of itself each process alone knows."""
        if entry.pid == self.pid:
            if entry.freshness > self.freshness and self.state == JOINED:
                self.freshness = entry.freshness + 1
                self._announce(MEMBER, out)
        elif self.roster.merge(entry) and self.is_logger:
            self.storage.write(MemberRecord(entry), out)
