"""Zenoh between peers over TCP: reliable, and publishers wait when a link is congested.

A subscriber's queue of its own holds 1,000 samples unless the plan says otherwise; a thread empties
it in lots, since it cannot be waited for in an event loop.  Peers are told where the sender is:
scouting is off.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable

import zenoh
from peers.channel import PeerChannel, decode, joining
from peers.inbox import Inbox

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import main
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

QUEUED = 1000
LOT = 256
POLL_S = 0.02


class ZenohChannel(PeerChannel):
    """One session."""

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(plan)
        config = zenoh.Config()
        endpoint = json.dumps([f"tcp/127.0.0.1:{plan.options['port']}"])
        for key, value in {
            "mode": '"peer"',
            "scouting/multicast/enabled": "false",
            "listen/endpoints": endpoint if self.sends else "[]",
            "connect/endpoints": "[]" if self.sends else endpoint,
        }.items():
            config.insert_json5(key, value)
        self._config = config
        self._inbox = Inbox(LOT)

    async def open(self) -> None:
        """The sender waits for all to subscribe."""
        self._session = await self.loop.run_in_executor(None, zenoh.open, self._config)
        if self.sends:
            self._publisher = self._session.declare_publisher(
                self.plan.group,
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
            )
            await self._all_are_here()
            return
        channel = zenoh.handlers.FifoChannel(self.plan.options["buffer"] or QUEUED)
        self._subscriber = self._session.declare_subscriber(self.plan.group, channel)
        threading.Thread(target=self._receive, daemon=True).start()
        self._token = self._session.liveliness().declare_token(
            f"{self.plan.group}/{self.plan.name}"
        )

    async def _all_are_here(self) -> None:
        liveliness = self._session.liveliness()
        while len(list(liveliness.get(f"{self.plan.group}/*"))) < self.receivers:
            await asyncio.sleep(POLL_S)

    def _receive(self) -> None:
        receive, receive_more = self._subscriber.recv, self._subscriber.try_recv
        try:
            while True:
                sample = receive()
                lot = []
                while sample is not None:
                    lot.append(decode(sample.payload.to_bytes()))
                    if len(lot) == LOT:
                        break
                    sample = receive_more()
                self._inbox.put(lot)
        except zenoh.ZError:  # closed
            return

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """Waits inside where a link is congested."""
        put = self._publisher.put
        for message in self.encoded(updates):
            put(message)
        await asyncio.sleep(0)

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """What the thread has brought."""
        async for batch in self._inbox.batches(limit):
            yield batch

    async def close(self) -> None:
        """The thread ends with it."""
        self._inbox.close()
        await self.loop.run_in_executor(None, self._session.close)


def work() -> int:
    """One worker."""
    return main(joining(ZenohChannel))
