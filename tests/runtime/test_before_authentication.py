"""Frames that anybody can make, without the key: they are counted, and decide nothing.

Every branch that a frame reaches before it is authenticated is gone through while a member joins.
"""

import ast
import asyncio
import itertools
import signal
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import semcast
from semcast.runtime.membership.name_probe import PROBES, NameProbe
from semcast.runtime.resources import MemberResources
from semcast.runtime.storage import keyring
from semcast.runtime.storage.keyring import new_key
from semcast.terms.errors import RemoteProtocolError
from semcast.wire.frames import (
    DATAGRAM,
    HEADER_BYTES,
    HELLO,
    KINDS,
    MULTICAST,
    UDP,
    FrameHeader,
    group_id,
    member_id,
    pack,
)
from semcast.wire.sealing import UNKNOWN_SENDERS_BURST, Key, Sealer

WIRE = Path(semcast.__file__).parent / "wire"
PERIOD_S = 1 / 80
PATIENCE_S = 60.0
AFTER = {"namesake", "clone"}  # words that a frame gets only once it is authenticated
LOOPBACK = {"interface": "127.0.0.1"}


def forged_header(group, name, incarnation, key=1, kind=DATAGRAM, sender=None):
    """The issue's frame: a header alone, which anybody can write."""
    number = member_id(name) if sender is None else sender
    return pack(FrameHeader(kind, UDP, key, group_id(group), number, incarnation, 1, 1))


def changed(frame, place, value):
    return frame[:place] + bytes((value,)) + frame[place + 1 :]


class Forger:
    """What an attacker knows: the names, the group, the key's number, and what is on the wire."""

    def __init__(self, group, key, equipments):
        self.group = group
        self.key = key
        self.equipments = equipments
        self._count = itertools.count(2**62)

    def of(self, name):
        """A sealer with this name and the key's number, but not the key."""
        false = Key(self.key.id, self.key.cipher, bytes(32))
        return Sealer(self.group, member_id(name), next(self._count), false)

    def frames(self, word):
        """Frames that are refused with this word."""
        header = forged_header(self.group, "b", next(self._count))
        if word == "short":
            return [header[:-1], b""]
        if word == "foreign":
            return [changed(header, 0, 0)]
        if word == "version":
            return [changed(header, 2, 9)]
        if word == "kind":
            return [changed(header, 3, KINDS), changed(header, 3, 15 << 4)]
        if word == "group":
            return [forged_header("games", "b", next(self._count))]
        if word == "key":
            return [forged_header(self.group, name, next(self._count)) for name in "ab"]
        if word == "clear":
            return [forged_header(self.group, name, next(self._count), key=0) for name in "ab"]
        if word == "forged":
            return [self.of(name).seal(kind, b"x") for name in "ab" for kind in (HELLO, DATAGRAM)]
        if word == "flood":
            numbers = range(UNKNOWN_SENDERS_BURST // 8)
            return [
                forged_header(self.group, "", 1, self.key.id, HELLO, next(self._count))
                for _ in numbers
            ]
        if word == "replay":  # of an incarnation before the one that is known
            return [forged_header(self.group, name, 1, self.key.id) for name in "ab"]
        if word == "own":
            return [
                changed(resources.sealer.seal(DATAGRAM, b"x"), -1, 0)
                for resources in self.equipments
            ]
        if word == "stranger":  # to a group that admitted its members
            return [forged_header(self.group, "z", 1, self.key.id)]
        raise AssertionError(f"no frame is refused with {word}")


WORDS = [
    "short",
    "foreign",
    "version",
    "kind",
    "group",
    "own",
    "key",
    "clear",
    "stranger",
    "replay",
    "flood",
    "forged",
]


def test_every_word_of_the_wire_is_gone_through():
    """A branch that is added before authentication fails here until it has a case."""
    found = set()
    for path in WIRE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FrameRejected":
                words = [one.value for one in node.args[:1] if isinstance(one, ast.Constant)]
                found |= {word for word in words if isinstance(word, str)}
    assert found == {*WORDS} | AFTER


@pytest.fixture
def ring(place):
    """The path of a key ring, and its key."""
    path, key = place / "ring.toml", new_key()
    keyring.edit(path, lambda _: keyring.KeyRing((key,), key))
    return path, key


@pytest.fixture
def equipments(monkeypatch):
    """What the members of this test have open, in the order they started."""
    opened = []
    opening = MemberResources.open

    async def noted(self, incarnation):
        opened.append(self)
        await opening(self, incarnation)

    monkeypatch.setattr(MemberResources, "open", noted)
    return opened


@asynccontextmanager
async def storm(forge, ports):
    """About 80 batches of frames a second to each port, until the block ends."""

    async def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            while True:
                for frame, port in itertools.product(forge(), ports):
                    attacker.sendto(frame, ("127.0.0.1", port))
                await asyncio.sleep(PERIOD_S)

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def counted(equipments, word):
    return sum(resources.transport.discarded[word] for resources in equipments)


@pytest.mark.parametrize("word", WORDS)
async def test_a_member_joins_whatever_is_forged(
    word, crowd, join, free_ports, ring, equipments, quotes
):
    path, key = ring
    ports = free_ports(2)
    forger = Forger(quotes, key, equipments)
    options = [{"bind": f"127.0.0.1:{port}", "key": path, **LOOPBACK} for port in ports]
    if word == "stranger":  # Only a fixed membership turns strangers away unread.
        async with storm(lambda: forger.frames(word), ports):
            groups = await asyncio.gather(
                *(join(n, members=2, **o) for n, o in zip("ab", options, strict=True))
            )
            while not counted(equipments, word):
                await asyncio.sleep(PERIOD_S)
        await asyncio.gather(*(group.close() for group in groups))
        return
    async with crowd() as here:
        await here.add("a", members=1, **options[0])
        async with storm(lambda: forger.frames(word), ports):
            b, _ = await here.add("b", **options[1])
            while word != "own" and not counted(equipments, word):
                await asyncio.sleep(PERIOD_S)
        assert b.members == ("a", "b")
        asked = equipments[1]._prober._counters[MULTICAST]
        assert asked == PROBES, "it asked once whether its name is in use, and went on"
        assert not counted(equipments, "namesake")


async def test_recordings_of_the_last_process_do_not_keep_the_next_out(
    crowd, free_ports, ring, equipments
):
    """They are authentic; but nobody answers."""
    port = free_ports(1)[0]
    options = {"key": ring[0], **LOOPBACK}
    async with crowd() as here:
        (_a, one), (b, _), _ = await here.found("abc", **options)
        recorded = []
        transmit = b._driver._channel.transport._transmit
        b._driver._channel.transport._transmit = lambda frame, target: (
            recorded.append(frame),
            transmit(frame, target),
        )
        for number in range(400):
            await b.multicast(b"%d" % number, item=f"{number}")
            await asyncio.sleep(0)
        here.crash(b)
        await one.until_members("a", "c")
        replayed = iter(recorded)
        async with storm(lambda: [next(replayed, b"")], [port]):
            again, _ = await here.add("b", members=3, bind=f"127.0.0.1:{port}", **options)
        assert set(again.members) == {"a", "b", "c"}
        assert equipments[-1].transport.discarded["namesake"], "they were believed, as recordings"
        assert equipments[-1]._prober._counters[MULTICAST] == PROBES


def test_a_probe_is_answered_by_its_name_alone():
    asking, other, namesake = NameProbe("b", 5), NameProbe("a", 6), NameProbe("b", 7)
    question = asking.question()
    assert other.on_probe(question) is None
    assert asking.on_probe(question) is None, "our own question came back"
    answer = namesake.on_probe(question)
    assert answer is not None
    assert len(answer) == len(question), "a spoofed question gains nothing"
    assert namesake.on_probe(answer) is None
    assert asking.on_probe(answer) is None
    assert (asking.answers, namesake.answers) == (1, 0)
    assert NameProbe("b", 8).on_probe(answer) is None, "an answer to an earlier question"
    with pytest.raises(RemoteProtocolError):
        asking.on_probe(b"")


MEMBER = """
import sys
from semcast import sync

group, name, key, port, members = sys.argv[1:]
with sync.join(group, name=name, protocol="s-vsm", members=int(members), key=key, control=False,
               interface="127.0.0.1", bind=f"127.0.0.1:{port}", join_timeout=60) as joined:
    print("in", flush=True)
    for event in joined.events():
        print(",".join(joined.view.members), flush=True)
"""


class Member:
    """A process that joins and prints every view."""

    def __init__(self, *arguments):
        script = [sys.executable, "-W", "error", "-c", MEMBER, *map(str, arguments)]
        self.process = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)

    def until(self, line):
        assert self.process.stdout is not None
        watchdog = threading.Timer(PATIENCE_S, self.process.kill)
        watchdog.start()
        found = any(said.strip() == line for said in self.process.stdout)
        watchdog.cancel()
        assert found, f"{line!r} was not said"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def test_a_process_comes_back_under_eighty_forged_frames_a_second(quotes, ring, free_ports):
    """The issue's attack, on real processes: headers with the name of the one that comes back."""
    ports = free_ports(3)
    members = [Member(quotes, *each, 3) for each in zip("acb", [ring[0]] * 3, ports, strict=True)]
    over = threading.Event()

    def attack():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            for number in itertools.count():
                frame = forged_header(quotes, "b", 2**62 + number, ring[1].id)
                assert len(frame) == HEADER_BYTES
                attacker.sendto(frame, ("127.0.0.1", ports[-1]))
                if over.wait(PERIOD_S):
                    return

    attacking = threading.Thread(target=attack)
    try:
        for member in members:
            member.until("in")
        members.pop().kill()
        attacking.start()
        members.append(Member(quotes, "b", ring[0], ports[-1], 3))
        members[-1].until("in")
    finally:
        over.set()
        for member in members:
            member.kill()
        if attacking.is_alive():
            attacking.join()
