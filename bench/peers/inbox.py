"""Messages that a system's own thread brings, for the event loop that takes them.

Bound: whoever brings more than there is room for waits, as a callback would in an application
that is busy.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence

from semcast.runtime.application.mailbox import Message


class Inbox:
    """Lives in the loop's thread; only `put` may be called from others."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._messages: deque[Message] = deque()
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._is_idle = False  # The loop waits for messages.
        self._is_full = False  # Somebody waits for room.
        self._space = threading.Condition()
        self._is_closed = False

    def put(self, messages: Sequence[Message]) -> None:
        """From any thread; waits for room."""
        if len(self._messages) >= self._room:
            with self._space:
                self._space.wait_for(self._has_room)
        self._messages.extend(messages)
        if self._is_idle and not self._is_closed:
            self._is_idle = False
            self._loop.call_soon_threadsafe(self._ready.set)

    def _has_room(self) -> bool:
        self._is_full = True  # before looking: whoever takes some meanwhile looks here
        return len(self._messages) < self._room or self._is_closed

    async def batches(self, limit: int) -> AsyncIterator[list[Message]]:
        """What was brought, until closed."""
        messages = self._messages
        while not self._is_closed:
            if messages:
                yield [messages.popleft() for _ in range(min(limit, len(messages)))]
                if self._is_full:
                    with self._space:
                        self._is_full = False
                        self._space.notify_all()
                await asyncio.sleep(0)
                continue
            self._ready.clear()
            self._is_idle = True
            if not messages:  # Who brought some before could not know.
                await self._ready.wait()

    def close(self) -> None:
        """Let everyone who waits go on."""
        self._is_closed = True
        self._ready.set()
        with self._space:
            self._space.notify_all()
