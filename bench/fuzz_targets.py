"""What comes in from outside, driven by arbitrary bytes: `fuzz.py` and `tests/wire/test_fuzz.py`.

Each target takes one input, a script of steps against a fresh receiver, and raises if a promise
was broken: only `RemoteProtocolError` may escape, what was refused changed nothing, and whatever
was believed keeps every bound.  A script is read as its bytes come; any bytes are a script.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from random import Random

import msgspec

from semcast.core.member import Member
from semcast.core.receiver import SKIPS_MAX
from semcast.core.recipe import Recipe
from semcast.runtime.membership.gathering import (
    HELLO_BYTES,
    GroupComplete,
    Hello,
    RosterAgreement,
    RosterEntry,
    RosterStep,
)
from semcast.runtime.transport.tcp import LENGTH, UNAUTHENTICATED_BYTES_MAX, TcpConnection
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import EVERYONE, SEQ_MAX
from semcast.terms.messages import (
    Data,
    Datagram,
    DataMessage,
    Excluded,
    Nack,
    PurgeNotice,
    SafetyGossip,
    StabilityGossip,
    Update,
    WindowEmpty,
)
from semcast.terms.messages import FrontierVote as Vote
from semcast.wire import GROUP_CODEC, encode
from semcast.wire.fragments import Reassembler, split
from semcast.wire.frames import DATAGRAM, FRAGMENT, HELLO, KINDS, member_id
from semcast.wire.sealing import Key, Opener, Sealer

RECIPES = [
    Recipe(
        members=3, buffer=8, buffer_bytes=4096, protocol=protocol, order=order, relation=relation
    )
    for protocol, order, relation in (
        ("s-rm", "fifo", "item"),
        ("s-rm", "item", "item"),
        ("s-rm", "causal", "item"),
        ("s-rm", "fifo", "list"),
        ("s-rm", "fifo", "bitmap"),
        ("s-rm", "fifo", "all"),
        ("s-sm", "fifo", "item"),
        ("s-sm", "fifo", "update-fin"),
        ("rm", "causal", "none"),
    )
]
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 8, 9, 63, 1 << 12, 1 << 16, 1 << 31, 1 << 62, SEQ_MAX - 1, SEQ_MAX)
NAMES = ("ada", "bob", "cyd")
IDS = [member_id(name) for name in NAMES]
CANDIDATES = (*NAMES, "abe")
PORTS = (7000, 0, -1, 1 << 16)
KEY = Key(1, "aes-256-gcm", bytes(32))
PART_BYTES = 200
SENT_MAX = 10_000  # datagrams that one input may set off
LOOPBACK = ("127.0.0.1", 7000)


class Script:
    """Bytes as choices.  Once they have run out every choice is the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def is_over(self) -> bool:
        return self._place >= len(self._data)

    def byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1] if self._place <= len(self._data) else 0

    def bytes(self) -> bytes:
        size = self.byte()
        self._place += size
        return self._data[self._place - size : self._place]

    def number(self) -> int:
        """One of those at which something ends, or near it."""
        choice = self.byte()
        return min(SEQ_MAX, NUMBERS[choice & 15] + (choice >> 4 & 7) * (choice >> 7))

    def several(self, most: int = 7) -> range:
        return range(self.byte() % (most + 1))


def said(script: Script) -> Datagram:
    """A datagram that the codec lets pass, or almost."""
    number = script.number
    kind = script.byte() % 8
    if kind <= 1:
        return Data(
            tuple(_message(script) for _ in script.several()),
            tuple(
                PurgeNotice(script.byte() % 4, number(), number(), number())
                for _ in script.several()
            ),
            number(),
            number(),
        )
    if kind == 2:
        ranges = tuple((number(), number()) for _ in script.several(70))
        return Nack(script.byte() % 4, ranges, number(), number())
    if kind in (3, 4):
        votes = tuple(
            Vote(script.byte() % 4, number(), number(), bytes((script.byte() % 16,)), number())
            for _ in script.several()
        )
        return StabilityGossip(votes) if kind == 3 else SafetyGossip(votes)
    if kind == 5:
        return WindowEmpty(script.byte() % 4, number())
    if kind == 6:
        return Excluded(script.byte() % 4)
    message = _message(script)
    many = tuple(
        msgspec.structs.replace(message, seq=min(SEQ_MAX, message.seq + n))
        for n in range(script.byte() & 63)
    )
    return Data(many)


def _message(script: Script) -> DataMessage:
    number = script.number
    shape = script.byte()
    covers: bytes | tuple[int, ...] = b""
    if shape & 1:
        covers = tuple(number() for _ in script.several())
    elif shape & 2:
        covers = script.bytes()
    deps = tuple((script.byte() % 4, number()) for _ in script.several(3)) if shape & 4 else ()
    return DataMessage(
        script.byte() % 4,
        number(),
        number() if shape & 8 else None,
        covers,
        bool(shape & 16),
        deps,
        bytes(number() % 5000) if shape & 32 else b"",
        "n" * (number() % 2000) if shape & 64 else "",
    )


class Live:
    """Members in memory: the first hears what the script says; the others, if up, answer it."""

    def __init__(self, recipe: Recipe, *, up: int, recording: bool) -> None:
        self.recipe = recipe
        self.members = [Member(recipe, rank, Random(rank)) for rank in range(up)]
        self.recording = recording
        self.now = 1.0
        self.sealers: dict[int, Sealer] = {}
        self.opener = Opener(Sealer("fuzz", IDS[0], 1, KEY, salt=1).identity, [KEY])
        self.opener.admit((number, 1, 1) for number in IDS)
        self.reassembly = Reassembler(1 << 16, 1 << 17, 8)
        self.numbered = 0
        obsoletes = (1,) if recipe.relation in ("list", "bitmap") else ()
        batch = [Update(b"x", item=1), Update(b"y", item=1, obsoletes=obsoletes)]
        for member in self.members[:2]:
            self.act(member.rank, lambda out, m=member: m.submit(batch, self.now, out))

    def act(self, rank: int, action: Callable[[Effects], object]) -> None:
        """One input of a member and all that follows from it, at once."""
        waiting: list[tuple[int, Callable[[Effects], object]]] = [(rank, action)]
        sent = 0
        while waiting:
            rank, action = waiting.pop(0)
            out = Effects(recording=self.recording)
            try:
                action(out)
            finally:
                check_effects(out, self.recipe)
                for audience, datagram in out.send:
                    body = encode(datagram)
                    up = range(len(self.members))
                    among = up if audience is EVERYONE else audience
                    targets = [to for to in up if to != rank and to in among]
                    waiting += [(to, self._hearing(to, rank, body)) for to in targets]
                sent += len(out.send)
                assert sent <= SENT_MAX, "one input keeps the group busy"

    def _hearing(self, rank: int, source: int, body: bytes) -> Callable[[Effects], object]:
        def hear(out: Effects) -> None:
            with suppress(RemoteProtocolError):  # What a liar told one, another need not believe.
                hand(self.members[rank], source, GROUP_CODEC.decode(body), self.now, out)

        return hear

    def seal(self, rank: int, kind: int, body: bytes) -> bytes:
        """The frame of another member."""
        if rank not in self.sealers:
            self.sealers[rank] = Sealer("fuzz", IDS[rank], 1, KEY, salt=1)
        return self.sealers[rank].seal(kind, body)

    def hear(self, frame: bytes) -> None:
        """A frame for the first member, from the socket to the machines."""
        opened = self.opener.open(frame, True, self.now)
        kind, body = opened.kind, opened.body
        if kind == FRAGMENT:
            whole = self.reassembly.add(opened.sender, body, self.now)
            assert self.reassembly.held_bytes <= 3 * (1 << 17)
            if whole is None:
                return
            kind, body = whole[0], whole[1:]
        if kind == DATAGRAM:
            rank, datagram, member = (
                IDS.index(opened.sender),
                GROUP_CODEC.decode(body),
                self.members[0],
            )
            self.act(0, lambda out: hand(member, rank, datagram, self.now, out))

    def state(self) -> str:
        """All that an input could change."""
        member = self.members[0]
        machines = (member, member.stability, member.safety, member.outbox)
        receiver, buffers, recovery = member.receiver, member.buffers, member.recovery
        rest = (receiver.notices, receiver.gaps, receiver.waiting, receiver.refused_next)
        counts = (buffers.delivered, buffers.skipped, buffers.bytes, buffers.held_by_sender)
        return repr((machines, rest, counts, recovery.holders, member.excluded, member.deadline))


def hand(member: Member, source: int, datagram: Datagram, now: float, out: Effects) -> None:
    """Give a datagram to a member, and raise what it makes of it."""
    member.on_datagrams(source, (datagram,), now, out)
    if out.refused:
        raise out.refused[0]


def check_effects(out: Effects, recipe: Recipe) -> None:
    """A handler's work is bounded, whatever the numbers in a datagram are."""
    assert len(out.send) <= 2000
    assert len(out.events or ()) <= recipe.members * (SKIPS_MAX + 1000)


def check_bounds(member: Member) -> None:
    """A member's memory is bounded."""
    recipe, buffers, receiver = member.recipe, member.buffers, member.receiver
    assert 0 <= buffers.messages <= recipe.buffer + recipe.members
    assert sum(buffers.held_by_sender) == buffers.messages >= len(buffers.queue)
    assert 0 <= buffers.bytes <= recipe.buffer_bytes + 3 * 5000
    for kept in buffers.store.streams.values():
        assert len(kept.holes) <= len(kept.buffer.held) + 1
        assert len(kept.buffer.unapplied) <= len(kept.buffer.held)
    assert all(len(notices) <= recipe.buffer for notices in receiver.notices.values())
    for sender, (frontier, known) in enumerate(zip(receiver.frontier, receiver.known, strict=True)):
        assert frontier <= known
        assert member.excluded or (frontier < known) == (sender in receiver.gaps)
    for detector in (member.stability, member.safety):
        assert all(voters >> recipe.members == 0 for voters in detector.voters)
    assert len(member.recovery.holders) <= recipe.members


def frames(data: bytes) -> None:
    """From the socket to the member: forged, mangled, in fragments, or said by one that lies."""
    script = Script(data)
    first = script.byte()
    live = Live(
        RECIPES[first % len(RECIPES)], up=3 if first & 64 else 1, recording=bool(first & 128)
    )
    while not script.is_over and not live.members[0].excluded:
        before = live.state()
        try:
            _step(live, script)
        except RemoteProtocolError:
            assert live.state() == before, "what was refused has changed something"
        check_bounds(live.members[0])
    for member in live.members[1:]:
        check_bounds(member)


def _step(live: Live, script: Script) -> None:
    choice = script.byte()
    action, rank = choice % 8, 1 + (choice >> 3) % 2
    member = live.members[0]
    if action == 0:
        live.hear(script.bytes())
    elif action == 1:
        live.hear(_mangled(live.seal(rank, DATAGRAM, encode(_true(live, script))), script))
    elif action == 2:
        live.hear(live.seal(rank, script.byte() % KINDS, script.bytes()))
    elif action in (3, 4):
        _tell(live, rank, script)
    elif action == 5:
        live.act(0, lambda out: member.on_ready(script.byte(), live.now, out))
    elif action == 6:
        live.act(0, lambda out: member.submit([Update(item=1)], live.now, out))
    else:
        live.now += script.byte() / 100
        live.act(0, lambda out: member.on_time(live.now, out))


def _tell(live: Live, rank: int, script: Script) -> None:
    body = msgspec.msgpack.encode(said(script))
    if len(body) <= PART_BYTES:
        live.hear(live.seal(rank, DATAGRAM, body))
        return
    live.numbered += 1
    for part in split(bytes((DATAGRAM,)) + body, PART_BYTES, live.numbered):
        live.hear(live.seal(rank, FRAGMENT, part))


def _true(live: Live, script: Script) -> Datagram:
    """Something that a member could say now."""
    seq = live.members[0].receiver.frontier[1] + 1
    return (
        Data((DataMessage(1, seq, 1), DataMessage(1, seq + 1, 1)), safe=seq - 1),
        Data((DataMessage(1, seq + 2, 1),), (PurgeNotice(1, seq, seq + 1, seq + 2),)),
        Nack(0, ((1, 2),), 4, 7),
        WindowEmpty(1, seq + 3),
    )[script.byte() % 4]


def _mangled(frame: bytes, script: Script) -> bytes:
    """A bit changed, or a piece cut off or put in."""
    place = script.byte() % len(frame)
    how = script.byte()
    if how & 1:
        return frame[:place] + bytes((frame[place] ^ (1 << (how >> 1) % 8),)) + frame[place + 1 :]
    return frame[:place] + script.bytes() + frame[place + how % 3 :]


def discovery(data: bytes) -> None:
    """Hellos and ballots of candidates: any body, from any of a few senders."""
    script = Script(data)
    shape = script.byte()
    peers = {name: ("127.0.0.1", 7000 + n) for n, name in enumerate(NAMES)} if shape & 1 else None
    own = RosterEntry(NAMES[shape >> 1 & 1], 5, *LOOPBACK)
    gathering = RosterAgreement(own, 3, 77, Random(1), peers)
    now = 0.0
    while not script.is_over:
        choice = script.byte()
        name = CANDIDATES[choice >> 3 & 3]
        sender, incarnation = member_id(name), 1 + (choice >> 5)
        before = repr((gathering, gathering.promised, gathering.proposal, gathering.accepted))
        out = []
        try:
            if choice % 4 == 0:
                now += 0.2
                out = gathering.on_time(now)
            elif choice % 4 == 1:
                body = _greeting(name, gathering, script)
                out = gathering.on_hello(sender, incarnation, body, LOOPBACK, now)
            else:
                out = gathering.on_roster_step(sender, incarnation, _ballot(gathering, script))
        except GroupComplete:
            return
        except RemoteProtocolError:
            after = repr((gathering, gathering.promised, gathering.proposal, gathering.accepted))
            assert before == after, "what was refused has changed something"
        assert len(out) <= 16
        for to, kind, body in out:
            assert kind != HELLO or len(body) <= HELLO_BYTES
            if to is not None:
                ip_address(to[0])
                assert 0 < to[1] < 1 << 16


def _greeting(name: str, gathering: RosterAgreement, script: Script) -> bytes:
    how = script.byte()
    if how & 1:
        return script.bytes().ljust(HELLO_BYTES, b"\0")
    echo = gathering.nonce if how & 2 else script.number()
    hello = Hello(name, 78 if how & 4 else 77, script.number(), echo, bytes(HELLO_BYTES))
    return msgspec.msgpack.encode(hello)


def _ballot(gathering: RosterAgreement, script: Script) -> bytes:
    how = script.byte()
    if how & 1:
        return script.bytes()
    number = (gathering.number, gathering.nonce, script.number(), script.number())[how >> 1 & 3]
    seats = tuple(_seat(script) for _ in script.several(4))
    return msgspec.msgpack.encode(RosterStep(how >> 3 & 7, number, seats))


def _seat(script: Script) -> RosterEntry:
    who, where = script.byte(), script.byte()
    hosts = ("127.0.0.1", "::1", "", "localhost")
    return RosterEntry(
        CANDIDATES[who & 3], 1 + (who >> 2 & 7), hosts[where & 3], PORTS[where >> 2 & 3]
    )


class _Pipe:
    """The far end of a connection, and whoever takes its frames."""

    def __init__(self, believed: bytes) -> None:
        self.believed = believed
        self.is_aborted = False
        self.taken: list[bytes] = []
        self.on_batch = lambda: None

    def on_frame(self, frame: bytes, _peer: object) -> bool:
        self.taken.append(frame)
        return frame.startswith(self.believed)

    def abort(self) -> None:
        self.is_aborted = True


def _cut(stream: bytes, frame_bytes_max: int, believed: bytes) -> Iterator[bytes]:
    """The frames of a stream, read all at once, as long as it is to be listened to."""
    is_trusted = False
    while len(stream) >= LENGTH.size:
        (length,) = LENGTH.unpack_from(stream)
        if length > (frame_bytes_max if is_trusted else UNAUTHENTICATED_BYTES_MAX):
            return
        frame, stream = stream[LENGTH.size :][:length], stream[LENGTH.size + length :]
        if len(frame) < length:
            return
        yield frame
        is_trusted = is_trusted or frame.startswith(believed)
        if not is_trusted:
            return


def framing(data: bytes) -> None:
    """A TCP stream in pieces of any size gives the frames that it gives in one."""
    script = Script(data)
    believed = b"\1"
    pipe = _Pipe(believed)
    frame_bytes_max = 100_000
    connection = TcpConnection(pipe, frame_bytes_max)  # type: ignore[arg-type]
    connection.transport = pipe  # type: ignore[assignment]
    stream = b""
    while not script.is_over and not pipe.is_aborted:
        how = script.byte()
        piece = script.bytes()
        if how & 1:
            piece = LENGTH.pack(len(piece)) + piece
        elif how & 2:
            piece = LENGTH.pack(script.number() & 0xFFFFFFFF) + piece
        stream += piece
        connection.data_received(piece)
        assert len(connection._received) <= frame_bytes_max + LENGTH.size
    assert pipe.taken == list(_cut(stream, frame_bytes_max, believed))


TARGETS = (frames, discovery, framing)


def one_input(data: bytes) -> None:
    """The first byte names the target, the rest is its script."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def seeds() -> Iterator[bytes]:
    """Inputs that go deep: every recipe, every action, every kind of datagram."""
    for number, scripts in enumerate((_of_frames(), _OF_DISCOVERY, _OF_FRAMING)):
        for script in scripts:
            yield bytes((number,)) + script


def _of_frames() -> Iterator[bytes]:
    for first in (*range(len(RECIPES)), *range(64, 64 + len(RECIPES)), 128, 131, 134):
        for kind in range(8):
            yield bytes((first, 3, kind, 2, *(n % 16 for n in range(kind, kind + 40)), 7, 20))
        yield bytes((first, 1, 0, 5, 3, 1, 1, 90, 1, 6, 5, 9, 7, 50, 2, 0, 6)) + encode(Excluded(1))
        for datagram in (
            Data((DataMessage(1, 3, 1),)),
            WindowEmpty(1, 9),
            Nack(0, ((1, 2),), 2, 1),
        ):
            body = encode(datagram)
            yield bytes((first, 2, DATAGRAM, len(body))) + body + bytes((5, 9, 6, 7, 50))


_OF_DISCOVERY = (
    bytes((0, 0, 9, 2, 1, 17, 2, 1, 0, 10, 24, 18, 24)),
    bytes((1, 0, 9, 2, 1, 17, 2, 1, 0, 10, 24, 18, 24)),
    bytes((2, 134, 0, 3, 16, 0, 17, 0, 18, 0, 0, 0, 130, 16)),
)
_OF_FRAMING = (bytes((1, 3, 1, 2, 3, 1, 2, 1, 9, 2, 2, 0)), bytes((2, 0, 11, 1, 1, 1)))
