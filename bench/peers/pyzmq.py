"""ZeroMQ: XPUB to SUB over ipc, one frame for each message.

Both sides hold 1,000 messages for each subscriber, ZeroMQ's default.  What finds no room is
dropped, unless XPUB_NODROP is set: then the publisher waits.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

import zmq
from peers.channel import PeerChannel, decode, joining

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import main
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

BLOCKED_MS = 20  # that a send may wait for room before other tasks get their turn
POLL_S = 0.02
SUBSCRIBED = b"\x01"


class ZmqChannel(PeerChannel):
    """One socket."""

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(plan)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB if self.sends else zmq.SUB)
        self._socket.linger = 0
        if plan.options["buffer"] is not None:
            self._socket.set_hwm(plan.options["buffer"])
        self._ready = asyncio.Event()

    async def open(self) -> None:
        """A publisher waits for its subscribers."""
        socket, address = self._socket, self.plan.options["address"]
        if not self.sends:
            socket.subscribe(b"")
            socket.connect(address)
            self.loop.add_reader(socket.fd, self._on_signal)
            return
        socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # Each subscription is told, not the first alone.
        socket.setsockopt(zmq.XPUB_NODROP, self.plan.options["nodrop"])
        socket.sndtimeo = BLOCKED_MS
        socket.bind(address)
        for _ in range(self.receivers):
            while not socket.poll(0):
                await asyncio.sleep(POLL_S)
            assert socket.recv() == SUBSCRIBED

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """Sends block only under XPUB_NODROP; readiness to send is not told for XPUB."""
        send = self._socket.send
        for message in self.encoded(updates):
            while True:
                try:
                    send(message)
                    break
                except zmq.Again:
                    await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """Drains the socket."""
        if self.sends:
            await self.closed.wait()
        receive = self._socket.recv
        while not self.closed.is_set():
            batch: list[Message] = []
            try:
                while len(batch) < limit:
                    batch.append(decode(receive(zmq.NOBLOCK)))
            except zmq.Again:
                if not batch:
                    self._ready.clear()
                    if not self._socket.get(zmq.EVENTS) & zmq.POLLIN:
                        await self._ready.wait()
                    continue
            yield batch
            await asyncio.sleep(0)

    def _on_signal(self) -> None:
        if self._socket.get(zmq.EVENTS) & zmq.POLLIN:  # Asking also takes the signal back.
            self._ready.set()

    async def close(self) -> None:
        """Forget what was not sent."""
        self._ready.set()
        if not self.sends:
            self.loop.remove_reader(self._socket.fd)
        self._context.destroy()


def work() -> int:
    """One worker."""
    return main(joining(ZmqChannel))
