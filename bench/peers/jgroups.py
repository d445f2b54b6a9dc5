"""JGroups with the stack that it ships as udp.xml, on loopback, behind a pipe for each process.

Java sends what comes through its pipe and hands on what it receives: Python to Python, as all the
others.  A receiver that is busy leaves its pipe full, which holds up JGroups' own thread, and in
time the sender.  Members join one after the first: those that start alone take long to merge.
"""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from struct import Struct

from peers.channel import PeerChannel, decode, joining
from peers_order.jgroups import java

from semcast.fleet.plan import WorkerPlan
from semcast.fleet.worker import cpu_s, cpu_s_of, main
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

ROOM = 1000
READ_BYTES = 1 << 16
POLL_S = 0.02
LENGTH = Struct(">I")


class JGroupsChannel(PeerChannel):
    """One Java process."""

    java: Process

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(plan)
        self._rest = b""  # of what was read
        self._first = Path(plan.options["folder"]) / "joined"

    async def open(self) -> None:
        """Until all are in the group."""
        options = self.plan.options
        while not self.sends and not self._first.exists():
            await asyncio.sleep(POLL_S)
        command = java(Path(options["classes"]), "Piped", options["port"])
        facts = (options["members"], options["buffer"] or ROOM, int(self.sends))
        words = (*command, self.plan.group, *map(str, facts))
        process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
        JGroupsChannel.java = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout
        await self._from.readexactly(LENGTH.size)
        self._first.touch()
        await self._from.readexactly(LENGTH.size)

    async def multicast_many(self, updates: Iterable[Update]) -> None:
        """Into the pipe, as far as Java takes it."""
        parts = []
        for message in self.encoded(updates):
            parts += (LENGTH.pack(len(message)), message)
        self._to.write(b"".join(parts))
        await self._to.drain()
        await asyncio.sleep(0)

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """What came through the pipe."""
        while not self.closed.is_set():
            batch = self._parsed(limit)
            if batch:
                yield batch
                await asyncio.sleep(0)
                continue
            more = await self._from.read(READ_BYTES)
            if not more:
                return
            self._rest += more

    def _parsed(self, limit: int) -> list[Message]:
        """The first messages that are here as a whole."""
        data, place, batch = memoryview(self._rest), 0, []
        while len(batch) < limit and place + LENGTH.size <= len(data):
            end = place + LENGTH.size + LENGTH.unpack_from(data, place)[0]
            if end > len(data):
                break
            batch.append(decode(data[place + LENGTH.size : end]))
            place = end
        self._rest = self._rest[place:]
        return batch

    async def close(self) -> None:
        """It may be waiting to send: it is not asked."""
        self.java.kill()
        await self.java.wait()


def cpu_with_java_s() -> float:
    """Of both processes."""
    return cpu_s() + cpu_s_of(JGroupsChannel.java.pid)


def work() -> int:
    """One worker."""
    return main(joining(JGroupsChannel), cpu_with_java_s)
