"""Live members in one event loop, apart from everything else on the machine.

Tests may be coroutines; each has a deadline, so nothing waits for ever and nothing sleeps.
"""

import asyncio
import inspect
import json
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import semcast

DEADLINE_S = 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine to its end, in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in wanted}

    async def limited() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await pyfuncitem.obj(**given)

    new_loop = pyfuncitem.funcargs.get("either_loop", asyncio.new_event_loop)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(limited())
    return True


@pytest.fixture(params=["asyncio", "uvloop"])
def either_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """The test runs on both event loops, which differ in what they take a transport to be."""
    return pytest.importorskip(request.param).new_event_loop


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for all that members keep on disk; its path is short, for sockets."""
    for variable in [name for name in os.environ if name.startswith("SEMCAST_")]:
        monkeypatch.delenv(variable)
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        for variable in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(variable, made)
        monkeypatch.setenv("SEMCAST_KEYS", f"{made}/keys.toml")
        yield Path(made)


@pytest.fixture
def quotes(place: Path) -> str:
    """The name of a group that nobody else has."""
    return f"quotes-{secrets.token_hex(8)}"


@pytest.fixture
def join(quotes: str) -> Callable[..., Any]:
    """`join("ada", members=2)`: as `semcast.join`, with a group and patience for tests."""

    def joining(name: str, **options: Any) -> Any:
        known = {"control": False, "join_timeout": 60, "linger": 2}
        return semcast.join(quotes, name=name, **{**known, **options})

    return joining


@pytest.fixture
def meet(join: Callable[..., Any]) -> Callable[..., AbstractAsyncContextManager[Any]]:
    """`async with meet("abc", buffer=4) as (a, b, c)`: a group of members with these names."""

    @asynccontextmanager
    async def meeting(names: str = "abc", **options: Any) -> AsyncIterator[list[semcast.Group]]:
        options = options if "peers" in options else {"members": len(names), **options}
        groups = await asyncio.gather(*(join(name, **options) for name in names))
        try:
            yield groups
        finally:
            await asyncio.gather(*(group.close() for group in groups))

    return meeting


@pytest.fixture
def take() -> Callable[..., Any]:
    """`await take(group, 10)`: the next messages that stand for ten, those skipped included."""

    async def taking(group: semcast.Group, count: int) -> list[semcast.Message]:
        taken: list[semcast.Message] = []
        while sum(1 + message.skipped for message in taken) < count:
            taken += await group.receive(1)
        return taken

    return taking


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    """`free_ports(3)`: as many that nobody uses."""

    def find(count: int) -> list[int]:
        with ExitStack() as held:
            found = [
                held.enter_context(socket.socket(type=socket.SOCK_DGRAM)) for _ in range(count)
            ]
            for each in found:
                each.bind(("127.0.0.1", 0))
            return [each.getsockname()[1] for each in found]

    return find


class Table:
    """An application with views: the last word on every item, and what it was told besides."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.changes: list[semcast.ViewChange] = []
        self.restored: list[bytes] = []
        self.news = asyncio.Event()

    def snapshot(self) -> bytes:
        return json.dumps(self.values).encode()

    def restore(self, state: bytes) -> None:
        self.restored.append(state)
        self.values = json.loads(state or b"{}")

    async def follow(self, group: semcast.Group) -> None:
        async for event in group.events():
            if isinstance(event, semcast.Message):
                self.values[event.item or ""] = event.payload.decode()
            elif isinstance(event, semcast.ViewChange):
                self.changes.append(event)
            self.news.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.news.clear()
            await self.news.wait()

    async def until_status(self, status: str) -> semcast.ViewChange:
        await self.until(lambda: any(change.status == status for change in self.changes))
        return next(change for change in self.changes if change.status == status)

    async def until_members(self, *names: str) -> semcast.ViewChange:
        await self.until(lambda: any(set(c.view.members) == set(names) for c in self.changes))
        return next(c for c in self.changes if set(c.view.members) == set(names))


class Crowd:
    """Members with views and their tables; all are closed in the end."""

    def __init__(self, join: Callable[..., Any]) -> None:
        self._join = join
        self._groups: list[semcast.Group] = []
        self._following: list[asyncio.Task[None]] = []

    async def add(self, name: str, **options: Any) -> tuple[semcast.Group, Table]:
        """One more member."""
        table = Table()
        known = {"protocol": "s-vsm", "snapshot": table.snapshot, "restore": table.restore}
        group = await self._join(name, **{**known, **options})
        self._groups.append(group)
        self._following.append(asyncio.create_task(table.follow(group)))
        return group, table

    async def found(self, names: str, **options: Any) -> list[tuple[semcast.Group, Table]]:
        """Those who begin."""
        members = {} if "peers" in options else {"members": len(names)}
        return await asyncio.gather(*(self.add(name, **members, **options) for name in names))

    @staticmethod
    def mute(group: semcast.Group) -> None:
        """The member neither sends nor hears until it is unmuted."""
        transport = group._driver._channel.transport
        transport.kept = transport.send_all, transport.on_frame
        transport.send_all = lambda *_: None
        transport.on_frame = lambda *_: None

    @staticmethod
    def unmute(group: semcast.Group) -> None:
        transport = group._driver._channel.transport
        transport.send_all, transport.on_frame = transport.kept

    def crash(self, group: semcast.Group) -> None:
        """As good as killed."""
        self.mute(group)
        group._driver.end(None)

    async def close(self) -> None:
        await asyncio.gather(*(group.close() for group in self._groups))
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)


@pytest.fixture
def crowd(join: Callable[..., Any]) -> Callable[[], AbstractAsyncContextManager[Crowd]]:
    """`async with crowd() as here`: a place for members with views."""

    @asynccontextmanager
    async def meeting() -> AsyncIterator[Crowd]:
        here = Crowd(join)
        try:
            yield here
        finally:
            await here.close()

    return meeting
