"""Redis streams: one stream, written in pipelines and read in lots by readers that block.

Of a plan's buffer, so many entries are kept in the stream (MAXLEN ~); what a reader has not read
by then is lost to it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

from peers.channel import PeerChannel, decode, joining
from redis.asyncio import Redis

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import main
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

IDLE_MS = 200  # until a reader looks whether it was closed
FIELD = b"m"


class RedisChannel(PeerChannel):
    """One connection."""

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(plan)
        self._redis = Redis(host="127.0.0.1", port=plan.options["port"])

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """One round trip for all."""
        stream, kept = self.plan.group, self.plan.options["buffer"]
        pipeline = self._redis.pipeline(transaction=False)
        for message in self.encoded(updates):
            pipeline.xadd(stream, {FIELD: message}, maxlen=kept, approximate=True)
        await pipeline.execute()

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """From the first entry on."""
        if self.sends:
            await self.closed.wait()
        last = b"0"
        while not self.closed.is_set():
            answer = await self._redis.xread({self.plan.group: last}, count=limit, block=IDLE_MS)
            for _, entries in answer:
                last = entries[-1][0]
                yield [decode(fields[FIELD]) for _, fields in entries]
            await asyncio.sleep(0)

    async def close(self) -> None:
        """The connection."""
        await self._redis.aclose()


def work() -> int:
    """One worker."""
    return main(joining(RedisChannel))
