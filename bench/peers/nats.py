"""NATS: a subject for each item, as its Python client publishes and calls back.

What the client of a subscriber may hold stays at its default, 524,288 messages: beyond it, newer
ones are dropped.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

import nats
from nats.aio.msg import Msg
from peers.channel import PeerChannel, decode, joining

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import main
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

NO_ITEM = "all"
AHEAD = 1024  # messages that the callback has handed over and nobody has taken


class NatsChannel(PeerChannel):
    """One connection."""

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(plan)
        self._unread: deque[Message] = deque()
        self._ready, self._room = asyncio.Event(), asyncio.Event()

    async def connect(self) -> None:
        """To the server of this run."""
        self.connection = await nats.connect(f"nats://127.0.0.1:{self.plan.options['port']}")

    async def open(self) -> None:
        """A subscription counts once the server has answered; the start signal comes after."""
        await self.connect()
        if not self.sends:
            await self.connection.subscribe(f"{self.plan.group}.*", cb=self.on_message)
            await self.connection.flush()

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """Without a pace of its own, a sender waits for the server now and then."""
        await self.publish(list(updates))
        if self.plan.load is not None and self.plan.load.is_flood:
            await self.connection.flush()
        else:
            await asyncio.sleep(0)

    async def publish(self, updates: list[Update]) -> None:
        """Into the client's buffer."""
        publish = self.connection.publish
        for update, message in zip(updates, self.encoded(updates), strict=True):
            await publish(self.subject(update), message)

    def subject(self, update: Update) -> str:
        """Of its item."""
        return f"{self.plan.group}.{update.item or NO_ITEM}"

    async def on_message(self, message: Msg) -> None:
        """The client waits while the application is busy."""
        self._unread.append(decode(message.data))
        self._ready.set()
        while len(self._unread) >= AHEAD:
            self._room.clear()
            await self._room.wait()

    @property
    def unread(self) -> int:
        """Messages that were handed over and not taken."""
        return len(self._unread)

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """What the callback has handed over."""
        unread = self._unread
        while not self.closed.is_set():
            if unread:
                yield [unread.popleft() for _ in range(min(limit, len(unread)))]
                self._room.set()
                await asyncio.sleep(0)
            else:
                self._ready.clear()
                await self._ready.wait()

    async def close(self) -> None:
        """What was not taken is forgotten."""
        self._ready.set()
        self._unread.clear()
        self._room.set()
        await self.connection.close()


def work() -> int:
    """One worker."""
    return main(joining(NatsChannel))
