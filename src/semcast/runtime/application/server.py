"""One live server of a replicated service: the interface of the application."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from semcast.runtime.application.group_events import View, ViewChange
from semcast.runtime.application.loop_bound import LoopBound
from semcast.runtime.application.mailbox import Message
from semcast.runtime.application.port import GroupPort
from semcast.runtime.driver import Driver
from semcast.runtime.operations.snapshot import Snapshot
from semcast.runtime.options.options import Options
from semcast.terms.errors import SemcastError
from semcast.terms.outputs import Delivery, Output
from semcast.terms.views import MEMBER

READY: Final = 1 << 20  # messages that a server takes at once: it applies them where it gets them
LOOK_S: Final = 0.1  # between two looks at what a server is


class ServerPort(GroupPort):
    """What a server's application gets: changes of the view.  It gets no messages, because the
    machine has applied them already; so it is always ready for more."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.status = ""  # what the last change of the view said
        self.changed = asyncio.Event()
        self.ended: SemcastError | None = None
        self._applied = 0

    @property
    def readiness(self) -> int:
        """A machine that begins may deliver so many messages at once."""
        return READY

    def put(self, outputs: Sequence[Output]) -> int:
        """Enter views at once; returns how many messages were applied, once they are many: each
        return is another input of the machine."""
        super().put(outputs)
        while (change := self.mailbox.pass_marker(self.on_marker)) is not None:
            if isinstance(change, ViewChange):
                self.status = change.status
                self.changed.set()
        if 2 * self._applied < self.readiness:
            return 0
        applied, self._applied = self._applied, 0
        return applied

    def _app_messages(self, delivery: Delivery) -> list[Message]:
        self._applied += delivery.run.count
        self.delivered += delivery.run.count
        self.skipped += delivery.skipped
        return []

    def end(self, reason: SemcastError | None) -> None:
        """Nothing more will come."""
        super().end(reason)
        self.ended = reason
        self.changed.set()


class ServerChange(msgspec.Struct, frozen=True):
    """What a server is now.

    `role` is "primary": of a service, it executes requests; of a store, it can update.  "backup":
    it applies what the primary has executed.  "recovering": it gets what it lacks from the others.
    "minority": too few servers can be reached, so nothing is updated.  "excluded": the others went
    on without it, and it joins them again.  `primary` is the name of the primary of a service.
    `left_out` are servers that are too slow: the others make no view with them for a while.
    """

    view: View
    role: str
    primary: str | None
    left_out: tuple[str, ...] = ()


class Server(LoopBound):
    """One server of a replicated service or store; made by `replicate` or `serve`.

        async with semcast.replicate(Bank(), group="bank", members=3) as server:
            async for change in server.changes():
                print(change.role, change.view.members)

    It serves until it is closed, whether or not anybody iterates.
    """

    def __init__(
        self,
        options: Options,
        driver: Driver,
        port: ServerPort,
        name_of: Callable[[int], str],
        snapshot: Callable[[], Snapshot],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(f"server {options.name!r} of {options.group!r}", close)
        self._bind()
        self.group = options.group
        self.name = options.name
        self._driver = driver
        self._port = port
        self._name_of = name_of
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return f"Server({self.group!r}, name={self.name!r}, role={self.state.role!r})"

    @property
    def state(self) -> ServerChange:
        """What this server is now."""
        port, status = self._port, self._driver.status()
        if port.status not in ("", MEMBER):
            return ServerChange(port.view, port.status, None)
        primary = None if status.primary is None else self._name_of(status.primary)
        left_out = tuple(sorted(map(self._name_of, status.left_out_s)))
        return ServerChange(port.view, status.role, primary, left_out)

    @property
    def version(self) -> int:
        """How many updates have made the state of this server."""
        return self._driver.status().version

    async def changes(self) -> AsyncIterator[ServerChange]:
        """Iterate over what this server is: now, and whenever that changes.

        Ends when the server is closed; raises the error that ended it.  Of several changes since
        the last look, only the newest is returned.
        """
        seen: ServerChange | None = None
        port = self._port
        while True:
            self._check("changes")
            if (state := self.state) != seen:
                seen = state
                yield state
            elif port.ended is not None:
                raise port.ended
            elif self._driver.ended is not None:
                return
            else:
                port.changed.clear()
                with suppress(TimeoutError):  # The role may change within a view.
                    async with asyncio.timeout(LOOK_S):
                        await port.changed.wait()

    async def wait(self) -> None:
        """Serve until the server is closed; raises the error that ended it."""
        async for _ in self.changes():
            pass

    def snapshot(self) -> Snapshot:
        """How this server and the others are doing, as `Group.snapshot`."""
        self._check("snapshot")
        return self._snapshot()
