"""Connections through the relay: whole frames in order, late by the latency of their link.

The first frame of a connection says who opened it; only then is the member behind the front
called.  What TCP hides from its users does not happen here: no loss, no duplicate, no bandwidth.
A cut in either direction closes the connections between the two, and those tried during it.
Nothing is dropped at a bound: a connection with too much on its way is not read.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final, cast

import msgspec

from semcast.faults import Links
from semcast.fleet.timer_queue import TimerQueue
from semcast.runtime.transport.addresses import Address
from semcast.wire import frames

LENGTH_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 17 << 20  # Members have limits of their own, below it.
IN_FLIGHT_BYTES_MAX: Final = 1 << 20  # of one direction of one connection; then it is not read
CONNECTIONS_MAX: Final = 1024


class RelayCounts(msgspec.Struct):
    """What a relay did so far.

    Every datagram `received`, and every copy `duplicated`, is `sent`, `dropped` or on its way.
    Dropped: `cut`, `queue` and `loss` as the faults say; `stranger` of no member, `waiting` at
    the bound of what waits here, `unsent` because the system refused it.  `overrun` never got
    so far: the sockets of the fronts were full.  `connections` were accepted, and so many
    `frames` went through them; `closed` were by a `cut`, `refused` by the member, of a
    `stranger`, `crowd` at the bound, or an impossible `length`.
    """

    received: int = 0
    duplicated: int = 0
    sent: int = 0
    dropped: Counter[str] = msgspec.field(default_factory=Counter)
    overrun: int = 0
    connections: int = 0
    frames: int = 0
    closed: Counter[str] = msgspec.field(default_factory=Counter)


class RelayEnd(asyncio.Protocol):
    """One end of a connection: reads whole frames, which are written to the `other` end later.

    `source` and `destination` are the ranks between which the frames it reads travel; an
    accepted end learns its source, and then gets its other end, from its first frame.
    """

    def __init__(self, hub: "RelayConnections", source: int | None, destination: int) -> None:
        self.hub = hub
        self.source = source
        self.destination = destination
        self.other: RelayEnd | None = None
        self.gone = asyncio.Event()
        self._unread = bytearray()
        self._on_the_way_bytes = 0
        self._latest = 0.0  # when the last of what is on its way arrives
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new end; it counts until it is gone."""
        self.transport = cast(asyncio.Transport, transport)
        self.hub.on_open(self)

    def data_received(self, data: bytes) -> None:
        """Send whole frames on their way; the rest waits for its remainder."""
        self._unread += data
        self.pump()

    def pump(self) -> None:
        """Pass what has been read, once it is known between whom."""
        size, count = whole_frames(self._unread)
        if size < 0:
            self.hub.close_both(self, "length")
        elif self.other is not None:
            if count:
                self._pass(bytes(self._unread[:size]))
                self.hub.counts.frames += count
                del self._unread[:size]
        elif count and self.source is None:
            self.transport.pause_reading()
            self.hub.on_first_frame(self, self._unread[LENGTH_BYTES:size])

    def _pass(self, data: bytes) -> None:
        self._on_the_way_bytes += len(data)
        self._latest = self.hub.arrival_time(self, self._latest)
        self.hub.agenda.call_at(self._latest, self._arrive, data)
        self._throttle()

    def _arrive(self, data: bytes) -> None:
        self._on_the_way_bytes -= len(data)
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.write(data)
        self._throttle()

    def connect_to(self, other: "RelayEnd") -> None:
        """Read on, now that there is somebody to write to."""
        self.other = other
        self.pump()
        self._throttle()

    def _throttle(self) -> None:
        is_blocked = self.other is None or self.other._is_full
        if is_blocked or self._on_the_way_bytes > IN_FLIGHT_BYTES_MAX:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """The member behind this end does not keep up."""
        self._is_full = True
        if self.other is not None:
            self.other._throttle()

    def resume_writing(self) -> None:
        """It does again."""
        self._is_full = False
        if self.other is not None:
            self.other._throttle()

    def connection_lost(self, exc: Exception | None) -> None:
        """What was on its way still arrives; then the other end closes."""
        self.gone.set()
        self.hub.on_closed(self)
        if self.other is not None:
            self.hub.agenda.call_at(self._latest, self.other.transport.close)


class RelayConnections:
    """All of a relay's; lives as long as its fronts."""

    def __init__(
        self,
        members: Sequence[tuple[str, Address]],
        links: Links,
        seed: int,
        agenda: TimerQueue,
        counts: RelayCounts,
    ) -> None:
        self.agenda = agenda
        self.counts = counts
        self._addresses = [address for _, address in members]
        self._ranks = {frames.member_id(name): rank for rank, (name, _) in enumerate(members)}
        self._links = links.rows
        self._rngs = {(s, d): Random(f"{seed}/tcp/{s}/{d}") for s, d, _ in links}
        self._ends: set[RelayEnd] = set()
        self._calls: set[asyncio.Task[None]] = set()

    def accept(self, destination: int) -> RelayEnd:
        """The end of a connection that arrives at a member's front."""
        return RelayEnd(self, None, destination)

    def on_open(self, end: RelayEnd) -> None:
        """Keep it, unless there are too many."""
        self._ends.add(end)
        if end.source is None:
            self.counts.connections += 1
        if len(self._ends) > 2 * CONNECTIONS_MAX:
            self.close_both(end, "crowd")

    def on_closed(self, end: RelayEnd) -> None:
        """Forget it."""
        self._ends.discard(end)

    def on_first_frame(self, end: RelayEnd, frame: bytearray) -> None:
        """Learn from its header who opened the connection, and call whom it is for."""
        try:
            source = self._ranks.get(frames.parse(bytes(frame)).sender)
        except frames.FrameRejected:
            source = None
        if source is None or source == end.destination:
            self.close_both(end, "stranger")
            return
        end.source = source
        if self._separated(end):
            self.close_both(end, "cut")
            return
        call = asyncio.get_running_loop().create_task(self._call(end, source))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, end: RelayEnd, source: int) -> None:
        host, port = self._addresses[end.destination]
        loop = asyncio.get_running_loop()
        try:
            _, far = await loop.create_connection(
                lambda: RelayEnd(self, end.destination, source), host, port
            )
        except OSError:
            self.close_both(end, "refused")
            return
        if end.transport.is_closing():
            far.transport.abort()
            return
        far.connect_to(end)
        end.connect_to(far)

    def arrival_time(self, end: RelayEnd, earliest: float) -> float:
        """When something that `end` has just read reaches the other end, not before `earliest`."""
        assert end.source is not None
        latency = self._links[end.source][end.destination].link.latency
        return max(
            earliest, self.agenda.now + latency.draw(self._rngs[end.source, end.destination])
        )

    def cut(self) -> None:
        """Close what is cut by now."""
        for end in [end for end in self._ends if self._separated(end)]:
            if not end.transport.is_closing():
                self.close_both(end, "cut")

    def _separated(self, end: RelayEnd) -> bool:
        source, destination = end.source, end.destination
        if source is None:
            return False
        return self._links[source][destination].is_cut or self._links[destination][source].is_cut

    def close_both(self, end: RelayEnd, reason: str) -> None:
        """Close a connection at once and count why."""
        self.counts.closed[reason] += 1
        end.transport.abort()
        if end.other is not None:
            end.other.transport.abort()

    async def close(self) -> None:
        """Close all, and return when they are gone."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        ends = list(self._ends)
        for end in ends:
            end.transport.abort()
        for end in ends:
            await end.gone.wait()


def whole_frames(data: bytearray) -> tuple[int, int]:
    """How many bytes at the front of `data` are whole frames, and how many those are.

    The size is -1 where a length is impossible.
    """
    size = count = 0
    while len(data) >= size + LENGTH_BYTES:
        length = int.from_bytes(data[size : size + LENGTH_BYTES], "little")
        if not frames.HEADER_BYTES <= length <= FRAME_BYTES_MAX:
            return -1, 0
        if len(data) < size + LENGTH_BYTES + length:
            break
        size += LENGTH_BYTES + length
        count += 1
    return size, count
