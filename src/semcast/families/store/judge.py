"""Judges a run of the store: by the monitors, by whether every client is answered, and by whether
the answers are those of one server that never fails.

The last check needs no monitor: it executes the requests again, one after the other in the order
of the service, on a dictionary, and compares every answer, given by a server or taken by a client.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from semcast.families.case import AnyCase
from semcast.families.referee import Player
from semcast.families.store.script import command_of
from semcast.families.views.judge import ViewReferee
from semcast.service.replica_state import digest_of, encode_value
from semcast.service.store_messages import (
    Expertise,
    GroupMessage,
    QueryBatch,
    UpdateBatch,
    decode_group,
    entries_of,
)
from semcast.specs.expertise import CumulativeExpertise, MulticastUpdates, ToldExpertise
from semcast.specs.monitors import EventMonitor
from semcast.specs.pending import AnswersInTransit, PendingUpdates
from semcast.specs.replicated_data import Refinement
from semcast.specs.store import ReliableChannels, ReplyOnDisk, Truncation
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    CRASH,
    DELIVER,
    DISK,
    EXECUTE,
    GIVEN_UP,
    INSTALL,
    JOIN,
    ORDER,
    QUERY,
    REFUSE,
    REPLY,
    REQUEST,
    TAKEN,
    UPDATE,
    Event,
)
from semcast.terms.ids import Incarnation, Pid


def read(event: Event) -> ToldExpertise | MulticastUpdates | None:
    """What servers say in their group about updates."""
    if event.message is None or event.note == ORDER:
        return None
    message = _decoded(event.message.payload)
    if isinstance(message, Expertise):
        about = message.level, message.length, message.safe, message.has_state
        return ToldExpertise(*about, message.known)
    if isinstance(message, UpdateBatch):
        return _requests(event.message.payload)
    return None


@lru_cache(maxsize=64)
def _decoded(payload: bytes) -> GroupMessage:
    return decode_group(payload)


@lru_cache(maxsize=64)
def _requests(payload: bytes) -> MulticastUpdates:
    return [(client, number) for client, number, *_ in entries_of(payload)]


class Rotation:
    """Queries that were multicast in a view are answered in turn [VSD fig. 7]: those of its members
    that have a state, m of them, by rank; of the n-th query the one with rank n modulo m."""

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self._ranks: dict[int, tuple[Pid, ...]] = {}
        self._count: defaultdict[tuple[Incarnation, int], int] = defaultdict(int)
        self._turns: dict[tuple[Incarnation, int, Pid, int, int], int] = {}
        self._answered: defaultdict[int, dict[int, set[int]]] = defaultdict(dict)  # turn: ranks

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """The events it learns from."""
        return {INSTALL: self.on_install, DELIVER: self.on_deliver, REQUEST: self.on_request}

    def on_install(self, event: Event) -> None:
        """Learn who is in a view."""
        self._ranks[event.view] = event.members

    def on_deliver(self, event: Event) -> None:
        """Count the queries in a message."""
        if event.message is None:
            return
        message = _decoded(event.message.payload)
        if isinstance(message, QueryBatch):
            life = Incarnation(event.pid, event.inc)
            for client, number, *_ in message.queries:
                self._count[life, event.view] += 1
                key = life, event.view, event.sender, client, number
                self._turns[key] = self._count[life, event.view]

    def on_request(self, event: Event) -> None:
        """A server takes a query as its own."""
        life = Incarnation(event.pid, event.inc)
        turn = self._turns.get((life, event.view, event.peer, event.client, event.request))
        if turn is not None:  # A crash may have cut the delivery off.
            rank = self._ranks[event.view].index(event.pid)
            self._answered[event.view].setdefault(turn, set()).add(rank)

    def on_end(self) -> None:
        """Is there a number of servers that explains who answered?"""
        for view, answered in self._answered.items():
            sizes = range(1, len(self._ranks[view]) + 1)
            if not any(_is_in_turn(answered, size) for size in sizes):
                what = f"queries of view {view} were not answered in turn: {answered}"
                self._ledger.add("rotation", what[:300])


def _is_in_turn(answered: dict[int, set[int]], size: int) -> bool:
    """Whether each place in the turn belongs to one server, and a later place to a higher rank."""
    ranks: defaultdict[int, set[int]] = defaultdict(set)
    for turn, by in answered.items():
        ranks[turn % size] |= by
    if any(len(each) > 1 for each in ranks.values()):
        return False
    in_order = [next(iter(ranks[place])) for place in sorted(ranks)]
    return in_order == sorted(set(in_order))


class StoreReferee(ViewReferee):
    """Servers must come together as members of a partitionable group do; then all that clients have
    asked is answered.  Without a quorum that has its state, updates are refused, and only those
    clients may wait that have seen more than the servers have that are left."""

    def __init__(self, case: AnyCase) -> None:
        super().__init__(case)
        recipe = case.recipe
        self._channels = ReliableChannels(self.ledger)
        self._refinement = Refinement(self.ledger)
        self._rotation = Rotation(self.ledger)
        about = recipe.founders, recipe.has_quorum
        self._expertise = CumulativeExpertise(self.ledger, read, *about, durable=recipe.durable)
        self._pending = PendingUpdates(self.ledger, read)
        beside: list[EventMonitor] = [
            self._channels,
            self._refinement,
            self._rotation,
            self._expertise,
            self._pending,
            AnswersInTransit(self.ledger),
            Truncation(self.ledger, recipe.founders, recipe.tail_max, durable=recipe.durable),
        ]
        if recipe.durable:
            beside.append(ReplyOnDisk(self.ledger, recipe.has_quorum))
        self._placed: dict[int, Event] = {}  # by place, the first execution there
        self._answers: defaultdict[int, list[Event]] = defaultdict(list)  # by version
        self._stateful: set[Pid] = set()
        self._seen: defaultdict[Pid, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._levels: dict[tuple[int, int], int] = {}  # by request, of who answered it
        self._executed: defaultdict[Pid, int] = defaultdict(int)
        self._owes_updates = False  # a quorum is in a view that does not change any more
        for monitor in beside:
            self.monitors.add(monitor.handlers())
        own = {EXECUTE: self._on_execute, REPLY: self._on_reply, CRASH: self._on_amnesia}
        self.monitors.add({**own, REFUSE: self._on_refuse, JOIN: self._on_state})

    def _on_execute(self, event: Event) -> None:
        """It is executed again at the end."""
        self._stateful.add(event.pid)
        if event.note != QUERY:
            self._placed.setdefault(event.position, event)
            self._executed[event.pid] = event.position

    def _on_state(self, event: Event) -> None:
        """A server begins with a state, or got one."""
        self._executed[event.pid] = event.version

    def _on_reply(self, event: Event) -> None:
        self._answers[event.version].append(event)
        request = event.client, event.request
        level = self._levels.get(request, 0)
        if event.note == TAKEN:  # The client has seen so much, of a history of that level.
            seen = self._seen[event.pid]
            self._seen[event.pid] = max(seen[0], level), max(seen[1], event.version)
        else:
            self._levels[request] = max(level, self._expertise.expertise(event.pid)[0])

    def _on_refuse(self, event: Event) -> None:
        """A client is told that its update was not made, or that nobody knows: unless it withdrew
        the update or was forgotten, there was no quorum."""
        case = self.case
        is_for_want_of_quorum = not case.more.abandons and case.recipe.sessions_max > case.processes
        if event.note in (TAKEN, GIVEN_UP) and self._owes_updates and is_for_want_of_quorum:
            request = event.client, event.request
            self.found.append(f"liveness: update {request} was refused, and a quorum is there")

    def _on_amnesia(self, event: Event) -> None:
        """A crash may take the state with it."""
        if event.note == DISK or not self.case.recipe.durable:
            self._stateful.discard(event.pid)

    def verdict(self, players: Sequence[Player], quiet: bool) -> tuple[list[str], int]:
        """Also, what does not come of the requests before."""
        self.found += self._different_answers()
        self.found += self._waits()
        self._refinement.on_end()
        self._rotation.on_end()
        self._expertise.on_end()
        self._pending.on_end()
        if quiet and self.is_settled(players):
            self._channels.on_quiet([one.life for one in players if one.is_up])
        return super().verdict(players, quiet)

    def _waits(self) -> Iterator[str]:
        """Does an alive, slow server hold up the updates of the others?"""
        pace = self.case.more.pace
        if pace is None:
            return
        every = sorted(event.ts_ns / 1e9 for event in self._placed.values())
        times = [at for at in every if pace.start <= at < pace.end]
        silence_s = max(b - a for a, b in pairwise((pace.start, *times, pace.end)))
        if len(times) < pace.updates or silence_s > pace.silence_s:
            within = f"from {pace.start:g} to {pace.end:g} s"
            yield f"pace: {len(times)} updates {within}, none for {silence_s:.3f} s"

    def _different_answers(self) -> Iterator[str]:
        items: dict[bytes, bytes] = {}
        replies: dict[tuple[int, int], int] = {}
        for version in range(max((0, *self._placed, *self._answers)) + 1):
            placed = self._placed.get(version)
            if placed is None and version:
                yield f"replies: nobody executed update {version}, and later ones were"
                return
            if placed is not None and placed.note == UPDATE:
                request = placed.client, placed.request
                replies[request] = digest_of(encode_value(expected(items, *request)))
            for event in self._answers.get(version, ()):
                request = event.client, event.request
                digest = replies.get(request)
                if digest is None:
                    digest = digest_of(encode_value(expected(dict(items), *request)))
                if event.digest != digest:
                    name = f"{event.client}:{event.request}"
                    yield f"replies: request {name} was answered as by another past, at {version}"

    def owes_liveness(self, players: Sequence[Player]) -> bool:
        """Whether the servers that live can go on: with updates, or with queries at least."""
        stateful, can_update = self._able(players)
        return can_update or bool(stateful)

    def _able(self, players: Sequence[Player]) -> tuple[list[Pid], bool]:
        """Who is up and has a state, and whether they can update: all founders, or a quorum."""
        up = [one.pid for one in self._servers(players) if one.is_up]
        stateful = [pid for pid in up if pid in self._stateful]
        is_all = len(up) == self.case.more.servers
        return stateful, is_all or bool(self.case.recipe.has_quorum(stateful))

    def is_settled(self, players: Sequence[Player]) -> bool:
        """Whether the servers are in one view, and no client waits for them."""
        return super().is_settled(self._servers(players)) and not self._waiting(players)

    def is_complete(self, players: Sequence[Player], quiet: bool) -> bool:
        """Whether the servers are in one view."""
        return super().is_settled(self._servers(players))

    def speakers(self, players: Sequence[Player]) -> list[Player]:
        """Every client asks once more, if it can be answered."""
        if not self.owes_liveness(players):
            return []
        self._owes_updates = self._able(players)[1]
        up = [one for one in self._clients(players) if one.is_up]
        return [one for one in up if self._can_be_answered(one, players)]

    def unsettled(self, players: Sequence[Player]) -> str:
        """Who is where, or who waits."""
        waiting = [one.life for one in self._waiting(players)]
        beside = f"; not answered: {waiting}" if waiting else ""
        return super().unsettled(self._servers(players)) + beside

    def leftovers(self, players: Sequence[Player]) -> Iterator[str]:
        """What nobody should have."""
        yield from super().leftovers(self._servers(players))

    def _servers(self, players: Sequence[Player]) -> Sequence[Player]:
        return players[: self.case.more.servers]

    def _clients(self, players: Sequence[Player]) -> Sequence[Player]:
        return players[self.case.more.servers :]

    def _waiting(self, players: Sequence[Player]) -> list[Player]:
        """Who waits and should not."""
        waiting = [one for one in self._clients(players) if one.is_up and one.status.is_blocked]
        return [one for one in waiting if self._can_be_answered(one, players)]

    def _can_be_answered(self, client: Player, players: Sequence[Player]) -> bool:
        """Whether there is a quorum, or a server that has what the client has seen."""
        stateful, can_update = self._able(players)
        level, answered = self._seen[client.pid]
        last = client.status.version  # Openings count, too, which no trace has.
        if can_update or any(self._executed[pid] >= last for pid in stateful):
            return True
        has = map(self._expertise.expertise, stateful)
        return answered == last and any(at >= level and length >= last for at, length in has)


def expected(items: dict[bytes, bytes], client: int, number: int) -> Any:
    """What one server would answer; an update changes the items."""
    name, *rest = command_of(client, number)
    if name == "flush":
        return "unknown command 'flush'"
    key = rest[0]
    if len(key) > 1000 and len(rest) == 2:
        return "set: the key has more than 1024 bytes"
    if name == "get":
        return items.get(key)
    if name == "del":
        return items.pop(key, None) is not None
    if name == "set":
        if len(rest) != 2:
            return "set: 1 arguments, not 2"
        items[key] = rest[1]
        return True
    try:
        value = int(items.get(key, b"0")) + rest[1]
    except ValueError:
        return "incr: the value is not an integer"
    items[key] = str(value).encode()
    return value
