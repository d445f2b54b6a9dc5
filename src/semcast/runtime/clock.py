"""What a driver knows of time: the event loop's in a live member, a test's own in a test."""

import asyncio
from collections.abc import Callable
from math import ceil
from time import monotonic, monotonic_ns, time_ns
from typing import Any, Final, Protocol

CLOCK_READINGS: Final = 8


class Timer(Protocol):
    """A call that has not been made yet."""

    def cancel(self) -> None: ...


class DriverClock(Protocol):
    """Tells the time and calls back; `wall_ns` is for traces, which several machines write."""

    def now(self) -> float: ...

    def wall_ns(self) -> int: ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer: ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...


def wall_clock_offset_ns() -> int:
    """What the wall clock is ahead of the monotonic one, as if both were read at once."""
    readings = [(monotonic_ns(), time_ns(), monotonic_ns()) for _ in range(CLOCK_READINGS)]
    before, wall, after = min(readings, key=lambda each: each[2] - each[0])
    return wall - (before + after) // 2


class LoopClock:
    """The monotonic clock, and the timers of the event loop that runs."""

    now = staticmethod(monotonic)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._offset_ns = wall_clock_offset_ns()
        self.call_soon = self._loop.call_soon

    def wall_ns(self) -> int:
        """The time that traces of several members agree on."""
        return monotonic_ns() + self._offset_ns

    def call_at(self, when: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Call back at `when` or a little later.  Loops may count milliseconds, and would call
        several times too early."""
        delay_s = ceil((when - monotonic()) * 1000) / 1000
        return self._loop.call_later(max(0.0, delay_s), callback)
