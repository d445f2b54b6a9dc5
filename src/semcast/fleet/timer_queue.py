"""What is due when, on the running loop's clock: one heap and one timer, however much is scheduled.

What is due first runs first, and among equals what was scheduled first, as on the simulator's
clock.  Nothing runs early; a loop's timer may be a millisecond late.
"""

import heapq
from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any


class TimerQueue:
    """Invariant: unless `run_expired` is at work, the timer is set for the head of the heap."""

    __slots__ = ("_heap", "_set_for", "_tie", "_timer")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._tie = count()
        self._timer: TimerHandle | None = None
        self._set_for = inf

    def __repr__(self) -> str:
        return f"TimerQueue(scheduled={len(self._heap)}, next={self._set_for})"

    @property
    def now(self) -> float:
        """The loop's time."""
        return get_running_loop().time()

    def call_at(self, when: float, callback: Callable[..., None], *args: Any) -> None:
        """Call `callback(*args)` once the loop's time has reached `when`; never, if infinite."""
        if when < inf:
            heapq.heappush(self._heap, (when, next(self._tie), callback, args))
            if when < self._set_for:
                self._set_timer()

    def run_expired(self) -> None:
        """Carry out what is due by now, instead of waiting for the timer."""
        heap = self._heap
        now = self.now
        if not heap or heap[0][0] > now:
            return
        try:
            while heap and heap[0][0] <= now:
                _, _, callback, args = heapq.heappop(heap)
                callback(*args)
        finally:
            self._set_timer()

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._set_for = self._heap[0][0] if self._heap else inf
        self._timer = None
        if self._heap:
            self._timer = get_running_loop().call_at(self._set_for, self._wake)

    def _wake(self) -> None:
        self.run_expired()
        self._set_timer()  # Loops may wake within their clock's resolution too early.
