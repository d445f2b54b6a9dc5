"""A bad network between members on a good one: the simulator's faults, on real datagrams.

Every member has a *front*: a UDP socket and a TCP listener on one port, which its peers use as
its address.  A datagram of j that arrives at the front of i goes on to i from the front of j, so
that i sees it come from the only address at which it knows j.  In between, `faults.Links` decides
when it arrives or that it is dropped: with the same seed, the draws of the simulated network.
Ranks are places in the list of names in order; nothing of a frame is read but its clear header.
The links act from the start; cuts count their seconds from `start_faults`.
Bounds: bytes that wait here (dropped beyond), datagrams read at once, and those of TCP.
Rejected: rules in the kernel, which need privileges and a kernel that has them.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import unpack
from typing import Final, NamedTuple

from semcast.faults import UDP_IP_BYTES, Cut, Link, Links
from semcast.fleet.relay_streams import RelayConnections, RelayCounts
from semcast.fleet.timer_queue import TimerQueue
from semcast.runtime.transport.addresses import Address, format_address, ip_literal, parse_peers
from semcast.terms.errors import ConfigError, LocalProtocolError, unknown_value
from semcast.wire import frames

DATAGRAM_BYTES_MAX: Final = 65_536
WAITING_BYTES_MAX: Final = 1 << 26
DATAGRAM_COST_BYTES: Final = 256  # what a waiting datagram costs beside its bytes
DRAIN_MAX: Final = 256
RECEIVE_BUFFER_BYTES: Final = 1 << 22
BIND_ATTEMPTS: Final = 16
SO_MEMINFO: Final = 55  # Linux: nine numbers about a socket, the last of them its drops


class RelayFront(NamedTuple):
    """Where the peers of one member find it."""

    udp: socket.socket
    tcp: socket.socket
    address: Address


class Relay:
    """Fronts for `members`, with `link` (or what it says for source and destination) between.

    `fronts` says where, else they are at free ports of the loopback interface.

        relay = Relay({"a": ("127.0.0.1", 7101), "b": ("127.0.0.1", 7102)}, Link(loss=0.01))
        fronts = await relay.start()  # a has the peers {"a": its own, "b": fronts["b"]}
        relay.begin()
        ...
        await relay.close()
    """

    def __init__(
        self,
        members: Mapping[str, Address],
        link: Link | Callable[[int, int], Link],
        faults: Sequence[Cut] = (),
        seed: int = 1,
        *,
        fronts: Mapping[str, Address] | None = None,
    ) -> None:
        peers = parse_peers([(name, *address) for name, address in members.items()], "member")
        self._members = sorted((peer.name, peer.address) for peer in peers)
        self._wanted = _places(self._members, fronts or {})
        self._ranks = {address: rank for rank, (_, address) in enumerate(self._members)}
        self._ids = {frames.member_id(name): rank for rank, (name, _) in enumerate(self._members)}
        self._links = Links(len(self._members), link)
        self._links.draw_from(seed)
        self._reroute_times = self._links.cut(faults)  # in seconds from `start_faults`
        self._has_begun = False
        self._waiting_bytes = 0
        self._buffer = memoryview(bytearray(DATAGRAM_BYTES_MAX))
        self._fronts: list[RelayFront] = []
        self._servers: list[asyncio.Server] = []
        self._counts = RelayCounts()
        self._agenda = TimerQueue()
        self._tcp = RelayConnections(self._members, self._links, seed, self._agenda, self._counts)

    async def start(self) -> dict[str, Address]:
        """Open the fronts; where they are."""
        loop = asyncio.get_running_loop()
        try:
            for (name, _), wanted in zip(self._members, self._wanted, strict=True):
                self._fronts.append(_open_front(name, wanted))
            for rank, front in enumerate(self._fronts):
                loop.add_reader(front.udp, self._drain, rank)
                accept = partial(self._tcp.accept, rank)
                server = await loop.create_server(accept, sock=front.tcp, start_serving=False)
                self._servers.append(server)
                await server.start_serving()
        except BaseException:
            await self.close()
            raise
        names = (name for name, _ in self._members)
        return {name: front.address for name, front in zip(names, self._fronts, strict=True)}

    def start_faults(self) -> None:
        """Let the time of the faults begin."""
        if self._has_begun:
            raise LocalProtocolError("begin: already called")
        self._has_begun = True
        now = self._agenda.now
        for when in self._reroute_times:
            self._agenda.call_at(now + when, self._reroute, when)

    def heal(self) -> None:
        """End all cuts, loss, duplication and reordering for good; latency and bandwidth stay."""
        self._links.heal()

    @property
    def counts(self) -> RelayCounts:
        """So far; they stay after `close`."""
        if self._fronts:
            self._counts.overrun = sum(map(_socket_drops, self._fronts))
        return self._counts

    async def close(self) -> None:
        """Close everything; what is on its way is lost.  Twice is fine."""
        _ = self.counts  # The sockets know a part of them.
        loop = asyncio.get_running_loop()
        for server in self._servers:
            server.close()
        for front in self._fronts:
            loop.remove_reader(front.udp)
            front.udp.close()
            front.tcp.close()
        self._fronts.clear()
        self._servers.clear()
        await self._tcp.close()
        self._agenda.clear()

    def _reroute(self, elapsed_s: float) -> None:
        self._links.reroute(elapsed_s)
        self._tcp.cut()

    def _drain(self, destination: int) -> None:
        """Take what waits at a front, with a limit: the others want their turn."""
        self._agenda.run_expired()  # A cut that is due comes before what arrived after it.
        now = self._agenda.now
        receive = self._fronts[destination].udp.recvfrom_into
        for _ in range(DRAIN_MAX):
            try:
                size, address = receive(self._buffer)
            except OSError:  # nothing left
                break
            self._counts.received += 1
            self._carry(bytes(self._buffer[:size]), address[:2], destination, now)

    def _carry(self, frame: bytes, address: Address, destination: int, now: float) -> None:
        source = self._sender(frame, address)
        dropped = self._counts.dropped
        if source is None or source == destination:
            dropped["stranger"] += 1
            return
        link = self._links.rows[source][destination]
        arrivals = link.transmit(len(frame) + UDP_IP_BYTES, now, dropped)
        self._counts.duplicated += len(arrivals) > 1
        for when in arrivals:
            if self._waiting_bytes > WAITING_BYTES_MAX:
                dropped["waiting"] += 1
            else:
                self._waiting_bytes += len(frame) + DATAGRAM_COST_BYTES
                self._agenda.call_at(when, self._forward, source, destination, frame)

    def _sender(self, frame: bytes, address: Address) -> int | None:
        """The rank of the sender, by its address or else the frame's header; None: a stranger."""
        rank = self._ranks.get(address)
        if rank is not None:
            return rank
        try:
            return self._ids.get(frames.parse(frame).sender)
        except frames.FrameRejected:
            return None

    def _forward(self, source: int, destination: int, frame: bytes) -> None:
        self._waiting_bytes -= len(frame) + DATAGRAM_COST_BYTES
        try:
            self._fronts[source].udp.sendto(frame, self._members[destination][1])
        except OSError:
            self._counts.dropped["unsent"] += 1
        else:
            self._counts.sent += 1


def _places(members: Sequence[tuple[str, Address]], fronts: Mapping[str, Address]) -> list[Address]:
    """Where each member's front shall be; port 0 is any."""
    names = [name for name, _ in members]
    for name in fronts:
        if name not in names:
            raise unknown_value("front", name, names)
    places = []
    for name, (host, _) in members:
        literal = ip_literal(host)
        if literal is None:
            raise ConfigError(
                f"member: {name} is at {host!r}, which is not an IP address; give the address"
            )
        if name not in fronts and not literal.is_loopback:
            raise ConfigError(
                f"front: member {name} is on another machine ({host}); give an address of this "
                f"machine with --front {name}=HOST:PORT"
            )
        places.append(fronts.get(name, ("127.0.0.1" if literal.version == 4 else "::1", 0)))
    if len({":" in host for host, _ in (*places, *dict(members).values())}) > 1:
        raise ConfigError("member: addresses mix IPv4 and IPv6; use one version")
    return places


def _open_front(name: str, wanted: Address) -> RelayFront:
    """Bind UDP and TCP to one port, any free one if 0 is asked for."""
    host, port = wanted
    attempts = 1 if port else BIND_ATTEMPTS
    while True:
        attempts -= 1
        try:
            return _bind(host, port)
        except OSError as error:
            if not attempts:
                raise ConfigError(
                    f"front: cannot listen on {format_address(wanted)} for {name}: {error.strerror}"
                ) from error


def _bind(host: str, port: int) -> RelayFront:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    tcp = socket.socket(family, socket.SOCK_STREAM)
    try:
        udp.setblocking(False)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        udp.bind((host, port))
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind(udp.getsockname())
    except BaseException:
        udp.close()
        tcp.close()
        raise
    return RelayFront(udp, tcp, udp.getsockname()[:2])


def _socket_drops(front: RelayFront) -> int:
    """Datagrams that found the socket full, where the system tells."""
    try:
        return int(unpack("9I", front.udp.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[-1])
    except OSError:
        return 0
