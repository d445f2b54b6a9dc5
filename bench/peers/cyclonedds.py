"""Eclipse Cyclone DDS: reliable, over its own UDP multicast on the loopback interface.

Where only the newest of each item matters, items are keys and both sides keep the last sample of
each (KEEP_LAST 1); else everything is kept until taken (KEEP_ALL).  Samples stay in the reader's
cache, where newer ones replace them, until the application takes them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from cyclonedds.core import (
    DDSException,
    InstanceState,
    Policy,
    Qos,
    ReadCondition,
    SampleState,
    ViewState,
    WaitSet,
)
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import key
from cyclonedds.idl.types import sequence, uint8
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from peers.channel import PeerChannel, decode, joining, keeps_latest

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import main
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

DOMAIN = 0
CONFIG = (
    "<CycloneDDS><Domain><General><Interfaces>"
    "<NetworkInterface address='127.0.0.1' multicast='true'/>"
    "</Interfaces><MaxMessageSize>65500B</MaxMessageSize></General></Domain></CycloneDDS>"
)
POLL_S = 0.02
BLOCKED_MS = 20  # that a write may wait for room before other tasks get their turn
IDLE_MS = 200  # until a reader looks whether it was closed


@dataclass
class Sample(IdlStruct, typename="Sample"):
    """One message, its item as the key."""

    item: str
    key("item")
    body: sequence[uint8]


class DdsChannel(PeerChannel):
    """One participant with a writer or a reader."""

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(plan)
        history = Policy.History.KeepLast(1) if keeps_latest(plan) else Policy.History.KeepAll
        qos = Qos(Policy.Reliability.Reliable(duration(milliseconds=BLOCKED_MS)), history)
        self._domain = Domain(DOMAIN, CONFIG)
        self._participant = DomainParticipant(DOMAIN)
        topic = Topic(self._participant, plan.group, Sample, qos=qos)
        if self.sends:
            self._writer = DataWriter(self._participant, topic, qos=qos)
            return
        self._reader = DataReader(self._participant, topic, qos=qos)
        self._waiting = WaitSet(self._participant)
        states = SampleState.Any | ViewState.Any | InstanceState.Any
        self._waiting.attach(ReadCondition(self._reader, states))

    async def open(self) -> None:
        """All writers and readers have found each other."""
        while len(self._found()) < (self.receivers if self.sends else 1):
            await asyncio.sleep(POLL_S)

    def _found(self) -> list[int]:
        if self.sends:
            return self._writer.get_matched_subscriptions()
        return self._reader.get_matched_publications()

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """A write waits for room as long as it may, then again."""
        updates = list(updates)
        write = self._writer.write
        for update, body in zip(updates, self.encoded(updates), strict=True):
            sample = Sample(update.item or "", body)
            while True:
                try:
                    write(sample)
                    break
                except DDSException as error:
                    if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                        raise
                    await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """Takes what the cache holds."""
        if self.sends:
            await self.closed.wait()
        while not self.closed.is_set():
            taken = self._reader.take(limit)
            if taken:
                yield [decode(bytes(sample.body)) for sample in taken if isinstance(sample, Sample)]
                await asyncio.sleep(0)
            else:
                await self.loop.run_in_executor(
                    None, self._waiting.wait, duration(milliseconds=IDLE_MS)
                )


def work() -> int:
    """One worker."""
    return main(joining(DdsChannel))
