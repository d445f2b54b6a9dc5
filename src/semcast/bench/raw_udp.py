"""UDP multicast and nothing else, as a limit to compare with: `python -m semcast.bench.raw_udp`.

Messages share datagrams as Semcast's do, are encoded and decoded by compiled code, and leave the
kernel when the application asks for them.  Nothing is ordered, repaired, sealed or held back: what
a socket's buffer has no room for is lost.
"""

import asyncio
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import main
from semcast.runtime.application.mailbox import Message
from semcast.runtime.transport.addresses import multicast_address
from semcast.runtime.transport.network_interfaces import datagram_bytes, resolve_interface
from semcast.runtime.transport.sockets import open_multicast, open_unicast
from semcast.terms.errors import LocalProtocolError
from semcast.terms.messages import Update

MESSAGE_BYTES: Final = 24  # of a message beside its payload and its names, at most
RECEIVE_BYTES: Final = 65_535
SOCKET_BYTES: Final = 4 << 20
DRAIN_MAX: Final = 64  # datagrams, before other tasks get their turn

AddReader = Callable[[int, Callable[[], None]], object]


class RawMessage(Message, frozen=True, gc=False, array_like=True):
    """A message as it travels."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[RawMessage]).decode


class RawGroup:
    """Who sends does not listen; who listens hears all that its socket has room for."""

    def __init__(self, plan: WorkerPlan) -> None:
        interface = resolve_interface(None, 4, sealed=False)
        host, port = multicast_address(plan.group, 4)
        self._name = plan.name
        self._datagram_bytes = plan.options.get("datagram") or datagram_bytes(interface)
        self._loop = asyncio.get_running_loop()
        self._sending = open_unicast(interface, 0, SOCKET_BYTES)
        self._hearing = (
            open_multicast(interface, host, port, SOCKET_BYTES) if plan.load is None else None
        )
        self._to = interface.endpoint(host, port)
        self._sent = 0
        self._unread: deque[Message] = deque()
        self._ready = asyncio.Event()  # a socket is, or this is closed
        self._closed = asyncio.Event()

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """Send, packed into datagrams."""
        for messages in self._packed(updates):
            datagram = _encode(messages)
            while True:
                try:
                    self._sending.sendto(datagram, self._to)
                    break
                except BlockingIOError:
                    await self._wait(self._loop.add_writer, self._sending)
        await asyncio.sleep(0)

    def _packed(self, updates: Iterable[Update]) -> Iterator[list[Message]]:
        messages: list[Message] = []
        size = 0
        for update in updates:
            named = len(self._name) + len(str(update.item or ""))
            needs = len(update.payload) + named + MESSAGE_BYTES
            if messages and size + needs > self._datagram_bytes:
                yield messages
                messages, size = [], 0
            self._sent += 1
            messages.append(RawMessage(self._name, update.item, update.payload, self._sent))
            size += needs
        if messages:
            yield messages

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """What has come; waits for more until closed."""
        hearing = self._hearing
        if hearing is None:
            await self._closed.wait()
            return
        while not self._closed.is_set():
            if not self._drain(hearing, limit):
                await self._wait(self._loop.add_reader, hearing)
            else:
                count = min(limit, len(self._unread))
                yield [self._unread.popleft() for _ in range(count)]
                await asyncio.sleep(0)

    def _drain(self, hearing: socket.socket, limit: int) -> bool:
        for _ in range(DRAIN_MAX):
            if len(self._unread) >= limit:
                break
            try:
                self._unread.extend(_decode(hearing.recv(RECEIVE_BYTES)))
            except BlockingIOError:
                break
        return bool(self._unread)

    async def _wait(self, watch: AddReader, on: socket.socket) -> None:
        self._ready.clear()
        watch(on.fileno(), self._ready.set)
        await self._ready.wait()
        self._unwatch(on)

    def _unwatch(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            self._loop.remove_reader(sock.fileno())
            self._loop.remove_writer(sock.fileno())

    def forget(self, member: str) -> None:
        """There are no members to forget."""
        raise LocalProtocolError(f"forget: not supported, so {member} cannot be forgotten")

    def snapshot(self) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """Give the sockets back."""
        self._closed.set()
        self._ready.set()
        for sock in filter(None, (self._sending, self._hearing)):
            self._unwatch(sock)
            sock.close()


@asynccontextmanager
async def join_raw(plan: WorkerPlan) -> AsyncIterator[RawGroup]:
    """A worker's channel."""
    group = RawGroup(plan)
    try:
        yield group
    finally:
        group.close()


if __name__ == "__main__":
    sys.exit(main(join_raw))
