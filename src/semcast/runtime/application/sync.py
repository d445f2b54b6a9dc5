"""A group, a store and a service without `async`, for scripts and notebooks.

    from semcast import sync

    with sync.join("quotes", members=3) as group:
        group.multicast(b"101.25", item="ACME")
        for message in group:
            print(message.sender, message.item, message.payload)

The protocol runs in a thread of its own, so it goes on while the script computes.  Each call
crosses threads: `multicast_many` and `receive` do so once for many messages.  `snapshot` and
`restore` of a group with views run in that thread, while the script waits in `receive` or iterates.
A fork does not take that thread along: in a child every call raises, and the child joins again.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from semcast.runtime.application import client as live_client
from semcast.runtime.application import group as live
from semcast.runtime.application import store as live_store
from semcast.runtime.application.group_events import View
from semcast.runtime.application.join import join as join_live
from semcast.runtime.application.mailbox import Message
from semcast.runtime.application.service_connection import ServiceConnection
from semcast.runtime.event_loop import new_event_loop
from semcast.runtime.operations.snapshot import Snapshot
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import Seq
from semcast.terms.items import Item
from semcast.terms.messages import Update
from semcast.wire.forks import Ancestry, forked

T = TypeVar("T")
C = TypeVar("C", bound=ServiceConnection)


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="semcast", daemon=True)
        self._thread.start()
        self._submitting = threading.Lock()
        self._is_closed = False
        self._forks = Ancestry.forks

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process that has the thread."""
        return self._forks != Ancestry.forks

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, which is cancelled if whoever waits for it is interrupted."""
        if self.is_forked:  # first: somebody may have held the lock, and nothing would ever run
            work.close()
            raise forked("semcast.sync")
        with self._submitting:
            if self._is_closed:
                work.close()
                raise LocalProtocolError("the group is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End what still runs, then the loop and its thread; those of a parent are left alone."""
        if self.is_forked:
            return
        with self._submitting:  # What is submitted later would never run.
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._end_tasks(), self._loop).result()
        threads = self._loop.shutdown_default_executor()
        asyncio.run_coroutine_threadsafe(threads, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Group:
    """As `semcast.Group`, with calls that block; one thread at a time may receive."""

    def __init__(self, loop: LoopThread, group: live.Group) -> None:
        self._loop = loop
        self._group = group

    def __repr__(self) -> str:
        return repr(self._group)

    @property
    def name(self) -> str:
        """The group's name."""
        return self._group.name

    @property
    def member(self) -> str:
        """This member's name."""
        return self._group.member

    @property
    def members(self) -> tuple[str, ...]:
        """Everybody's names, in rank order."""
        return self._group.members

    @property
    def view(self) -> View:
        """Who is in the group, as this member has been told so far."""
        return self._group.view

    def multicast(
        self,
        payload: bytes,
        *,
        item: Item | None = None,
        never_purge: bool = False,
        obsoletes: Sequence[Seq] = (),
    ) -> Seq:
        """Send a message to the group, this member included; returns its number."""
        return self._loop.run(
            self._group.multicast(payload, item=item, never_purge=never_purge, obsoletes=obsoletes)
        )

    def multicast_many(self, updates: Iterable[Update]) -> Seq:
        """Send a batch, in order; returns the last one's number."""
        return self._loop.run(self._group.multicast_many(list(updates)))

    def try_multicast(
        self,
        payload: bytes,
        *,
        item: Item | None = None,
        never_purge: bool = False,
        obsoletes: Sequence[Seq] = (),
    ) -> Seq | None:
        """As `multicast`, but where that would wait nothing is sent and None is returned."""
        return self._loop.run(self._try_multicast(payload, item, never_purge, obsoletes))

    async def _try_multicast(
        self, payload: bytes, item: Item | None, never_purge: bool, obsoletes: Sequence[Seq]
    ) -> Seq | None:
        return self._group.try_multicast(
            payload, item=item, never_purge=never_purge, obsoletes=obsoletes
        )

    def tombstone(self, item: Item, payload: bytes = b"") -> Seq:
        """Say that an item is gone."""
        return self._loop.run(self._group.tombstone(item, payload))

    def receive(
        self, limit: int = live.RECEIVE_MAX, timeout_s: float | None = None
    ) -> list[Message]:
        """Wait for messages; none after `timeout_s`, or once the group is closed."""
        if self._group.is_closed:
            return []
        try:
            return self._loop.run(self._receive(limit, timeout_s))
        except TimeoutError:
            return []

    async def _receive(self, limit: int, timeout_s: float | None) -> list[Message]:
        async with asyncio.timeout(timeout_s):
            return await self._group.receive(limit)

    def receive_events(
        self, limit: int = live.RECEIVE_MAX, timeout_s: float | None = None
    ) -> list[live.GroupEvent]:
        """Wait for messages, or for what happens between them; none as for `receive`."""
        if self._group.is_closed:
            return []
        try:
            return self._loop.run(self._receive_events(limit, timeout_s))
        except TimeoutError:
            return []

    async def _receive_events(self, limit: int, timeout_s: float | None) -> list[live.GroupEvent]:
        async with asyncio.timeout(timeout_s):
            return await self._group.receive_events(limit)

    def events(self) -> Iterator[live.GroupEvent]:
        """Iterate over messages, changes of the view and confirmations, in their order."""
        while batch := self.receive_events():
            yield from batch

    def __iter__(self) -> Iterator[Message]:
        while batch := self.receive():
            yield from batch

    def forget(self, member: str) -> None:
        """Go on without a member that crashed or is given up."""
        self._loop.run(self._forget(member))

    async def _forget(self, member: str) -> None:
        self._group.forget(member)

    def snapshot(self) -> Snapshot:
        """How this member and its peers are doing."""
        return self._loop.run(self._snapshot())

    async def _snapshot(self) -> Snapshot:
        return self._group.snapshot()

    def close(self) -> None:
        """Leave the group; twice is fine.  Does nothing in a forked child: the parent leaves."""
        if not self._group.is_closed and not self._loop.is_forked:
            try:
                self._loop.run(self._group.close())
            finally:
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class BlockingConnection(Generic[C]):
    """A client of a service, whose calls block; from `open` to `close`."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._loop = LoopThread()
        self._is_closed = False
        try:
            self._live = self._loop.run(_opened(make))
        except BaseException:
            self._loop.close()
            raise

    def close(self) -> None:
        """Close the client; twice is fine.  Does nothing in a forked child."""
        if not self._is_closed and not self._loop.is_forked:
            self._is_closed = True
            try:
                self._loop.run(self._live.close())
            finally:
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Store(BlockingConnection[live_store.Store]):
    """As `semcast.Store`, with calls that block; made by `open_store`.  Threads may share it."""

    def get(self, key: str | bytes) -> bytes | None:
        """The value of a key, None if there is none."""
        return self._loop.run(self._live.get(key))

    def set(self, key: str | bytes, value: str | bytes) -> None:
        """Give a key a value."""
        self._loop.run(self._live.set(key, value))

    def incr(self, key: str | bytes, amount: int = 1) -> int:
        """Add to a counter, which begins at 0; returns its new value."""
        return self._loop.run(self._live.incr(key, amount))

    def delete(self, key: str | bytes) -> bool:
        """Remove a key; returns whether it was there."""
        return self._loop.run(self._live.delete(key))

    def watch(self, key: str | bytes) -> Iterator[bytes | None]:
        """Iterate over the values of a key, as `semcast.Store.watch` does."""
        values = self._live.watch(key)
        while True:
            yield self._loop.run(_next(values))


class Client(BlockingConnection[live_client.Client]):
    """As `semcast.Client`, with calls that block.

    with sync.Client("bank") as client:
        balance = client.request(["ada", 100])
    """

    def __init__(self, group: str, **options: Any) -> None:
        super().__init__(lambda: live_client.Client(group, **options))

    def request(self, request: Any) -> Any:
        """Ask the service, and return its reply."""
        return self._loop.run(self._live.request(request))


async def _next(values: AsyncIterator[bytes | None]) -> bytes | None:
    return await anext(values)


async def _opened(make: Callable[[], C]) -> C:
    return await make().__aenter__()


def open_store(peers: Any, **options: Any) -> Store:
    """A client of a replicated store; takes what `semcast.open_store` takes.

    with sync.open_store("a=127.0.0.1:7101,b=127.0.0.1:7102") as store: ...
    """
    return Store(lambda: live_store.open_store(peers, **options))


async def _join(group: str, options: dict[str, Any]) -> live.Group:
    return await join_live(group, **options)


def join(group: str, **options: Any) -> Group:
    """Join a group; takes what `semcast.join` takes.

    with sync.join("quotes", members=3) as group: ...
    """
    loop = LoopThread()
    try:
        return Group(loop, loop.run(_join(group, options)))
    except BaseException:
        loop.close()
        raise
