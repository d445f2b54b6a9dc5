"""What a live group, server and client share as objects: each belongs to one event loop.

Calls from another thread or from a forked child would race with the protocol, so they are refused
with an error that names the call.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import Final, Self

from semcast.terms.errors import LocalProtocolError
from semcast.wire.forks import Ancestry, forked

NOWHERE: Final = 0  # no thread has this number


class LoopBound:
    """Belongs to the event loop in which it was opened; `close` ends it, once."""

    def __init__(self, subject: str, close: Callable[[], Awaitable[None]]) -> None:
        """`subject` is what an error calls it, such as "group 'quotes'"."""
        self._subject = subject
        self._close = close
        self._thread = NOWHERE
        self._is_forked = False
        self.is_closed = True

    def _bind(self) -> None:
        """From now on it is open, and belongs to the event loop that runs here."""
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self.is_closed = False
        Ancestry.listeners.add(self)

    def on_fork(self) -> None:
        """This is the child's copy."""
        self._is_forked, self._thread = True, NOWHERE

    def _check(self, call: str) -> None:
        """Refuse a call from where it would race with the protocol: another thread, or a child."""
        if get_ident() != self._thread:
            self._refuse(call)

    def _refuse(self, call: str) -> None:
        if self._is_forked:
            raise forked(call)
        with suppress(RuntimeError):  # which says that no event loop runs here
            if asyncio.get_running_loop() is self._loop:
                self._thread = get_ident()  # It was moved, as a whole.
                return
        raise LocalProtocolError(
            f"{call}: called from thread {threading.current_thread().name!r}, but "
            f"{self._subject} belongs to the thread of the event loop that joined it; use "
            "semcast.sync, asyncio.run_coroutine_threadsafe or loop.call_soon_threadsafe"
        )

    async def close(self) -> None:
        """Leave: wait, for at most `linger`, until everyone has everything; twice is fine.

        In a forked child it does nothing: the parent is the member, and leaves when it likes.
        """
        if not self.is_closed and not self._is_forked:
            self._check("close")
            self.is_closed = True
            await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
