"""Repair in bulk over TCP: the same sealed frames, each behind its length.

A member that missed much would lose again if all of it came as datagrams at once; TCP paces
itself to what the way and the peer can take.  Connections are made when needed and kept.  Nothing
depends on them: where TCP is filtered or slow, `send` says so and datagrams do it.
Bounds: connections, bytes waiting to be sent, and a stranger's bytes before its first frame was
believed.
"""

import asyncio
import socket
from collections.abc import Callable
from struct import Struct
from typing import Final, cast

from semcast.runtime.tasks import start_task
from semcast.runtime.transport.addresses import Address, format_address

LENGTH: Final = Struct("<I")
CONNECTIONS_MAX: Final = 256
WAITING_BYTES_MAX: Final = 4 << 20
UNAUTHENTICATED_BYTES_MAX: Final = 65_536
UNAUTHENTICATED_S: Final = 5.0
CONNECT_S: Final = 2.0
RETRY_S: Final = 10.0

OnFrame = Callable[[bytes, Address], bool]


class TcpConnection(asyncio.Protocol):
    """One TCP connection, in either direction: frames come out, frames go in."""

    def __init__(self, bulk: "TcpTransport", frame_bytes_max: int) -> None:
        self._bulk = bulk
        self._frame_bytes_max = frame_bytes_max
        self._received = bytearray()
        self._is_trusted = False
        self._stranger: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.peer: Address = ("", 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none, but like one
        self.peer = transport.get_extra_info("peername")[:2]
        loop = asyncio.get_running_loop()
        self._stranger = loop.call_later(UNAUTHENTICATED_S, self._give_up)
        self._bulk.on_open(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._trust()
        self._bulk.on_lost(self)

    def mark_trusted(self) -> None:
        """This side made the connection: it need not introduce itself."""
        self._trust()

    def _trust(self) -> None:
        self._is_trusted = True
        if self._stranger is not None:
            self._stranger.cancel()
            self._stranger = None

    def _give_up(self) -> None:
        if not self._is_trusted and self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        start = 0
        while len(received) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(received, start)
            limit = self._frame_bytes_max if self._is_trusted else UNAUTHENTICATED_BYTES_MAX
            if length > limit:
                self._refuse()
                return
            end = start + LENGTH.size + length
            if len(received) < end:
                break
            if self._bulk.on_frame(bytes(received[start + LENGTH.size : end]), self.peer):
                self._trust()
            elif not self._is_trusted:
                self._refuse()
                return
            start = end
        if start:
            del received[:start]
            self._bulk.on_batch()

    def _refuse(self) -> None:
        assert self.transport is not None
        self.transport.abort()
        self._received.clear()
        self._bulk.on_batch()  # What came before counts.

    def write(self, frame: bytes) -> bool:
        """Queue a frame, unless too much waits already."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() + len(frame) > WAITING_BYTES_MAX:
            return False
        transport.writelines((LENGTH.pack(len(frame)), frame))
        return True


class TcpTransport:
    """All TCP connections of one member.

    `on_frame` gets every frame and says whether it was believed; `on_batch` follows what came at
    once. `first_frame` makes the frame that a connection begins with: a small one, to be believed
    by.
    """

    def __init__(
        self,
        listening: socket.socket,
        frame_bytes_max: int,
        on_frame: OnFrame,
        on_batch: Callable[[], None],
    ) -> None:
        self.on_frame = on_frame
        self.on_batch = on_batch
        self.first_frame: Callable[[], bytes] = bytes
        self._frame_bytes_max = frame_bytes_max
        self._listening = listening
        self._server: asyncio.Server | None = None
        self._connections: set[TcpConnection] = set()
        self._to: dict[Address, TcpConnection] = {}
        self._opening: dict[Address, asyncio.Task[None]] = {}
        self._failed_at: dict[Address, float] = {}

    async def start(self) -> None:
        """Accept connections."""
        loop = asyncio.get_running_loop()
        serving = loop.create_server(self._accept, sock=self._listening, start_serving=False)
        self._server = await serving
        await self._server.start_serving()  # If this is cancelled, `close` ends it.

    def _accept(self) -> TcpConnection:
        return TcpConnection(self, self._frame_bytes_max)

    def on_open(self, connection: TcpConnection) -> None:
        """A connection stands; one too many is closed."""
        if len(self._connections) >= CONNECTIONS_MAX and connection.transport is not None:
            connection.transport.abort()
            return
        self._connections.add(connection)

    def on_lost(self, connection: TcpConnection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        for address, current in list(self._to.items()):
            if current is connection:
                del self._to[address]

    def is_ready(self, address: Address) -> bool:
        """Whether there is a connection to this address; if not, one is begun."""
        if address in self._to:
            return True
        loop = asyncio.get_running_loop()
        waited = loop.time() - self._failed_at.get(address, -RETRY_S)
        if address not in self._opening and waited >= RETRY_S:
            what = f"connecting to {format_address(address)}"
            self._opening[address] = start_task(self._connect(address), what)
        return False

    async def _connect(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        self._failed_at[address] = loop.time()  # until it stands
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, connection = await loop.create_connection(self._accept, *address)
            connection.mark_trusted()
            if connection.write(self.first_frame()):
                self._to[address] = connection
                del self._failed_at[address]
            else:
                transport.abort()
        except (OSError, TimeoutError):
            pass
        finally:
            del self._opening[address]

    def send(self, address: Address, frame: bytes) -> bool:
        """One frame to where `is_ready`; False if it has to go otherwise."""
        connection = self._to.get(address)
        return connection is not None and connection.write(frame)

    async def close(self) -> None:
        """Close every connection and the listening socket."""
        for task in list(self._opening.values()):
            task.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            if connection.transport is not None:
                connection.transport.close()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
