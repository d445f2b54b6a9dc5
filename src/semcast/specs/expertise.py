"""The expertise of every server of a store in every view, derived from what was multicast, and
compared with what the servers say at every step [VSD def. 1, §5.2].

The paper's 𝒳(p, g) is recursive: the cumulative expertise of what the members of g had before, and
behind it the updates that p received in g.  Here it is a level and a length: a server of level g
has the first so many updates of `history(g)`, which is what the members of the primary view g
started from, followed by the updates that were multicast in g.

Judged: a server adopts, and tells, the expertise that 𝒳 says; it executes the updates of its
history in order; safe prefixes of any two servers agree; executed <= safe <= length (I1, I2); an
update is refused in minorities alone.
Departs (docs/decisions/0035-replicated-data.md): servers adopt when they have what they lacked;
those that lost their disk, or whose disk went back in time, count in no maximum.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from semcast.specs.history import EventHandler
from semcast.specs.service import RequestId
from semcast.specs.store import HasQuorum
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    ADOPT,
    APPEND,
    CRASH,
    DELIVER,
    DISK,
    EXECUTE,
    INSTALL,
    LOG,
    MULTICAST,
    OLD_DISK,
    QUERY,
    RECOVER,
    REFUSE,
    SAFE,
    Event,
)
from semcast.terms.ids import Rank
from semcast.terms.store import REFUSED, UNKNOWN

ViewNumber: TypeAlias = int

LACKS_SAFE: Final = "adopted, and does not take for safe what is safe at a member of the view"


class ToldExpertise(NamedTuple):
    """What a server multicasts in a new view; `known` has others that had more on their disks."""

    level: ViewNumber
    length: int
    safe: int
    has_state: bool
    known: Sequence[tuple[Rank, ViewNumber, int]] = ()


MulticastUpdates: TypeAlias = Sequence[RequestId]
Reading: TypeAlias = Callable[[Event], ToldExpertise | MulticastUpdates | None]
"""What the message of a `multicast` or `deliver` says, if it is one of these."""


@dataclass(slots=True)
class _Update:
    """A place of a history; None while nobody has shown which update it has."""

    request: RequestId | None = None

    def is_other(self, request: RequestId | None) -> bool:
        """Whether it is another update; learns it if it was not known."""
        self.request = self.request or request
        return request is not None and self.request != request


@dataclass(slots=True)
class _View:
    """`start` is how long the history is that its members begin with, None before that is known,
    and `safe` how much of it is safe at one of them."""

    members: tuple[Rank, ...] = ()
    claims: dict[Rank, ToldExpertise] = field(default_factory=dict)
    is_primary: bool = False
    level: ViewNumber = 0
    start: int | None = None
    safe: int = 0


@dataclass(slots=True)
class _Server:
    """What 𝒳 says of one server, and how far it has come."""

    level: ViewNumber = 0
    length: int = 0
    has_state: bool = False
    safe: int = 0
    executed: int = 0
    view: ViewNumber = 0
    is_in_place: bool = False
    arrived: int = 0  # updates, in this view
    owed_safe: int = 0  # how many have to be, once it has adopted
    entered_safe: int = 0
    on_disk: tuple[ViewNumber, int] = (0, 0)
    level_before: ViewNumber = 0  # at the end of the last life
    crashed: str | None = None  # how, until it has begun again
    doubts: list[tuple[str, Event]] = field(default_factory=list)


class CumulativeExpertise:
    """𝒳 along the events of one run.

    A crash may cut off the deliveries of the step that it ends.  So what is wrong in a step counts
    once the server has taken another one.
    """

    def __init__(
        self,
        ledger: ViolationLog,
        reading: Reading,
        founders: Sequence[Rank],
        has_quorum: HasQuorum,
        *,
        durable: bool,
    ) -> None:
        self._ledger = ledger
        self._reading = reading
        self._founders = frozenset(founders)
        self._has_quorum = has_quorum
        self._durable = durable
        self.checked = 0  # adoptions, executions, and times that something became safe
        self._servers: defaultdict[Rank, _Server] = defaultdict(_Server)
        self._views: defaultdict[ViewNumber, _View] = defaultdict(_View)
        self._histories: dict[ViewNumber, list[_Update]] = {0: []}
        self._agreed: list[_Update] = []  # what is safe somewhere

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            INSTALL: self.on_install,
            MULTICAST: self.on_multicast,
            DELIVER: self.on_deliver,
            ADOPT: self.on_adopt,
            APPEND: self.on_append,
            SAFE: self.on_safe,
            EXECUTE: self.on_execute,
            REFUSE: self.on_refuse,
            CRASH: self.on_crash,
            RECOVER: self.on_recover,
        }

    def expertise(self, pid: Rank) -> tuple[ViewNumber, int]:
        """𝒳 of the server in its present view: level and length."""
        server = self._servers[pid]
        return server.level, server.length

    # Views

    def on_install(self, event: Event) -> None:
        """newview: until it has adopted, a server has the expertise that it had before."""
        server = self._step(event)
        if server.crashed is not None:
            self._begin_without(server, event)
        self._views[event.view].members = event.members
        server.view, server.is_in_place, server.arrived = event.view, False, 0
        server.entered_safe = server.safe

    def on_multicast(self, event: Event) -> None:
        """gpsnd(x): a server says what it knows."""
        claim = self._reading(event)
        if not isinstance(claim, ToldExpertise):
            return
        server, view = self._step(event), self._views[event.view]
        self.checked += 1
        if (claim.level, claim.length, claim.has_state) != self._known(server):
            self._doubt(event, f"told {claim[:4]}, and has {self._known(server)}")
        if not server.entered_safe <= claim.safe <= server.safe:
            self._doubt(event, f"told that {claim.safe} updates are safe, of {server.safe}")
        level, length, has_state = self._known(server)
        view.claims[event.pid] = ToldExpertise(level, length, claim.safe, has_state, claim.known)
        if view.claims.keys() == set(view.members):
            self._unite(event.view, view)

    @staticmethod
    def _known(server: _Server) -> tuple[ViewNumber, int, bool]:
        return server.level, server.length, server.has_state

    def _unite(self, number: ViewNumber, view: _View) -> None:
        """max_X over the members that count [VSD def. 1]."""
        claims = view.claims
        counting = {pid for pid in claims if self._counts(pid, claims)}
        is_quorum = self._has_quorum(counting)
        view.is_primary = is_quorum or claims.keys() == self._founders
        core = counting if is_quorum or not view.is_primary else set(claims)
        if not core:
            return
        view.level = max(claims[pid].level for pid in core)
        view.start = max(claims[pid].length for pid in core if claims[pid].level == view.level)
        view.safe = max(claims[pid].safe for pid in core)
        if view.is_primary:
            self._histories[number] = self._histories[view.level][: view.start]

    @staticmethod
    def _counts(pid: Rank, claims: Mapping[Rank, ToldExpertise]) -> bool:
        """Whether it has a state, and nobody present knows that it had more on its disk."""
        had = [
            (level, length) for one in claims.values() for p, level, length in one.known if p == pid
        ]
        mine = claims[pid]
        return mine.has_state and max(had, default=(0, 0)) <= (mine.level, mine.length)

    def on_adopt(self, event: Event) -> None:
        """The server has the expertise of its view, or begins with that of its disk."""
        server, level, length = self._step(event), int(event.note), event.position
        self.checked += 1
        if not event.view:
            self._begin(server, level, length, event)
            return
        view = self._views[event.view]
        if view.start is None:
            self._doubt(event, f"adopted level {level} before the expertise of all was there")
            return
        expected = event.view if view.is_primary else view.level
        history = self._histories[expected]
        end = len(history) if view.is_primary else view.start
        if level != expected or not view.start <= length <= end:
            what = f"adopted {length} updates of level {level}"
            self._doubt(event, f"{what}, and the view has {view.start} of level {expected}")
            return
        arrived = view.start + server.arrived
        server.level, server.length = level, max(length, arrived if view.is_primary else 0)
        server.has_state = server.is_in_place = True
        if server.safe > server.length:
            self._doubt(event, f"adopted {server.length} updates, and {server.safe} were safe")
        self._agree(server, 0, min(server.safe, server.length), event)
        if server.safe < view.safe:  # It is not, until it says so in the same step.
            server.owed_safe = view.safe
            self._doubt(event, LACKS_SAFE)

    def _begin(self, server: _Server, level: ViewNumber, length: int, event: Event) -> None:
        """A life begins with what was on disk: at least what was known to be there, at most what
        was written.  The step that a crash ended may have written more than the trace has."""
        history, how = self._histories.get(level), server.crashed
        server.crashed = None
        if history is None or level > server.level_before:
            self._doubt(event, f"begins with level {level}, and had {server.level_before}")
            return
        if not self._durable or how == DISK:
            self._doubt(event, f"begins with {length} updates, and its disk was lost")
        elif how != OLD_DISK and (level, length) < server.on_disk:
            self._doubt(event, f"begins with {(level, length)}, {server.on_disk} was on its disk")
        history += (_Update() for _ in range(length - len(history)))
        server.level, server.length, server.has_state = level, length, True
        server.on_disk = level, length

    def _begin_without(self, server: _Server, event: Event) -> None:
        """It has said nothing of a state."""
        if self._durable and not server.crashed and server.on_disk > (0, 0):
            self._doubt(event, f"begins without a state, {server.on_disk} was on its disk")
        server.crashed, server.on_disk = None, (0, 0)

    # Updates

    def on_deliver(self, event: Event) -> None:
        """gprcv(c, u): the next updates of the view."""
        updates = self._reading(event)
        if updates is None or isinstance(updates, ToldExpertise):
            return
        server, view = self._step(event), self._views[event.view]
        if view.start is None or not view.is_primary:
            self._doubt(event, f"updates were multicast in view {event.view}, which is not primary")
            return
        history = self._histories[event.view]
        for request in updates:
            place = view.start + server.arrived
            server.arrived += 1
            if place == len(history):
                history.append(_Update(request))
            elif history[place].is_other(request):
                self._doubt(event, f"received {request} at {place + 1}, others another update")
        if server.is_in_place:
            server.length = max(server.length, view.start + server.arrived)

    def on_append(self, event: Event) -> None:
        """So many updates are on its disk."""
        server = self._step(event)
        if event.position > server.length:
            self._doubt(event, f"has {event.position} updates on disk of {server.length}")
        server.on_disk = server.level, event.position

    def on_safe(self, event: Event) -> None:
        """I1 and I2: so many updates are safe; they are in its history, and at all the same."""
        if event.note != LOG:
            return
        server, safe = self._step(event), event.position
        self.checked += 1
        if safe > server.length:
            self._doubt(event, f"takes {safe} updates for safe, and has {server.length}")
        self._agree(server, min(server.safe, safe), min(safe, server.length), event)
        server.safe = safe
        if safe >= server.owed_safe:
            server.doubts = [each for each in server.doubts if each[0] != LACKS_SAFE]

    def _agree(self, server: _Server, start: int, end: int, event: Event) -> None:
        """What is safe here from `start` to `end` is what is safe elsewhere."""
        history, agreed = self._histories[server.level], self._agreed
        for place in range(start, min(end, len(agreed))):
            one, other = history[place], agreed[place]
            if one is not other and one.is_other(other.request):
                what = f"takes {one.request} for safe at {place + 1}, elsewhere {other.request} is"
                self._doubt(event, what)
                return
            other.request = one.request
        agreed += history[len(agreed) : end]

    def on_execute(self, event: Event) -> None:
        """update(c, u): the next of its history, if that is safe."""
        if event.note == QUERY:
            return
        server, place = self._step(event), event.position
        self.checked += 1
        if place > server.safe:
            self._doubt(event, f"executed update {place}, and {server.safe} are safe")
        if place > server.length:
            self._doubt(event, f"executed update {place}, and has {server.length}")
        elif self._histories[server.level][place - 1].is_other((event.client, event.request)):
            self._doubt(event, f"executed another update at {place} than its history has")

    def on_refuse(self, event: Event) -> None:
        """An update that cannot be multicast: not so in a primary view."""
        if event.note in (REFUSED, UNKNOWN):
            self._step(event)
            self.checked += 1
            if self._views[event.view].is_primary:
                request = event.client, event.request
                self._doubt(event, f"refused {request} in view {event.view}, which is primary")

    # Lives

    def on_crash(self, event: Event) -> None:
        """What it did in its last step may be cut off."""
        server = self._servers[event.pid]
        server.doubts.clear()
        self._end(server, event.note)

    def on_recover(self, event: Event) -> None:
        """It begins again, with what its disk holds; `adopt` says what that is."""
        server = self._servers[event.pid]
        if server.crashed is None:  # It was put out of its group.
            self._end(server, "")
        server.level = server.length = server.safe = 0
        server.has_state = server.is_in_place = False

    @staticmethod
    def _end(server: _Server, how: str) -> None:
        """A life is over.  If it did not begin yet, the one before counts, and the worse crash."""
        if server.crashed is None:
            server.level_before, server.crashed = server.level, how
        elif DISK in (how, server.crashed):
            server.crashed = DISK
        else:
            server.crashed = server.crashed or how

    def on_end(self) -> None:
        """Nobody crashed after that."""
        for server in self._servers.values():
            self._settle(server)

    def _step(self, event: Event) -> _Server:
        server = self._servers[event.pid]
        if server.doubts and server.doubts[-1][1].ts_ns < event.ts_ns:
            self._settle(server)
        return server

    def _settle(self, server: _Server) -> None:
        for what, about in server.doubts:
            self._ledger.add("expertise", f"process {about.pid} {what}", about)
        server.doubts.clear()

    def _doubt(self, event: Event, what: str) -> None:
        self._servers[event.pid].doubts.append((what, event))
