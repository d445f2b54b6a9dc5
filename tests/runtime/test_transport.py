"""Frames through real sockets: whole, in parts, refused and counted, held up by the kernel."""

import asyncio
import errno
import socket
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.runtime.transport import udp as module
from semcast.runtime.transport.udp import (
    DRAIN_MAX,
    GSO_BYTES_MAX,
    GSO_SEGMENTS_MAX,
    SOL_UDP,
    UDP_GRO,
    UNSENT_FRAMES_MAX,
    UdpTransport,
    gso_batches,
    split_gro,
)
from semcast.terms.errors import RemoteProtocolError
from semcast.wire.fragments import Reassembler
from semcast.wire.frames import (
    DATAGRAM,
    FRAGMENT,
    GOODBYE,
    HEADER_BYTES,
    HELLO,
    REPORT,
    TAG_BYTES,
    FrameRejected,
    member_id,
)
from semcast.wire.sealing import Opener, Sealer

ADA, BOB = member_id("ada"), member_id("bob")
FRAME_BYTES = 1400


class CountingSocket(socket.socket):
    """Counts reads, also those that find nothing."""

    reads = 0

    def recvmsg(self, *args):
        self.reads += 1
        return super().recvmsg(*args)

    def recvfrom(self, *args):
        self.reads += 1
        return super().recvfrom(*args)


def udp(host="127.0.0.1", kind=socket.socket):
    opened = kind(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    opened.setblocking(False)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    opened.bind((host, 0))
    return opened


class End:
    """A transport, and what came out of it, drain by drain."""

    def __init__(self, own, sock, incarnation=1, frame_bytes=FRAME_BYTES):
        self.transport = UdpTransport(
            Sealer("quotes", own, incarnation, None, salt=incarnation),
            Opener(Sealer("quotes", own, incarnation, None, salt=incarnation).identity, ()),
            sock,
            None,
            frame_bytes,
            Reassembler(1 << 20, 4 << 20),
        )
        self.address = sock.getsockname()
        self.drains = [[]]
        self.came = asyncio.Event()
        self.transport.on_frame = lambda opened, _source, _now: self.on_frame(opened)
        self.transport.on_drained = lambda _now: self.on_drained()
        self.transport.start()

    def on_frame(self, opened):
        self.drains[-1].append(opened)

    def on_drained(self):
        self.drains.append([])
        self.came.set()

    @property
    def received(self):
        return [opened for drain in self.drains for opened in drain]

    async def until(self, is_so):
        while not is_so(self):
            self.came.clear()
            await self.came.wait()


@pytest.fixture
def ends():
    """`ends()` makes two transports that can reach each other; call it in a running loop."""
    made = []

    def make(host="127.0.0.1", kind=socket.socket, **options):
        two = [End(own, udp(host, kind), **options) for own in (ADA, BOB)]
        made.extend(two)
        return two

    yield make
    for end in made:
        for sock in end.transport._listening:
            sock.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_body_arrives_as_it_was_whatever_its_size(ends, host):
    ada, bob = ends(host)
    room = FRAME_BYTES - HEADER_BYTES - TAG_BYTES
    assert ada.transport.body_bytes == room
    bodies = [b"", b"x", bytes(room), b"y" * (room + 1), bytes(range(256)) * 400]
    for body in bodies:
        ada.transport.send(DATAGRAM, body, [bob.address])
    await bob.until(lambda end: len(end.received) == len(bodies))
    assert [opened.body for opened in bob.received] == bodies
    assert {(o.kind, o.sender, o.incarnation) for o in bob.received} == {(DATAGRAM, ADA, 1)}
    assert bob.transport.datagrams_in == ada.transport.datagrams_out > 70
    assert bob.transport.bytes_in == ada.transport.bytes_out
    assert not bob.transport.discarded


async def test_no_frame_is_larger_than_allowed(ends):
    ada, _ = ends(frame_bytes=576)
    listener = udp()
    ada.transport.send(REPORT, bytes(10_000), [listener.getsockname()])
    sizes = [len(listener.recv(65_535)) for _ in range(ada.transport.datagrams_out)]
    assert max(sizes) <= 576
    listener.close()


async def test_a_body_in_parts_keeps_its_kind_and_parts_of_parts_are_refused(ends):
    ada, bob = ends()
    bob.on_frame = None
    kinds = []

    def on_frame(opened, _source, _now):
        kinds.append(opened.kind)
        if opened.kind == FRAGMENT:
            raise RemoteProtocolError("not from a member")

    bob.transport.on_frame = on_frame
    for kind in (HELLO, GOODBYE, FRAGMENT):
        ada.transport.send(kind, bytes(5000), [bob.address])
    await bob.until(lambda _: len(kinds) == 3)
    assert kinds == [HELLO, GOODBYE, FRAGMENT]
    assert bob.transport.discarded == {"malformed": 1}


async def test_a_wake_up_that_takes_long_ends_early(ends, monkeypatch):
    monkeypatch.setattr(module, "DRAIN_S", 0.0)
    ada, bob = ends(frame_bytes=100)
    for _ in range(3):
        ada.transport.send(DATAGRAM, b"", [bob.address])
    await bob.until(lambda end: len(end.received) == 3)
    assert [len(drain) for drain in bob.drains if drain] == [1, 1, 1]


async def test_one_wake_up_drains_many_but_not_without_bound(ends, monkeypatch):
    monkeypatch.setattr(module, "DRAIN_S", 60.0)
    ada, bob = ends(frame_bytes=100)
    count = DRAIN_MAX + 10
    for _ in range(count):
        ada.transport.send(DATAGRAM, b"", [bob.address])
    await bob.until(lambda end: len(end.received) == count)
    assert [len(drain) for drain in bob.drains if drain] == [DRAIN_MAX, 10]


async def test_a_slowly_turning_event_loop_still_drains_the_socket_each_turn(ends, monkeypatch):
    """Quiet was once inferred from the time between wake-ups: one datagram for each slow turn."""
    monkeypatch.setattr(module, "DRAIN_S", 60.0)
    ada, bob = ends(frame_bytes=100)
    count, turns = DRAIN_MAX + 10, 0
    for _ in range(count):
        ada.transport.send(DATAGRAM, b"", [bob.address])
    while len(bob.received) < count:
        time.sleep(0.001)  # an application that keeps the loop busy
        await asyncio.sleep(0)
        turns += 1
    assert turns <= 4


async def test_a_single_datagram_costs_no_failed_read(ends):
    ada, bob = ends(frame_bytes=100, kind=CountingSocket)
    for number in range(1, 4):
        ada.transport.send(DATAGRAM, b"", [bob.address])
        await bob.until(lambda end, number=number: len(end.received) == number)
    assert bob.transport._unicast.reads == 3


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 600, 1400, 30_000, 65_000]), st.integers(1, 70)),
        min_size=1,
        max_size=4,
    )
)
def test_frames_leave_in_trains_that_the_kernel_can_cut(runs):
    frames = [bytes(size) for size, count in runs for _ in range(count if size < 2000 else 3)]
    made = [list(train) for train in gso_batches(frames)]
    assert [frame for train in made for frame in train] == frames
    for train in made:
        assert len({len(frame) for frame in train[:-1]}) <= 1
        assert 0 < len(train[-1]) <= len(train[0])
        assert len(train) == 1 or sum(map(len, train)) <= GSO_BYTES_MAX
        assert len(train) <= GSO_SEGMENTS_MAX
        if len(train) > 1:
            told = [(SOL_UDP, UDP_GRO, len(train[0]).to_bytes(4, sys.byteorder))]
            assert split_gro(b"".join(train), told) == train
    neighbours = pairwise(made)
    assert all(
        len(then[0]) > len(train[0])
        or len(train[-1]) < len(train[0])
        or len(train) == GSO_SEGMENTS_MAX
        or (len(train) + 1) * len(train[0]) > GSO_BYTES_MAX
        for train, then in neighbours
    ), "no train could have been longer"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_many_bodies_go_to_the_kernel_at_once_and_arrive_one_by_one(ends, host):
    ada, bob = ends(host)
    bodies = [bytes([number]) * size for number, size in enumerate([300] * 100 + [299, 5, 700])]
    ada.transport.send_all(DATAGRAM, bodies, [bob.address])
    await bob.until(lambda end: len(end.received) == len(bodies))
    assert [opened.body for opened in bob.received] == bodies
    assert bob.transport.datagrams_in == ada.transport.datagrams_out == len(bodies)
    assert bob.transport.bytes_in == ada.transport.bytes_out


async def test_where_the_kernel_cannot_cut_frames_leave_one_by_one(ends, monkeypatch):
    monkeypatch.setattr(module, "UDP_SEGMENT", 0x7FFF)  # which no kernel knows
    ada, bob = ends()
    bodies = [bytes([number]) for number in range(5)]
    for _ in range(2):
        ada.transport.send_all(DATAGRAM, bodies, [bob.address])
    await bob.until(lambda end: len(end.received) == 10)
    assert [opened.body for opened in bob.received] == bodies * 2
    assert not ada.transport.discarded


async def test_what_is_discarded_is_counted_by_reason(ends):
    _, bob = ends()
    foreign = Sealer("games", ADA, 1, None)
    ours = Sealer("quotes", ADA, 1, None)
    again = ours.seal(DATAGRAM, b"once")
    version = bytearray(ours.seal(DATAGRAM, b""))
    version[2] += 1
    unknown = bytearray(ours.seal(DATAGRAM, b""))
    unknown[3] = 15
    frames = [b"", b"SC", b"G" * 100, foreign.seal(DATAGRAM, b""), again, again, version, unknown]
    frames.append(
        Sealer("quotes", BOB, 1, None, salt=1).seal(DATAGRAM, b"")
    )  # our own, not counted
    frames.append(Sealer("quotes", BOB, 2, None).seal(DATAGRAM, b""))
    frames.append(ours.seal(FRAGMENT, b"torn"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for frame in frames:
            stranger.sendto(frame, bob.address)
    await bob.until(lambda end: end.transport.datagrams_in == len(frames))
    assert bob.transport.discarded == {
        "short": 2,
        "foreign": 1,
        "group": 1,
        "replay": 1,
        "version": 1,
        "kind": 1,
        "namesake": 1,
        "malformed": 1,
    }
    assert [opened.body for opened in bob.received] == [b"once"]


async def test_an_error_of_whoever_handles_it_is_counted(ends):
    ada, bob = ends()

    def refuse(opened, _source, _now):
        raise (
            FrameRejected("stranger", "no member")
            if opened.body
            else RemoteProtocolError("nonsense")
        )

    bob.transport.on_frame = refuse
    for body in (b"", b"x"):
        ada.transport.send(DATAGRAM, body, [bob.address])
    await bob.until(lambda end: end.transport.datagrams_in == 2)
    assert bob.transport.discarded == {"stranger": 1, "malformed": 1}


async def test_what_cannot_be_sent_is_counted_and_the_rest_goes_on(ends):
    ada, bob = ends()
    nowhere = "127.0.0.1", 0
    ada.transport.send(DATAGRAM, b"still", [nowhere, bob.address])
    assert ada.transport.discarded == {"send error": 1}
    await bob.until(lambda end: end.received)


class RefusingSocket(socket.socket):
    """Sends nothing, for one reason after the other."""

    reasons = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EMSGSIZE, errno.ENOBUFS, errno.EPERM)

    def sendto(self, *_):
        reason, *self.reasons = self.reasons
        raise OSError(reason, "refused")


async def test_each_reason_why_the_kernel_sends_nothing_has_its_word(ends):
    """A firewall or a datagram over the limit must not look like a peer that is gone."""
    ada, bob = ends(kind=RefusingSocket)
    for _ in RefusingSocket.reasons:
        ada.transport.send(DATAGRAM, b"", [bob.address])
    assert ada.transport.discarded == {
        "unreachable": 2,
        "too large": 1,
        "no buffer": 1,
        "forbidden": 1,
    }


async def test_an_error_of_our_own_costs_one_datagram_and_one_traceback(ends, caplog):
    ada, bob = ends()
    handle = bob.transport.on_frame

    def stumble(opened, *args):
        if opened.body == b"bad":
            raise KeyError("a bug")
        handle(opened, *args)

    bob.transport.on_frame = stumble
    for body in (b"bad", b"bad", b"good"):
        ada.transport.send(DATAGRAM, body, [bob.address])
    await bob.until(lambda end: end.received)
    assert [opened.body for opened in bob.received] == [b"good"]
    assert bob.transport.discarded == {"faulty": 2}
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_what_the_kernel_does_not_take_waits_in_order_up_to_a_bound(place):
    """Datagrams between local sockets are the ones that the kernel pushes back."""
    sender, receiver = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    target = str(place / "receiver")
    receiver.bind(target)
    for sock in (sender, receiver):
        sock.setblocking(False)
    ada = End(ADA, sender)
    beyond = 7
    while not ada.transport._waiting:
        ada.transport.send(DATAGRAM, b"", [target])
    taken = ada.transport.datagrams_out
    for _ in range(UNSENT_FRAMES_MAX - 1 + beyond):
        ada.transport.send(DATAGRAM, b"", [target])
    assert ada.transport.discarded == {"unsent": beyond}
    opener = Opener(Sealer("quotes", BOB, 1, None).identity, ())
    arrived = 0
    while arrived < taken + UNSENT_FRAMES_MAX:
        try:
            opened = opener.open(receiver.recv(65_535), True, 0.0)
        except BlockingIOError:
            await asyncio.sleep(0)
        else:
            assert opened.sender == ADA
            arrived += 1
    assert ada.transport.datagrams_out == taken + UNSENT_FRAMES_MAX
    assert not asyncio.get_running_loop().remove_writer(sender.fileno()), "nothing waits any more"
    ada.transport.send(DATAGRAM, b"last", [target])
    assert opener.open(receiver.recv(65_535), True, 0.0).body == b"last"
    ada.transport.close()
    receiver.close()
