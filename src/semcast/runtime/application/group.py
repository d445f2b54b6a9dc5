"""A live group: the interface of the application.

Everything runs in the event loop that joined; calls from another thread are refused with an error
that names the call.  An application that keeps the loop busy, or takes its time between two
messages, is a slow member, and that is fine.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import islice
from threading import get_ident
from typing import Final, Protocol, TypeAlias

import msgspec

from semcast.kernel import ItemLabels
from semcast.runtime.application.group_events import Confirmed, View, ViewChange
from semcast.runtime.application.loop_bound import LoopBound
from semcast.runtime.application.mailbox import Message
from semcast.runtime.application.port import GroupPort
from semcast.runtime.driver import YIELD_AFTER_MESSAGES, Driver
from semcast.runtime.operations.snapshot import Snapshot
from semcast.runtime.options.options import Options
from semcast.runtime.options.recipe_settings import relation_of
from semcast.terms.errors import BufferFull, LocalProtocolError, NoQuorum
from semcast.terms.ids import Seq
from semcast.terms.items import Item
from semcast.terms.messages import Update
from semcast.terms.relations import EVERYTHING, ITEM, facts_of

RECEIVE_MAX: Final = 1024

GroupEvent: TypeAlias = Message | ViewChange | Confirmed


class Relation(Protocol):
    """Which of its own earlier messages a message makes obsolete, as the application knows it.

    It must be transitive in effect and may be incomplete: what it does not name is merely not
    purged.  `obsoletes` changes nothing, since it is asked again, perhaps with another number, for
    a message that found no room; `sent` follows once the message has its number.

        class Sensors:
            def __init__(self):
                self.last = {}

            def obsoletes(self, seq, item, payload):
                return [self.last[item]] if item in self.last else []

            def sent(self, seq, item, payload):
                self.last[item] = seq
    """

    def obsoletes(self, seq: Seq, item: Item | None, payload: bytes) -> Iterable[Seq]: ...

    def sent(self, seq: Seq, item: Item | None, payload: bytes) -> None: ...


class Group(LoopBound):
    """A member's hold on its group; made by `join`.

        async with semcast.join("quotes", members=3) as group:
            await group.multicast(b"101.25", item="ACME")
            async for message in group:
                print(message.sender, message.item, message.payload)

    `name` is the group's, `member` this member's, `members` everybody's names in rank order.  With
    views, `events` tells besides messages how the membership changes.
    """

    def __init__(
        self,
        options: Options,
        driver: Driver,
        port: GroupPort,
        snapshot: Callable[[], Snapshot],
        forget: Callable[[str], None],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(f"group {options.group!r}", close)
        self._bind()
        self.name = options.group
        self.member = options.name
        self._driver = driver
        self._port = port
        self._snapshot, self._forget = snapshot, forget
        relation = options.relation
        self._relation: Relation | None = None if isinstance(relation, str) else relation
        self._check_update = ItemLabels().identify  # raises if an update cannot be sent
        self._has_items = facts_of(relation_of(options.recipe())).replaces in (ITEM, EVERYTHING)
        self._unread: list[Message] = []  # of what iteration took, the next one last

    def __repr__(self) -> str:
        return f"Group({self.name!r}, member={self.member!r}, members={list(self.members)})"

    @property
    def members(self) -> tuple[str, ...]:
        """Everybody's names, in rank order."""
        return self._port.view.members

    @property
    def view(self) -> View:
        """Who is in the group, as this member has been told so far."""
        return self._port.view

    async def multicast(
        self,
        payload: bytes,
        *,
        item: Item | None = None,
        never_purge: bool = False,
        obsoletes: Sequence[Seq] = (),
    ) -> Seq:
        """Send a message to the group, this member included; returns its number.

        It supersedes what this member sent before about the same `item`, which is a name or a whole
        number of 64 bits.  With relation "list"
        or "bitmap", `obsoletes` names earlier numbers instead.  Nothing ever supersedes a message
        sent with `never_purge`.  Waits only while the buffer is full of messages that may not be
        purged; under overflow="error" it raises `BufferFull` instead.  With views it also waits
        while the group agrees on the next one, and while this member can reach too few others;
        under overflow="error" it raises `NoQuorum` in that case.

            seq = await group.multicast(b"101.25", item="ACME")
        """
        if get_ident() != self._thread:  # as `_check`, which costs three times as much to call
            self._refuse("multicast")
        return await self._send([Update(payload, item, never_purge, tuple(obsoletes))])

    async def multicast_many(self, updates: Iterable[Update]) -> Seq:
        """Send a batch, in order; cheaper than one by one.  Returns the last one's number.

        If it raises, those before the offending one are on their way.

            await group.multicast_many([Update(b"1", "a"), Update(b"2", "b")])
        """
        self._check("multicast_many")
        if isinstance(updates, list) and 0 < len(updates) <= YIELD_AFTER_MESSAGES:
            return await self._send(updates[:])
        last, given = self._driver.machine.sent, iter(updates)
        while True:
            batch: list[Update] = []
            try:
                batch += islice(given, YIELD_AFTER_MESSAGES)
            finally:  # What came before an error of the application's is sent.
                if batch:
                    last = await self._send(batch)
            if not batch:
                return last

    async def _send(self, batch: list[Update]) -> Seq:
        """Returns the number of the last one."""
        driver, port, start = self._driver, self._port, 0
        while start < len(batch):
            port.can_send.clear()  # before, since the offer itself may make room
            accepted = self._offer(batch[start:] if start else batch)
            start += accepted
            if not accepted:
                await port.wait_for_room()
        last = driver.machine.sent
        if driver.sent_since_yield >= YIELD_AFTER_MESSAGES:
            await asyncio.sleep(0)  # A sender that never waits must not starve the protocol.
        return last

    def try_multicast(
        self,
        payload: bytes,
        *,
        item: Item | None = None,
        never_purge: bool = False,
        obsoletes: Sequence[Seq] = (),
    ) -> Seq | None:
        """As `multicast`, but where that would wait nothing is sent and None is returned.

        if group.try_multicast(b"101.25", item="ACME") is None: ...
        """
        if get_ident() != self._thread:
            self._refuse("try_multicast")
        try:
            accepted = self._offer([Update(payload, item, never_purge, tuple(obsoletes))])
        except (BufferFull, NoQuorum):
            return None
        return self._driver.machine.sent if accepted else None

    async def tombstone(self, item: Item, payload: bytes = b"") -> Seq:
        """Say that an item is gone: supersedes its updates, and is itself never purged.

        await group.tombstone("ACME")
        """
        self._check("tombstone")
        if not self._has_items:
            raise LocalProtocolError(
                "tombstone: needs relation item; use multicast with obsoletes instead"
            )
        return await self.multicast(payload, item=item, never_purge=True)

    def _offer(self, batch: list[Update]) -> int:
        if self._driver.ended is not None:
            raise self._driver.ended
        if self._relation is None:
            return self._driver.submit(batch)
        # Which messages it may name depends on the number a message gets.
        for sent, update in enumerate(batch):
            seq = self._driver.machine.sent + 1
            if update.obsoletes:
                raise LocalProtocolError(
                    "obsoletes: computed by this group's relation object; remove the argument"
                )
            self._check_update(update)  # The relation object sees only updates that can be sent.
            item, payload = update.item, update.payload
            named = tuple(self._relation.obsoletes(seq, item, payload))
            if not self._driver.submit([msgspec.structs.replace(update, obsoletes=named)]):
                return sent
            self._relation.sent(seq, item, payload)
        return len(batch)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if not self._unread:
            self._unread = await self.receive()
            self._unread.reverse()
            if not self._unread:
                raise StopAsyncIteration
        return self._unread.pop()

    async def receive(self, limit: int = RECEIVE_MAX) -> list[Message]:
        """Wait for messages: at least one, at most `limit`; none once the group is closed.

        for message in await group.receive(): ...
        """
        self._check("receive")
        if self._unread or limit < 1:
            return await self._take(limit)
        mailbox = self._port.mailbox
        while True:
            messages = await mailbox.take(limit)
            if messages or mailbox.pass_marker(self._port.on_marker) is None:
                return messages

    async def _take(self, limit: int) -> list[Message]:
        """What comes next, if that is messages."""
        if limit < 1:
            raise LocalProtocolError(f"limit: {limit} is not at least 1")
        if self._unread:  # by who iterated before
            messages = self._unread[: -limit - 1 : -1]
            del self._unread[-limit:]
            return messages
        return await self._port.mailbox.take(limit)

    async def events(self) -> AsyncIterator[GroupEvent]:
        """Iterate over messages and, in their place between them, over changes of the view and
        confirmations.

        async for event in group.events():
            match event:
                case semcast.Message(): ...
                case semcast.ViewChange(view, joined, left, status): ...
        """
        while True:
            if not self._unread:
                self._check("events")
                self._unread = await self._take(RECEIVE_MAX)
                self._unread.reverse()
            if self._unread:
                yield self._unread.pop()
            elif (event := self._port.mailbox.pass_marker(self._port.on_marker)) is not None:
                yield event
            else:
                return

    async def receive_events(self, limit: int = RECEIVE_MAX) -> list[GroupEvent]:
        """As `receive`, but what happens between messages comes too, in a list of its own.

        for event in await group.receive_events(): ...
        """
        self._check("receive_events")
        messages = await self._take(limit)
        if messages:
            return list(messages)
        event = self._port.mailbox.pass_marker(self._port.on_marker)
        return [] if event is None else [event]

    async def batches(self, limit: int = RECEIVE_MAX) -> AsyncIterator[list[Message]]:
        """Iterate over lists of messages, of at most `limit`: the fast way to read.

        async for batch in group.batches():
            for message in batch: ...
        """
        while batch := await self.receive(limit):
            yield batch

    def forget(self, member: str) -> None:
        """Go on without a member that crashed or is given up; at most f of them.

        What was held for it is released; should it come back, it is told that it was excluded.
        """
        self._check("forget")
        if member not in self.members:
            raise LocalProtocolError(
                f"forget: unknown member {member!r}; the group has {', '.join(self.members)}"
            )
        if self._driver.ended is not None:
            raise self._driver.ended
        self._forget(member)

    def snapshot(self) -> Snapshot:
        """How this member and its peers are doing; `snapshot().slowest` names the slow one."""
        self._check("snapshot")
        return self._snapshot()
