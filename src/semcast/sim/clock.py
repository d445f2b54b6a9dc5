"""Time and chance, the two inputs that a simulation owns.

`VirtualClock` is a heap of (time, tie, callback, arguments): what is due first runs first, and
among equals what was scheduled first, so nothing depends on hashes or identities [SRM §5.2].
`rng_stream` derives one generator per purpose from the seed: a new fault draws from its own stream
and leaves every other draw of the run as it was.
`CpuModel` charges handlers' processor time to the simulated clock [SRM §5.4].
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from time import thread_time_ns
from typing import Any

from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError
from semcast.terms.limits import check_finite


def rng_stream(seed: int, *purpose: object) -> Random:
    """The generator of one purpose; the same for equal arguments in every process."""
    # Random hashes a string with SHA-512, never with hash().
    return Random(rng_stream_seed(seed, *purpose))


def rng_stream_seed(seed: int, *purpose: object) -> str:
    """What that generator is made from, for who makes it elsewhere."""
    return "/".join(map(str, (seed, *purpose)))


class VirtualClock:
    """Virtual time.  Invariant: nothing in the heap is due before `now`."""

    __slots__ = ("_heap", "_tie", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._tie = count()

    def __repr__(self) -> str:
        return f"VirtualClock(now={self.now}, scheduled={len(self._heap)})"

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, callback: Callable[..., None], args: tuple[Any, ...] = ()) -> None:
        """Call `callback(*args)` at `when`, which is not before `now`."""
        heappush(self._heap, (when, next(self._tie), callback, args))

    def run(self, until: float) -> None:
        """Carry out everything due up to and at `until`; then it is `until` (unless infinite)."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, callback, args = heappop(heap)
            callback(*args)
        if self.now < until < inf:
            self.now = until


class CpuModel:
    """What handlers cost.  One for all processes; each is busy for its own handlers only.

    A handler costs `factor` times its measured time, plus `stack_s` for each datagram that goes
    through the operating system's UDP/IP stack, in or out [SRM §6.1].  Time is the thread's
    processor time: a wall clock would charge the simulated process for every moment in which the
    host ran something else, and the clock of the whole process for its other threads.  Reading
    it costs about 0.7 µs, which is charged too.

    `costs_ns` records what was measured; a run given that list as `replay` charges it again
    instead of measuring, and so repeats the recorded run exactly.  With `handler_s` every handler
    costs that much, and nothing is measured.
    """

    __slots__ = ("_replay", "costs_ns", "factor", "handler_s", "stack_s")

    def __init__(
        self,
        *,
        factor: float = 1.0,
        stack_s: float = 10e-6,
        replay: Sequence[int] | None = None,
        handler_s: float | None = None,
    ) -> None:
        check_finite("factor", factor)
        check_finite("stack_s", stack_s)
        if handler_s is not None:
            check_finite("handler_s", handler_s)
        self.handler_s = handler_s
        self.factor = factor
        self.stack_s = stack_s
        self.costs_ns: list[int] = []
        self._replay = replay

    def run(
        self, handler: Callable[..., None], args: tuple[Any, ...], now: float, out: Effects
    ) -> float:
        """Run a handler; the seconds of processor time it is charged."""
        if self.handler_s is not None:
            handler(*args, now, out)
            return self.handler_s
        started = thread_time_ns()
        handler(*args, now, out)
        cost = thread_time_ns() - started
        if self._replay is not None:
            if len(self.costs_ns) == len(self._replay):
                raise ConfigError(
                    f"replay: this run needs more than the {len(self._replay)} recorded costs"
                )
            cost = self._replay[len(self.costs_ns)]
        self.costs_ns.append(cost)
        return cost * self.factor * 1e-9
