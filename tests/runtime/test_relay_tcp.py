"""Connections through the relay: between real sockets, and one end with a transport of paper."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from semcast.faults import Constant, Link, Links, OneWayCut, Uniform
from semcast.fleet import relay_streams as relay_tcp
from semcast.fleet.relay import Relay
from semcast.fleet.relay_streams import RelayConnections, RelayCounts, RelayEnd, whole_frames
from semcast.fleet.timer_queue import TimerQueue
from semcast.wire import frames

DEADLINE_S = 60
NOW = Link(latency=Constant(0.0))


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its clock can be put forward."""

    skipped_s = 0.0

    def time(self):
        return super().time() + self.skipped_s

    def skip(self, seconds):
        self.skipped_s += seconds


def run(scenario):
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(asyncio.wait_for(scenario, 10 * DEADLINE_S))


def record(sender, body=b""):
    """A frame behind its length."""
    header = frames.FrameHeader(
        frames.DATAGRAM, frames.TCP, 0, 1, frames.member_id(sender), 1, 1, 1
    )
    frame = frames.pack(header) + body
    return len(frame).to_bytes(4, "little") + frame


class Wire:
    """One end of a connection, as a member has it."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    def write(self, data):
        self._writer.write(data)

    async def read(self, data):
        """The next bytes are these."""
        async with asyncio.timeout(DEADLINE_S):
            assert await self._reader.readexactly(len(data)) == data

    async def end(self):
        """Nothing more comes."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                assert await self._reader.read() == b""

    async def close(self):
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Net:
    """A relay in front of a, who calls, b, who listens, and c, who does neither."""

    def __init__(self):
        self.wires = []
        self._accepted = asyncio.Queue()

    async def start(self, link, faults):
        self._server = await asyncio.start_server(
            lambda *ends: self._accepted.put_nowait(ends), "127.0.0.1", 0
        )
        self.b = self._server.sockets[0].getsockname()
        members = {"a": ("127.0.0.1", 1), "b": self.b, "c": ("127.0.0.1", 2)}
        self.relay = Relay(members, link, faults)
        self._fronts = await self.relay.start()
        self.relay.start_faults()

    def _wire(self, *ends):
        self.wires.append(Wire(*ends))
        return self.wires[-1]

    async def call(self, name="b"):
        return self._wire(*await asyncio.open_connection(*self._fronts[name]))

    async def accepted(self):
        return self._wire(*await asyncio.wait_for(self._accepted.get(), DEADLINE_S))

    async def connect(self):
        """Both ends of a connection from a to b, each heard at the other."""
        a = await self.call()
        a.write(record("a", b"first"))
        b = await self.accepted()
        await b.read(record("a", b"first"))
        b.write(record("b", b"answer"))
        await a.read(record("b", b"answer"))
        return a, b

    async def close(self):
        await self.relay.close()
        for wire in self.wires:
            await wire.close()
        self._server.close()


@asynccontextmanager
async def relayed(link=NOW, faults=()):
    net = Net()
    await net.start(link, faults)
    try:
        yield net
    finally:
        await net.close()


def test_frames_pass_both_ways():
    async def scenario():
        async with relayed() as net:
            a, b = await net.connect()
            large = record("a", bytes(1 << 20))
            a.write(large)
            await b.read(large)
            assert net.relay.counts.frames == 3
            assert net.relay.counts.connections == 1
            assert net.relay.counts.closed == {}

    run(scenario())


def test_frames_keep_their_order_whatever_their_latencies():
    async def scenario():
        async with relayed(Link(latency=Uniform(0.0, 0.05), loss=1.0, duplicate=1.0)) as net:
            a, b = await net.connect()
            sent = [record("a", b"%d" % number) for number in range(20)]
            for one in sent:
                a.write(one)
                await asyncio.sleep(0)
            for one in sent:
                await b.read(one)

    run(scenario())


def test_frames_are_late_by_the_latency_of_their_link():
    def link(source, destination):
        return Link(latency=Constant(0.05 if source == 0 else 0.0))

    async def scenario():
        async with relayed(link) as net:
            a, b = await net.connect()
            sent_at = asyncio.get_running_loop().time()
            a.write(record("a"))
            await b.read(record("a"))
            assert asyncio.get_running_loop().time() - sent_at >= 0.05

    run(scenario())


@pytest.mark.parametrize(("source", "destination"), [(0, 1), (1, 0)])
def test_a_cut_closes_connections_and_those_tried_during_it(source, destination):
    async def scenario():
        skip = asyncio.get_running_loop().skip
        async with relayed(faults=[OneWayCut(20, 40, source, destination)]) as net:
            a, b = await net.connect()
            skip(20)
            await a.end()
            await b.end()
            assert net.relay.counts.closed == {"cut": 1}
            again = await net.call()
            again.write(record("a"))
            await again.end()
            assert net.relay.counts.closed == {"cut": 2}
            other = await net.call()  # c is on no side of it
            other.write(record("c"))
            await (await net.accepted()).read(record("c"))
            skip(20)
            await net.connect()

    run(scenario())


@pytest.mark.parametrize(
    ("to", "data", "reason"),
    [
        ("b", record("nobody"), "stranger"),
        ("b", record("b"), "stranger"),
        ("b", len(record("a")).to_bytes(4, "little") + bytes(len(record("a"))), "stranger"),
        ("b", b"GET / HTTP/1.1\r\n\r\n", "length"),
        ("b", bytes(4), "length"),
        ("c", record("a"), "refused"),
    ],
)
def test_a_connection_that_leads_nowhere_is_closed(to, data, reason):
    async def scenario():
        async with relayed() as net:
            wire = await net.call(to)
            wire.write(data)
            await wire.end()
            assert net.relay.counts.closed == {reason: 1}

    run(scenario())


def test_a_closed_end_closes_the_other_behind_its_last_frame():
    async def scenario():
        async with relayed(Link(latency=Constant(0.02))) as net:
            a, b = await net.connect()
            a.write(record("a", b"last"))
            await a.close()
            await b.read(record("a", b"last"))
            await b.end()
            assert net.relay.counts.closed == {}

    run(scenario())


def test_closing_the_relay_closes_every_connection():
    async def scenario():
        async with relayed() as net:
            a, b = await net.connect()
            silent = await net.call()
            await net.relay.close()
            for wire in (a, b, silent):
                await wire.end()

    run(scenario())


def test_connections_are_bounded(monkeypatch):
    monkeypatch.setattr(relay_tcp, "CONNECTIONS_MAX", 1)

    async def scenario():
        async with relayed() as net:
            await net.connect()
            one_more = await net.call()
            await one_more.end()
            assert net.relay.counts.closed == {"crowd": 1}

    run(scenario())


class Paper:
    """A transport that keeps what is written."""

    def __init__(self):
        self.written = b""
        self.is_read = True
        self.is_closed = False

    def write(self, data):
        self.written += data

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def is_closing(self):
        return self.is_closed


def test_a_caller_that_is_gone_when_the_member_answers_leaves_nothing_open():
    async def scenario():
        async with relayed() as net:
            members = [("a", ("127.0.0.1", 1)), ("b", net.b)]
            hub = RelayConnections(members, Links(2, Link()), 1, TimerQueue(), RelayCounts())
            caller = hub.accept(1)
            caller.connection_made(Paper())
            caller.data_received(record("a"))
            caller.transport.is_closed = True
            await (await net.accepted()).end()

    run(scenario())


def test_what_is_on_its_way_is_bounded_by_not_reading(monkeypatch):
    one = record("a", bytes(100))
    monkeypatch.setattr(relay_tcp, "IN_FLIGHT_BYTES_MAX", 3 * len(one))

    async def scenario():
        agenda = TimerQueue()
        links = Links(2, Link(latency=Constant(5.0)))
        members = [("a", ("127.0.0.1", 1)), ("b", ("127.0.0.1", 2))]
        hub = RelayConnections(members, links, 1, agenda, RelayCounts())
        near, far = RelayEnd(hub, 0, 1), RelayEnd(hub, 1, 0)
        for end in (near, far):
            end.connection_made(Paper())
        far.connect_to(near)
        near.connect_to(far)
        for _ in range(3):
            near.data_received(one)
            assert near.transport.is_read
        near.data_received(one)
        assert not near.transport.is_read
        asyncio.get_running_loop().skip(5.0)
        agenda.run_expired()
        assert far.transport.written == 4 * one
        assert near.transport.is_read

        far.pause_writing()
        assert not near.transport.is_read
        far.resume_writing()
        assert near.transport.is_read

    run(scenario())


@pytest.mark.parametrize(
    ("data", "size", "count"),
    [
        (b"", 0, 0),
        (record("a")[:3], 0, 0),
        (record("a")[:-1], 0, 0),
        (record("a"), 52, 1),
        (record("a") + record("b", b"xy") + record("a")[:9], 106, 2),
        (b"\x2f\x00\x00\x00", -1, 0),
        (b"\x01\x00\x10\x01", -1, 0),
        (record("a") + b"\xff\xff\xff\xff", -1, 0),
    ],
)
def test_whole_frames_are_told_from_the_rest(data, size, count):
    assert whole_frames(bytearray(data)) == (size, count)
