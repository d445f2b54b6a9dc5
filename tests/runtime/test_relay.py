"""Datagrams through the relay, on real sockets; what is drawn is what the simulator draws.

Nothing tells that a datagram was dropped, so tests send a marker behind it to the same front: the
relay reads a front in order, and so has handled what came before.
"""

import asyncio
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from semcast.faults import Constant, Link, OneWayCut, Partition
from semcast.fleet import relay as relay_module
from semcast.fleet.relay import Relay
from semcast.sim import Network, VirtualClock
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.messages import Excluded
from semcast.wire import frames

DEADLINE_S = 60
NOW = Link(latency=Constant(0.0))
FOREVER = float("inf")


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its clock can be put forward."""

    skipped_s = 0.0

    def time(self):
        return super().time() + self.skipped_s

    def skip(self, seconds):
        self.skipped_s += seconds


def run(scenario):
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(scenario)


async def until(condition):
    """Let the loop turn until something holds that no event tells."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0)


class Member:
    """A member's real socket: hears datagrams, and sends to the fronts of the others."""

    def __init__(self, name, host="127.0.0.1"):
        self.name = name
        self.fronts = {}
        self.socket = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM
        )
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((host, 0))
        self.address = self.socket.getsockname()[:2]

    def send(self, to, *datagrams):
        for datagram in datagrams:
            self.socket.sendto(datagram, self.fronts[to])

    async def hear(self, count=1):
        heard = []
        async with asyncio.timeout(DEADLINE_S):
            while len(heard) < count:
                data, source = await asyncio.get_running_loop().sock_recvfrom(self.socket, 65536)
                heard.append((data, source[:2]))
        return heard

    async def hear_data(self, count=1):
        return [data for data, _ in await self.hear(count)]


@asynccontextmanager
async def relayed(names="abc", link=NOW, faults=(), seed=1, host="127.0.0.1"):
    """Members with the relay between them, its fault time begun."""
    members = [Member(name, host) for name in names]
    relay = Relay({member.name: member.address for member in members}, link, faults, seed)
    fronts = await relay.start()
    for member in members:
        member.fronts = fronts
    relay.start_faults()
    try:
        yield relay, *members
    finally:
        await relay.close()
        for member in members:
            member.socket.close()


def frame(sender, body=b"", channel=frames.UDP):
    header = frames.FrameHeader(frames.DATAGRAM, channel, 0, 1, frames.member_id(sender), 1, 1, 1)
    return frames.pack(header) + body


def simulated(link, seed, count):
    """What arrives, in order, of so many datagrams sent at once from 0 to 1 of the simulator."""
    clock, network, arrived = VirtualClock(), Network(2, link), []
    network.connect(clock, seed, [None, lambda _, datagram: arrived.append(datagram.member)])
    network.send(0, [((1,), Excluded(number)) for number in range(count)])
    clock.run(99.0)
    return arrived, network.dropped


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_receiver_sees_the_sender_at_its_front(host):
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")

    async def scenario():
        async with relayed(host=host) as (_, a, b, c):
            a.send("b", b"from a")
            assert await b.hear() == [(b"from a", a.fronts["a"])]
            c.send("b", b"from c")
            assert await b.hear() == [(b"from c", a.fronts["c"])]
            b.send("a", b"answer")
            assert await a.hear() == [(b"answer", a.fronts["b"])]

    run(scenario())


def test_an_unknown_address_is_known_by_the_header_or_is_a_stranger():
    async def scenario():
        async with relayed() as (relay, a, b, _c):
            stranger = Member("a")
            stranger.fronts = a.fronts
            stranger.send("b", b"?", frame("nobody"), frame("b"), frame("a"))
            stranger.socket.close()
            assert await b.hear() == [(frame("a"), a.fronts["a"])]
            assert relay.counts.dropped == {"stranger": 3}

    run(scenario())


@pytest.mark.parametrize(
    "link",
    [
        Link(latency=Constant(0.0), loss=0.2),
        Link(latency=Constant(0.0), duplicate=0.2),
        Link(latency=Constant(0.001), loss=0.1, duplicate=0.1),
    ],
)
def test_a_seed_loses_and_doubles_the_datagrams_that_the_simulator_does(link):
    async def scenario():
        async with relayed("ab", link, seed=5) as (relay, a, b):
            arrived, dropped = simulated(link, 5, 400)
            a.send("b", *(b"%d" % number for number in range(400)))
            heard = [int(data) for data in await b.hear_data(len(arrived))]
            assert sorted(heard) == sorted(arrived)
            counts = relay.counts
            assert counts.dropped == dropped
            assert counts.received == 400
            assert counts.sent == len(arrived)
            assert counts.received + counts.duplicated == counts.sent + dropped.total()

    run(scenario())


def test_only_what_the_seed_holds_back_is_overtaken():
    link = Link(latency=Constant(0.0), reorder=0.3, reorder_s=0.1)
    clock, network, late = VirtualClock(), Network(2, link), set()
    network.connect(clock, 5, [None, lambda _, d: late.add(d.member) if clock.now else None])
    network.send(0, [((1,), Excluded(number)) for number in range(200)])
    clock.run(1.0)
    assert 40 < len(late) < 80

    async def scenario():
        async with relayed("ab", link, seed=5) as (_, a, b):
            a.send("b", *(b"%d" % number for number in range(200)))
            heard = [int(data) for data in await b.hear_data(200)]
            assert heard != sorted(heard)
            assert sorted(heard) == list(range(200))
            prompt = [number for number in heard if number not in late]
            assert prompt == sorted(prompt)

    run(scenario())


def test_a_datagram_is_late_by_the_latency_of_its_link():
    def link(source, destination):
        return Link(latency=Constant(2.0 if source == 0 else 0.0))

    async def scenario():
        async with relayed(link=link) as (relay, a, b, c):
            a.send("b", b"slow")
            c.send("b", b"fast")
            assert await b.hear_data() == [b"fast"]
            assert relay.counts.sent == 1
            asyncio.get_running_loop().skip(2.0)
            assert await b.hear_data() == [b"slow"]

    run(scenario())


def test_bandwidth_spaces_datagrams_and_its_queue_overflows():
    slow = Link(latency=Constant(0.0), bandwidth_bps=8 * 128.0, queue_bytes=230)

    async def scenario():
        async with relayed(link=lambda s, _: NOW if s == 2 else slow) as (relay, a, b, c):
            a.send("b", *(bytes([number]) * 100 for number in range(6)))  # 128 bytes, 1 s each
            c.send("b", b"marker")
            assert await b.hear_data() == [b"marker"]
            assert relay.counts.dropped == {"queue": 4}
            for number in range(2):
                asyncio.get_running_loop().skip(1.0)
                assert await b.hear_data() == [bytes([number]) * 100]

    run(scenario())


def test_a_partition_drops_what_is_sent_during_it():
    def link(source, destination):
        return Link(latency=Constant(1.0 if source == 0 else 0.0))

    async def scenario():
        skip = asyncio.get_running_loop().skip
        async with relayed(link=link, faults=[Partition(20, 40, ((0,),))]) as (relay, a, b, c):
            skip(19.5)
            a.send("b", b"on its way")
            c.send("b", b"marker")
            assert await b.hear_data() == [b"marker"]
            skip(1.0)
            assert await b.hear_data() == [b"on its way"]
            a.send("b", b"cut")
            b.send("a", b"cut")
            c.send("b", b"marker")
            assert await b.hear_data() == [b"marker"]
            skip(20.0)
            a.send("b", b"after")
            b.send("a", b"after")
            assert await a.hear_data() == [b"after"]
            skip(1.0)
            assert await b.hear_data() == [b"after"]
            assert relay.counts.dropped == {"cut": 2}

    run(scenario())


def test_a_one_way_cut_leaves_the_way_back_open():
    async def scenario():
        async with relayed(faults=[OneWayCut(0, FOREVER, 0, 1)]) as (relay, a, b, c):
            a.send("b", b"cut")
            b.send("a", b"open")
            c.send("b", b"marker")
            assert await b.hear_data() == [b"marker"]
            assert await a.hear_data() == [b"open"]
            assert relay.counts.dropped == {"cut": 1}

    run(scenario())


def test_healing_ends_every_fault_for_good():
    cuts = [Partition(0, 20, ((0,),)), Partition(30, FOREVER, ((0,),))]

    async def scenario():
        lossy = Link(latency=Constant(0.0), loss=1.0)
        async with relayed("ab", lossy, faults=cuts) as (relay, a, b):
            relay.heal()
            a.send("b", b"healed")
            assert await b.hear_data() == [b"healed"]
            asyncio.get_running_loop().skip(35.0)
            a.send("b", b"for good")
            assert await b.hear_data() == [b"for good"]

    run(scenario())


def test_faults_wait_for_begin_which_comes_once():
    async def scenario():
        a, b = Member("a"), Member("b")
        relay = Relay({"a": a.address, "b": b.address}, NOW, [Partition(0, FOREVER, ((0,),))])
        a.fronts = await relay.start()
        a.send("b", b"before")
        assert await b.hear_data() == [b"before"]
        relay.start_faults()
        with pytest.raises(LocalProtocolError, match="already called"):
            relay.start_faults()
        await relay.close()
        await relay.close()
        assert relay.counts.sent == 1
        a.socket.close()
        b.socket.close()

    run(scenario())


def test_what_waits_is_bounded(monkeypatch):
    each = 100 + relay_module.DATAGRAM_COST_BYTES
    monkeypatch.setattr(relay_module, "WAITING_BYTES_MAX", 10 * each - 1)

    async def scenario():
        async with relayed("ab", Link(latency=Constant(2.0))) as (relay, a, b):
            a.send("b", *[bytes(100)] * 15)
            await until(lambda: relay.counts.received == 15)
            assert relay.counts.dropped == {"waiting": 5}
            asyncio.get_running_loop().skip(2.0)
            assert await b.hear_data(10) == [bytes(100)] * 10
            b.send("a", b"room again")
            await until(lambda: relay.counts.received == 16)
            asyncio.get_running_loop().skip(2.0)
            assert await a.hear_data() == [b"room again"]

    run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_what_the_fronts_could_not_hold_is_counted():
    async def scenario():
        async with relayed("ab") as (relay, a, _b):
            a.send("b", *[bytes(1000)] * 20_000)  # The relay has no chance to read meanwhile.
            assert relay.counts.overrun > 0
            overrun = relay.counts.overrun
        assert relay.counts.overrun == overrun

    run(scenario())


def test_a_front_listens_to_datagrams_and_connections_on_one_port():
    async def scenario():
        async with relayed("ab") as (_, a, _b):
            for front in a.fronts.values():
                _, writer = await asyncio.open_connection(*front)
                writer.close()
                await writer.wait_closed()

    run(scenario())


def test_a_taken_port_is_refused_and_leaves_nothing_open():
    async def scenario():
        a, b = Member("a"), Member("b")
        free = Member("free")
        wanted = {"a": free.address, "b": a.address}
        free.socket.close()
        relay = Relay({"a": a.address, "b": b.address}, NOW, fronts=wanted)
        with pytest.raises(
            ConfigError, match=f"front: cannot listen on 127.0.0.1:{a.address[1]} for b"
        ):
            await relay.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(wanted["a"])
        a.socket.close()
        b.socket.close()

    run(scenario())


@pytest.mark.parametrize(
    ("members", "fronts", "reason"),
    [
        ({"a": ("localhost", 1)}, {}, "member: a is at 'localhost', which is not an IP address"),
        ({"a": ("127.0.0.1", 0)}, {}, "port 0"),
        ({"a": ("127.0.0.1", 1), "b": ("127.0.0.1", 1)}, {}, "member: 127.0.0.1:1 appears"),
        ({"a": ("127.0.0.1", 1), "b": ("::1", 1)}, {}, "mix IPv4 and IPv6"),
        ({"a": ("10.0.0.1", 1)}, {}, "front: member a is on another machine .10.0.0.1"),
        ({"a": ("127.0.0.1", 1)}, {"b": ("127.0.0.1", 2)}, "front: unknown value 'b'; allowed: a"),
    ],
)
def test_members_that_cannot_be_relayed_are_refused(members, fronts, reason):
    with pytest.raises(ConfigError, match=reason):
        Relay(members, NOW, fronts=fronts)
