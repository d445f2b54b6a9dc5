"""Live members in one event loop, apart from everything else on the machine.

Tests may be coroutines; each has a deadline, so nothing waits for ever and nothing sleeps.
"""

import asyncio
import inspect
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import semcast

DEADLINE_S = 20


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
        known = {"control": False, "join_timeout": 10, "linger": 2}
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
