"""From processes that look for each other to one roster that never changes.

Guarantees: all who come out of it have the same roster, of exactly the members wanted; nobody is
in two.  A recorded datagram of an earlier process is never taken for a member: one is counted
only after it echoed a number drawn here, and a proposal must name this process's incarnation.
Idea: everyone says hello until it knows enough others; then the first of them by name proposes
a roster, and commits it when all in it have accepted.  Acceptance is a promise that only the
proposer can release, so there is one place where a roster is decided.  A proposer that crashes
in between leaves the others to time out: before there is a group there is nothing to lose.
An answer to a hello is a hello, padded to the same size, so spoofed requests gain nothing.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, TypeVar

import msgspec

from semcast.runtime.transport.addresses import PORT_MAX, Address, ip_literal
from semcast.terms.errors import RemoteProtocolError, SemcastError
from semcast.terms.ids import Lineage
from semcast.wire.frames import GREETING, HELLO, ROSTER, common, member_id, spoken

HELLO_BYTES: Final = 192
HELLO_PERIOD_S: Final = 0.1
CANDIDATE_TIMEOUT_S: Final = 2.0  # after which a candidate is taken to be gone
PROPOSAL_S: Final = 2.0
CANDIDATES_MAX: Final = 1024
BROADCAST_AFTER_RETRIES: Final = 10  # acceptances that the proposer did not answer

PROPOSE: Final = 0
ACCEPT: Final = 1
COMMIT: Final = 2
ABORT: Final = 3
COMPLETE: Final = 4


class GroupComplete(SemcastError):
    """The group has its members already, and its membership is fixed."""


class RosterEntry(msgspec.Struct, frozen=True, array_like=True):
    """One place in the roster."""

    name: str
    incarnation: int
    host: str
    port: int
    salt: int = 0  # of the process's sealer
    versions: tuple[int, int] = (GREETING, GREETING)  # of the wire: the lowest and the highest


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """Who is here; `echo` is the nonce of the hello that it answers, or 0.  `lineage` is that of
    the group with views that it is in, or 0.

    Later versions may append fields, and change none: hellos are what every version reads.
    """

    name: str
    digest: int
    nonce: int
    echo: int
    padding: bytes = b""
    versions: tuple[int, int] = (GREETING, GREETING)  # as in a seat
    lineage: Lineage = 0


class RosterStep(msgspec.Struct, frozen=True, array_like=True):
    """A step of the agreement on a roster, by the `number` its proposer gave it."""

    step: int
    number: int
    seats: tuple[RosterEntry, ...] = ()


class Envelope(NamedTuple):
    """What to send; to everyone who listens if there is no address."""

    to: Address | None
    kind: int
    body: bytes


class Candidate:
    """Somebody who said hello."""

    __slots__ = ("address", "heard_at", "incarnation", "is_confirmed", "name", "salt", "versions")

    def __init__(self, name: str, incarnation: int, address: Address, salt: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.address = address
        self.salt = salt
        self.versions = GREETING, GREETING
        self.heard_at = 0.0
        self.is_confirmed = False

    @property
    def seat(self) -> RosterEntry:
        """Its place in a roster."""
        return RosterEntry(self.name, self.incarnation, *self.address, self.salt, self.versions)


T = TypeVar("T", Hello, RosterStep)

_hello = msgspec.msgpack.Decoder(Hello)
_ballot = msgspec.msgpack.Decoder(RosterStep)
_encode = msgspec.msgpack.encode


class RosterAgreement:
    """Lives as long as the group, since late ones still have to be answered.

    Invariant: `roster` is set once; `promised` names the proposal it came from.
    """

    def __init__(
        self,
        own: RosterEntry,
        members: int,
        digest: int,
        rng: Random,
        peers: Mapping[str, Address] | None = None,
    ) -> None:
        """`peers` are the only names that may take part, and where they are."""
        self.own = own
        self.members = members
        self.digest = digest
        self.peers = peers
        self.nonce = rng.getrandbits(63) | 1
        self.number = rng.getrandbits(64)  # Numbers of proposals are drawn, so no two are alike.
        self.candidates: dict[int, Candidate] = {}  # by the number on frames
        self.mismatched: set[str] = set()  # those with other settings
        self.proposal: tuple[RosterEntry, ...] = ()  # the own one, while it is open
        self.proposed_at = 0.0
        self.accepted: set[str] = set()
        self.promised: tuple[int, int] | None = None  # proposer and number
        self.pending: tuple[RosterEntry, ...] = ()  # what was promised
        self.unanswered = 0
        self.roster: tuple[RosterEntry, ...] = ()
        self.deadline = 0.0

    def __repr__(self) -> str:
        known = {c.name: c.is_confirmed for c in self.candidates.values()}
        return f"RosterAgreement({self.own.name}, known={known}, roster={self.roster})"

    @property
    def found(self) -> list[str]:
        """The other members that were heard."""
        return sorted(c.name for c in self.candidates.values() if c.is_confirmed)

    @property
    def missing(self) -> list[str]:
        """Peers that were not heard, where they are known by name."""
        return sorted(set(self.peers or ()) - {self.own.name, *self.found})

    @property
    def lineage(self) -> Lineage:
        """The lineage of the group that this roster founds: the number of its proposal."""
        return self.promised[1] if self.promised is not None else self.number

    def on_time(self, now: float) -> list[Envelope]:
        """Say hello again, and press the agreement on."""
        if now < self.deadline or self.roster:
            return []
        self.deadline = now + HELLO_PERIOD_S
        self._drop_silent(now)
        out = [Envelope(to, HELLO, self._greeting(0)) for to in self._everywhere()]
        if self.promised is not None:
            out += self._remind()
        elif self.proposal and now - self.proposed_at > PROPOSAL_S:
            out += self.leave()
        elif self.proposal:
            waiting = [seat for seat in self.proposal if seat.name not in self.accepted]
            out += self._to_seats(waiting, PROPOSE, self.proposal)
        else:
            out += self._propose(now)
        return out

    def leave(self) -> list[Envelope]:
        """Give up the own proposal, and let those who accepted it go."""
        out = self._to_seats(self.proposal, ABORT)
        self.proposal = ()
        return out

    def _drop_silent(self, now: float) -> None:
        for sender, candidate in list(self.candidates.items()):
            if now - candidate.heard_at > CANDIDATE_TIMEOUT_S:
                del self.candidates[sender]

    def _everywhere(self) -> Sequence[Address | None]:
        if self.peers is None:
            return (None,)
        return [address for name, address in self.peers.items() if name != self.own.name]

    def _greeting(self, echo: int) -> bytes:
        return encode_hello(Hello(self.own.name, self.digest, self.nonce, echo))

    def on_hello(
        self,
        sender: int,
        incarnation: int,
        body: bytes,
        address: Address,
        now: float,
        salt: int = 0,
    ) -> list[Envelope]:
        """Somebody is here; raises RemoteProtocolError if it cannot be one of us."""
        hello = read_hello(body, sender, self.peers)
        if self.roster:
            return self._turn_away(hello, incarnation, address)
        if hello.digest != self.digest:
            if len(self.mismatched) < CANDIDATES_MAX:
                self.mismatched.add(hello.name)
            return []
        self.mismatched.discard(hello.name)
        candidate = self._candidate(hello.name, incarnation, address, salt)
        if candidate is None:
            return []
        candidate.heard_at, candidate.versions = now, hello.versions
        if hello.echo == self.nonce:
            candidate.is_confirmed = True
        if hello.echo == 0:
            return [Envelope(self.address_of(candidate), HELLO, self._greeting(hello.nonce))]
        return []

    def _turn_away(self, hello: Hello, incarnation: int, address: Address) -> list[Envelope]:
        if any(s.name == hello.name and s.incarnation == incarnation for s in self.roster):
            return []  # It will hear of the commit, or asks for it.
        return [Envelope(address, ROSTER, _encode(RosterStep(COMPLETE, hello.nonce)))]

    def _candidate(
        self, name: str, incarnation: int, address: Address, salt: int
    ) -> Candidate | None:
        sender = member_id(name)
        candidate = self.candidates.get(sender)
        if candidate is None and len(self.candidates) >= CANDIDATES_MAX:
            return None
        if candidate is None or incarnation > candidate.incarnation:
            candidate = self.candidates[sender] = Candidate(name, incarnation, address, salt)
        return candidate if candidate.incarnation == incarnation else None

    def address_of(self, candidate: Candidate | RosterEntry) -> Address:
        """Where somebody is to be reached."""
        if self.peers is not None:
            return self.peers[candidate.name]  # which may lead through a relay
        heard = self.candidates.get(member_id(candidate.name))
        if heard is not None and heard.incarnation == candidate.incarnation:
            return heard.address  # where it answers, whatever it is bound to
        assert isinstance(candidate, RosterEntry), "who is no seat was heard"
        return candidate.host, candidate.port

    def _propose(self, now: float) -> list[Envelope]:
        """The first by name, once it knows enough, proposes."""
        seats = [c.seat for c in self.candidates.values() if c.is_confirmed]
        chosen = tuple(sorted([self.own, *seats], key=lambda seat: seat.name)[: self.members])
        if len(chosen) < self.members or chosen[0] != self.own:
            return []
        if common(seat.versions for seat in chosen) is None:
            return []  # Two of them know that they cannot understand each other.
        self.number = (self.number + 1) % 2**64 or 1
        self.proposal, self.accepted, self.proposed_at = chosen, {self.own.name}, now
        self._commit_if_accepted()
        return self._to_seats(chosen, COMMIT if self.roster else PROPOSE, chosen)

    def on_roster_step(self, sender: int, incarnation: int, body: bytes) -> list[Envelope]:
        """A step of the agreement; raises GroupComplete, or RemoteProtocolError on nonsense."""
        ballot = _decode(_ballot, body)
        if ballot.step == PROPOSE:
            return self._on_proposal(sender, incarnation, ballot)
        if ballot.step == ACCEPT:
            return self._on_acceptance(sender, ballot)
        if ballot.step == COMMIT:
            self._on_commit(ballot)
        elif ballot.step == ABORT:
            if self.promised == (sender, ballot.number) and not self.roster:
                self.promised, self.pending = None, ()
        elif ballot.step == COMPLETE and ballot.number == self.nonce:
            self._on_complete(sender)
        return []

    def _on_complete(self, sender: int) -> None:
        """Whoever made a promise waits for the word of the one it was made to, but not for ever."""
        is_bound = (
            self.promised is not None
            and self.promised[0] != sender
            and self.unanswered <= BROADCAST_AFTER_RETRIES
        )
        if not self.roster and not is_bound:
            raise GroupComplete(
                f"join: the group has its {self.members} members, and {self.own.name!r} is not "
                "one of them or has been before; a fixed membership takes nobody in or back"
            )

    def _on_proposal(self, sender: int, incarnation: int, ballot: RosterStep) -> list[Envelope]:
        names = [seat.name for seat in ballot.seats]
        if names != sorted(set(names)) or len(names) != self.members:
            raise RemoteProtocolError(f"roster: {len(names)} seats, {self.members} wanted")
        first = ballot.seats[0]
        if (member_id(first.name), first.incarnation) != (sender, incarnation):
            raise RemoteProtocolError("roster: the first seat is not its proposer's")
        if self.peers is not None and not self.peers.keys() >= set(names):
            raise RemoteProtocolError("roster: somebody in it is not among the peers")
        if not all(ip_literal(seat.host) and 0 < seat.port <= PORT_MAX for seat in ballot.seats):
            raise RemoteProtocolError("roster: somebody in it has no address")
        seated = {(seat.name, seat.incarnation, seat.salt) for seat in ballot.seats}
        own = self.own
        if self.roster or (own.name, own.incarnation, own.salt) not in seated:
            return []
        out = self.leave()  # The first by name goes before.
        if self.promised not in (None, (sender, ballot.number)):
            return out
        self.promised, self.pending, self.unanswered = (sender, ballot.number), ballot.seats, 0
        return [*out, *self._remind()]

    def _remind(self) -> list[Envelope]:
        """Tell the proposer of the promise; if it stays silent, ask whoever may know more."""
        assert self.promised is not None
        proposer, number = self.promised
        self.unanswered += 1
        asked = self.pending
        if self.unanswered <= BROADCAST_AFTER_RETRIES:
            asked = tuple(seat for seat in asked if member_id(seat.name) == proposer)
        return self._to_seats(asked, ACCEPT, number=number)

    def _on_acceptance(self, sender: int, ballot: RosterStep) -> list[Envelope]:
        if not self.roster and not (self.proposal and ballot.number == self.number):
            return self._release(sender, ballot.number)
        seats = self.roster or self.proposal
        seat = next((s for s in seats if member_id(s.name) == sender), None)
        if seat is None:
            return []
        if self.roster:
            return self._to_seats([seat], COMMIT, self.roster, ballot.number)
        self.accepted.add(seat.name)
        self._commit_if_accepted()
        return self._to_seats(self.roster, COMMIT, self.roster) if self.roster else []

    def _release(self, sender: int, number: int) -> list[Envelope]:
        """It holds to a proposal that was given up; the word of that was lost."""
        candidate = self.candidates.get(sender)
        if candidate is None:
            return []
        body = _encode(RosterStep(ABORT, number))
        return [Envelope(self.address_of(candidate), ROSTER, body)]

    def _commit_if_accepted(self) -> None:
        if len(self.accepted) == self.members:
            self.roster, self.proposal = self.proposal, ()

    def _on_commit(self, ballot: RosterStep) -> None:
        if self.promised is not None and not self.roster and ballot.number == self.promised[1]:
            self.roster = self.pending

    def _to_seats(
        self,
        to: Sequence[RosterEntry],
        step: int,
        seats: tuple[RosterEntry, ...] = (),
        number: int | None = None,
    ) -> list[Envelope]:
        body = _encode(RosterStep(step, self.number if number is None else number, seats))
        others = (seat for seat in to if seat.name != self.own.name)
        return [Envelope(self.address_of(seat), ROSTER, body) for seat in others]


def encode_hello(hello: Hello) -> bytes:
    """The body of a hello, as large as its answer."""
    hello = msgspec.structs.replace(hello, versions=spoken())
    padding = HELLO_BYTES - len(_encode(hello))
    return _encode(msgspec.structs.replace(hello, padding=bytes(max(padding, 0))))


def read_greeting(body: bytes) -> Hello:
    """What such a body says; raises RemoteProtocolError if it is none."""
    if len(body) < HELLO_BYTES:
        raise RemoteProtocolError(f"hello: {len(body)} bytes, less than its answer has")
    return _decode(_hello, body)


def read_hello(body: bytes, sender: int, peers: Mapping[str, Address] | None) -> Hello:
    """What a hello says; raises RemoteProtocolError if nobody who may take part can say it."""
    hello = read_greeting(body)
    if member_id(hello.name) != sender:
        raise RemoteProtocolError("hello: the name is not the sender's")
    if peers is not None and hello.name not in peers:
        raise RemoteProtocolError(f"hello: {hello.name!r} is not among the peers")
    return hello


def _decode(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"not a greeting: {error}") from error
