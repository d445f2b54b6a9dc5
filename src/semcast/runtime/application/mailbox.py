"""Between the protocol and the application: how many messages to prefetch, and who waits for them.

The protocol purges only what waits for the application.  A large prefetch hides obsolete messages
from it; a small one makes a fast application miss some that are superseded within one datagram.
The mailbox prefetches what the application has shown it can take within `PREFETCH_S`: a fast one
misses nothing [SRM §6.3], a slow one gets what is current.  From an application that stays away
for longer, the mailbox withdraws what it asked for.
Asking and measuring have their price, which small batches must not pay each time: the mailbox asks
for more when half has come, and measures one batch in `MEASURE_S`.
`put` is called while a driver carries out effects.  So it returns the change in how many messages
the application can take; it calls nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Final, TypeVar

import msgspec

from semcast.kernel import payload_total
from semcast.terms.errors import LocalProtocolError
from semcast.terms.items import Item

PREFETCH_S: Final = 0.005
MEASURE_S: Final = 0.005
PREFETCH_INITIAL: Final = 64  # before anything is known about the application
PREFETCH_MAX: Final = 32_768
BYTES_MAX: Final = 8 << 20  # beyond it, nothing more is handed over
DECAY: Final = 0.8  # of earlier measurements, after each new one
GROWTH_MAX: Final = 4  # times as much as before is asked for at most, whatever the line says
VARIANCE_MIN: Final = 0.05  # squared: below it, one batch was as large as the other

T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of the group.

    `sender` is the name of the member that sent it, `seq` its number among that member's
    messages.  `kept` says that nothing will ever supersede it (it was sent with `never_purge`,
    or is a tombstone).  `skipped` is how many messages were purged, because newer ones superseded
    them, since the message before this one.  `position` is its place, from 1, in the total order of
    its view, if there is one.
    """

    sender: str
    item: Item | None
    payload: bytes
    seq: int
    skipped: int = 0
    kept: bool = False
    position: int = 0


class PrefetchEstimator:
    """How many messages the application takes within `PREFETCH_S`.

    What it spends on a batch may depend on the size of the batch or not: one that looks every
    16 ms takes a hundred as quickly as one.  So the cost of one more message is the slope of a
    line through recent batches.  While all were of one size there is no telling; then it counts
    as what a message took on average, and if that is much, two more are tried.
    """

    def __init__(self) -> None:
        self._weight = self._count = self._spent = self._squares = self._products = 0.0

    def note(self, count: int, spent_s: float) -> None:
        """The application was busy with so many messages for so long."""
        self._weight = DECAY * self._weight + 1
        self._count = DECAY * self._count + count
        self._spent = DECAY * self._spent + spent_s
        self._squares = DECAY * self._squares + count * count
        self._products = DECAY * self._products + count * spent_s

    @property
    def target(self) -> int:
        """How many to ask for."""
        if not self._weight:
            return PREFETCH_INITIAL
        count, spent_s = self._count / self._weight, self._spent / self._weight
        variance = self._squares / self._weight - count * count
        cost_s, more = spent_s / count, 0
        if variance > VARIANCE_MIN * count * count:
            covariance = self._products / self._weight - count * spent_s
            cost_s = min(cost_s, max(covariance / variance, cost_s / GROWTH_MAX))
        elif spent_s > PREFETCH_S:
            more = 2
        return max(
            1, min(PREFETCH_MAX, int(PREFETCH_S / max(cost_s, PREFETCH_S / PREFETCH_MAX)) + more)
        )


class Mailbox:
    """Messages that the protocol delivered and the application has not taken.

    Invariant: nobody waits while something is in the mailbox.  A *marker* stands between messages:
    no call takes messages from before and after it, so an application that comes back for more has
    handled everything before the marker.  `ask` tells the protocol how many more messages the
    application can take, or fewer; only a reader's own turn calls it, never `put`.
    """

    def __init__(self, ask: Callable[[int], None] = lambda _: None) -> None:
        self.ask = ask
        self._messages: list[Message] = []
        self._markers: deque[tuple[int, object]] = deque()  # each after so many delivered in all
        self._delivered = 0
        self._bytes = 0  # of payload
        self._asked = 0  # and not yet delivered
        self._estimator = PrefetchEstimator()
        self._target = self._estimator.target
        self._last_batch = 0
        self._taken_at = 0.0
        self._cpu_at: float | None = None  # None: the last batch is not measured
        self._measured_at = -MEASURE_S
        self._yielding: asyncio.Handle | None = None  # pending until the event loop comes round
        self._waiter: asyncio.Future[None] | None = None
        self._is_ended = False
        self._reason: Exception | None = None

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, messages: Sequence[Message], markers: Sequence[tuple[int, object]] = ()) -> int:
        """Add what the protocol delivers; each marker has a place in `messages`, before which it
        stands.  Returns the change in readiness: 0, or what the mailbox withdraws, below 0."""
        if markers:
            self._markers.extend((self._delivered + place, marker) for place, marker in markers)
        self._asked -= len(messages)
        self._delivered += len(messages)
        self._messages += messages
        self._bytes += payload_total(messages)
        self._wake()
        if not self._asked:
            return 0
        is_away = self._last_batch and perf_counter() - self._taken_at > PREFETCH_S
        # The application is busy for longer than was foreseen, or with more.
        return self._change_to(0) if is_away or self._bytes > BYTES_MAX else 0

    def pass_marker(self, on_marker: Callable[[object], T]) -> T | None:
        """What `on_marker` returns for the next marker, if everything before it was taken."""
        if not self._markers or self._before_marker():
            return None
        result = on_marker(self._markers[0][1])  # If it raises, the marker stays.
        self._markers.popleft()
        return result

    def prefetch(self, count: int) -> int:
        """Ask for at least so many, whether or not anybody waits for them; returns the change."""
        return self._change_to(count) if count > self._asked else 0

    @property
    def asked(self) -> int:
        """How many more messages the application can take than were delivered."""
        return self._asked

    def _before_marker(self) -> int:
        """Messages to be taken before the next marker."""
        return self._markers[0][0] - (self._delivered - len(self._messages))

    def end(self, reason: Exception | None) -> None:
        """Nothing more will come; a reader that has taken everything gets the reason, if any."""
        self._is_ended, self._reason = True, reason
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self, limit: int) -> list[Message]:
        """At least one message and at most `limit`; none at a marker, for `pass_marker`, or at
        the end, or the error that ended it."""
        self._measure()
        while not self._messages:
            if self._markers:
                return []
            if self._reason is not None:
                raise self._reason
            if self._is_ended:
                return []
            self._ask_for_target()
            if not self._messages and not self._markers and not self._is_ended:
                await self._wait()
        if self._markers:
            limit = min(limit, self._before_marker())
        if not limit:
            return []
        if limit >= len(self._messages):
            messages, self._messages, self._bytes = self._messages, [], 0
        else:
            messages = self._messages[:limit]
            del self._messages[:limit]
            self._bytes -= payload_total(messages)
        self._begin(len(messages))
        return messages

    def _begin(self, count: int) -> None:
        """The application is busy with so many messages from now on."""
        self._last_batch, self._taken_at = count, perf_counter()
        if self._taken_at - self._measured_at >= MEASURE_S:
            self._measured_at, self._cpu_at = self._taken_at, thread_time()
            self._yielding = asyncio.get_running_loop().call_soon(self._on_yielded)
        else:
            self._cpu_at = None

    def _on_yielded(self) -> None:
        self._yielding = None

    def _measure(self) -> None:
        """The application comes back: its last batch kept it busy until now."""
        if self._last_batch and self._cpu_at is not None:
            spent_s = perf_counter() - self._taken_at
            if self._yielding is not None:  # It waited for nothing; the processor time that other
                self._yielding.cancel()  # programs used is not its slowness.
                self._yielding = None
                spent_s = min(spent_s, thread_time() - self._cpu_at)
            self._estimator.note(self._last_batch, spent_s)
            self._target = self._estimator.target
        self._last_batch = 0

    def _ask_for_target(self) -> None:
        if not self._target // 2 < self._asked <= self._target:
            change = self._change_to(self._target)
            if change:
                self.ask(change)

    def _change_to(self, wanted: int) -> int:
        change, self._asked = wanted - self._asked, wanted
        return change

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise LocalProtocolError("another task is already receiving from this group")
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            loop.call_soon(self._withdraw)  # not here: whoever cancels may be anywhere
            raise
        finally:
            self._waiter = None

    def _withdraw(self) -> None:
        """The reader gave up: unless another one came, nobody takes what was asked for."""
        if self._waiter is None and self._asked and not self._is_ended:
            self.ask(self._change_to(0))
