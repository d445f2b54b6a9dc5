"""What the channels of all peers share: how a message travels, and what a worker asks of them.

A message of the application is one message of the system, encoded and decoded by compiled code.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec

from semcast.bench.raw_udp import RawMessage
from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import Connect
from semcast.runtime.application.mailbox import Message
from semcast.terms.errors import LocalProtocolError
from semcast.terms.messages import Update

decode = msgspec.msgpack.Decoder(RawMessage).decode
_encode = msgspec.msgpack.Encoder().encode


def keeps_latest(plan: WorkerPlan) -> bool:
    """Whether only the newest message of each item matters."""
    return plan.options["order"] == "item"


class PeerChannel:
    """Who sends does not listen, and the other way round."""

    def __init__(self, plan: WorkerPlan) -> None:
        self.plan = plan
        self.sends = plan.load is not None
        self.receivers: int = plan.options["members"] - 1
        self.loop = asyncio.get_running_loop()
        self.closed = asyncio.Event()
        self._sent = 0

    def encoded(self, updates: Iterable[Update]) -> Iterable[bytes]:
        """As they travel."""
        name = self.plan.name
        for seq, update in enumerate(updates, self._sent + 1):
            self._sent = seq
            yield _encode(RawMessage(name, update.item, update.payload, seq))

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """Send, and give other tasks their turn."""
        raise NotImplementedError

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """What has come; waits for more until closed.  A sender hears nothing."""
        await self.closed.wait()
        return
        yield []

    def forget(self, member: str) -> None:
        """There are no members to forget."""
        raise LocalProtocolError(f"forget: not supported, so {member} cannot be forgotten")

    def snapshot(self) -> None:
        """There is nothing to see."""

    async def open(self) -> None:
        """Returns when everyone hears the sender."""

    async def close(self) -> None:
        """Give everything back."""


def joining(make: Callable[[WorkerPlan], PeerChannel]) -> Connect:
    """How a worker gets such a channel."""

    @asynccontextmanager
    async def join(plan: WorkerPlan) -> AsyncIterator[PeerChannel]:
        channel = make(plan)
        try:
            await channel.open()
            yield channel
        finally:
            channel.closed.set()
            await channel.close()

    return join
