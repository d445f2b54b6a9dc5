"""What waits for a simulated process that is paused or busy.

Inputs keep their order.  Datagrams wait in a socket buffer that overflows; those that wait with
nothing else between them are read at once, as by a live driver.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

Handler: TypeAlias = Callable[..., None]
Unread: TypeAlias = list[tuple[int, list[Any]]]
"""Datagrams in the order they came, neighbours of one source together."""


class Inbox:
    """Lives as long as one incarnation.  `datagrams_max` is what the socket buffer holds."""

    def __init__(self, datagrams_max: int) -> None:
        self._datagrams_max = datagrams_max
        self._inputs: deque[tuple[Handler, tuple[Any, ...], Unread | None]] = deque()
        self._unread: Unread | None = None  # the last input, if it is datagrams
        self._datagrams = 0

    def __len__(self) -> int:
        return len(self._inputs)

    def put(self, handler: Handler, args: tuple[Any, ...]) -> None:
        """An input other than a datagram."""
        self._inputs.append((handler, args, None))
        self._unread = None

    def put_datagram(self, read: Handler, source: int, datagram: Any) -> bool:
        """A datagram, for `read`; False if there is no room for it."""
        if self._datagrams >= self._datagrams_max:
            return False
        self._datagrams += 1
        if self._unread is None:
            self._unread = []
            self._inputs.append((read, (self._unread,), self._unread))
        if self._unread and self._unread[-1][0] == source:
            self._unread[-1][1].append(datagram)
        else:
            self._unread.append((source, [datagram]))
        return True

    def take(self) -> tuple[Handler, tuple[Any, ...], int]:
        """The input that has waited longest, and how many datagrams it is."""
        handler, args, unread = self._inputs.popleft()
        if unread is self._unread:
            self._unread = None
        count = 0 if unread is None else sum(len(datagrams) for _, datagrams in unread)
        self._datagrams -= count
        return handler, args, count
