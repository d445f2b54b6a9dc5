"""NATS JetStream: a stream in memory, which holds one message of each subject where only the newest
of each item matters.

The last message of each batch is acknowledged, and with it those before.  Receivers pull what they
can take, the next lot before the last one is used up, so that what is superseded meanwhile is never
sent to them.
"""

import json
from collections.abc import AsyncIterator, Iterable

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, Header, StorageType, StreamConfig
from peers.channel import joining, keeps_latest
from peers.nats import NatsChannel

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import main
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

EXPIRES_NS = 30 * 10**9  # A request for more ends then, and is made again.
PENDING = "Nats-Pending-Messages"


class JetStreamChannel(NatsChannel):
    """One connection."""

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(plan)
        self._asked = 0  # messages, and not yet got
        self._limit = 0

    async def open(self) -> None:
        """Everyone makes the stream; whoever is not the first finds it made."""
        await self.connect()
        self._stream = self.connection.jetstream()
        stream, subject = self.plan.group, f"{self.plan.group}.*"
        await self._stream.add_stream(
            StreamConfig(
                name=stream,
                subjects=[subject],
                storage=StorageType.MEMORY,
                max_msgs_per_subject=1 if keeps_latest(self.plan) else -1,
            )
        )
        if self.sends:
            return
        consumer = ConsumerConfig(
            name=self.plan.name, ack_policy=AckPolicy.NONE, filter_subject=subject, mem_storage=True
        )
        await self._stream.add_consumer(stream, consumer)
        self._more = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{self.plan.name}"
        self._inbox = self.connection.new_inbox()
        await self.connection.subscribe(self._inbox, cb=self._on_pulled)

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """Returns when all are in the stream."""
        *others, last = updates
        await self.publish(others)
        [message] = self.encoded([last])
        await self._stream.publish(self.subject(last), message)

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """What was pulled."""
        self._limit = limit
        if not self.sends:
            await self._pull()
        async for batch in super().batches(limit):
            yield batch
            await self._pull()

    async def _on_pulled(self, message: Msg) -> None:
        if message.headers and Header.STATUS in message.headers:  # A request has ended.
            self._asked -= int(message.headers[PENDING])
            await self._pull()
        else:
            self._asked -= 1
            await self.on_message(message)

    async def _pull(self) -> None:
        """As many as can be taken, if half of them have come."""
        wanted = self._limit - self._asked - self.unread
        if wanted > self._limit // 2 and not self.closed.is_set():
            self._asked += wanted
            request = json.dumps({"batch": wanted, "expires": EXPIRES_NS}).encode()
            await self.connection.publish(self._more, request, reply=self._inbox)


def work() -> int:
    """One worker."""
    return main(joining(JetStreamChannel))
