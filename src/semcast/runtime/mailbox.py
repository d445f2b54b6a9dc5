"""Between the protocol and the application: how much to ask for, and who waits for it.

The protocol purges only what waits for the application, so asking for much hides obsolete
messages from it, and asking for little makes a fast application miss some that are superseded
within one datagram.  The mailbox asks for what the application has shown it can take within
`AHEAD_S`: a fast one misses nothing [SRM §6.3], a slow one is handed what is current.  From one
that stays away for longer, what was asked for is withdrawn.
Asking and measuring have their price, which small batches must not pay each time: more is asked
for when half of it has come, and one batch is measured in `MEASURE_S`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Final, TypeVar

import msgspec

from semcast.kernel import letter_bytes
from semcast.terms.errors import LocalProtocolError

AHEAD_S: Final = 0.005
MEASURE_S: Final = 0.005
ASK_FIRST: Final = 64  # before anything is known about the application
ASK_MAX: Final = 32_768
BYTES_MAX: Final = 8 << 20  # beyond it, nothing more is handed over
MEMORY: Final = 0.8  # of earlier measurements, after each new one
TRUST: Final = 4  # times as much as before is asked for at most, whatever the line says
VARIES: Final = 0.05  # squared: below it, one batch was as large as the other

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
    item: str | None
    payload: bytes
    seq: int
    skipped: int = 0
    kept: bool = False
    position: int = 0


class Appetite:
    """How many messages the application takes within `AHEAD_S`.

    What it spends on a batch may depend on the size of the batch or not: one that looks every
    16 ms takes a hundred as quickly as one.  So the cost of one more message is the slope of a
    line through recent batches.  While all were of one size there is no telling; then it counts
    as what a message took on average, and if that is much, two more are tried.
    """

    def __init__(self) -> None:
        self._weight = self._count = self._spent = self._squares = self._products = 0.0

    def note(self, count: int, spent_s: float) -> None:
        """The application was busy with so many messages for so long."""
        self._weight = MEMORY * self._weight + 1
        self._count = MEMORY * self._count + count
        self._spent = MEMORY * self._spent + spent_s
        self._squares = MEMORY * self._squares + count * count
        self._products = MEMORY * self._products + count * spent_s

    @property
    def wanted(self) -> int:
        """How many to ask for."""
        if not self._weight:
            return ASK_FIRST
        count, spent_s = self._count / self._weight, self._spent / self._weight
        variance = self._squares / self._weight - count * count
        cost_s, more = spent_s / count, 0
        if variance > VARIES * count * count:
            covariance = self._products / self._weight - count * spent_s
            cost_s = min(cost_s, max(covariance / variance, cost_s / TRUST))
        elif spent_s > AHEAD_S:
            more = 2
        return max(1, min(ASK_MAX, int(AHEAD_S / max(cost_s, AHEAD_S / ASK_MAX)) + more))


class Mailbox:
    """What was handed over and not yet taken.  Invariant: nobody waits while something is there.

    A *divider* stands between messages: nobody takes what was before it and what comes after it at
    once, so that whoever comes back for more is done with everything before.
    """

    def __init__(self, ask: Callable[[int], None]) -> None:
        self._ask = ask  # tell the protocol how many more the application can take, or fewer
        self._messages: list[Message] = []
        self._dividers: deque[tuple[int, object]] = (
            deque()
        )  # each behind so many handed over in all
        self._handed = 0
        self._bytes = 0  # of payload
        self._asked = 0  # and not yet handed over
        self._appetite = Appetite()
        self._wanted = self._appetite.wanted
        self._taken = 0
        self._taken_at = 0.0
        self._cpu_at: float | None = None  # None: what was taken last is not measured
        self._measured_at = -MEASURE_S
        self._turn: asyncio.Handle | None = None  # pending until the event loop comes round
        self._waiter: asyncio.Future[None] | None = None
        self._is_ended = False
        self._reason: Exception | None = None

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, messages: Sequence[Message], dividers: Sequence[tuple[int, object]] = ()) -> None:
        """The protocol hands over what was asked for; `dividers` have a place in `messages` each,
        before which they stand."""
        if dividers:
            self._dividers.extend((self._handed + place, divider) for place, divider in dividers)
        self._asked -= len(messages)
        self._handed += len(messages)
        self._messages += messages
        self._bytes += letter_bytes(messages)
        self._wake()
        is_away = self._taken and perf_counter() - self._taken_at > AHEAD_S
        if self._asked and (is_away or self._bytes > BYTES_MAX):
            self._adjust(0)  # It is busy for longer than was foreseen, or with more.

    def pass_divider(self, on_divider: Callable[[object], T]) -> T | None:
        """What `on_divider` says to the next divider, if everything before it was taken."""
        if not self._dividers or self._before_divider():
            return None
        said = on_divider(self._dividers[0][1])  # If it raises, the divider stays.
        self._dividers.popleft()
        return said

    def hurry(self, count: int) -> None:
        """Ask for so many more, whether or not anybody is there to take them."""
        self._asked += count
        self._ask(count)

    @property
    def asked(self) -> int:
        """How many messages the application can take that were not handed over yet."""
        return self._asked

    def _before_divider(self) -> int:
        """Messages to be taken before the next divider."""
        return self._dividers[0][0] - (self._handed - len(self._messages))

    def end(self, reason: Exception | None) -> None:
        """Nothing more will come; whoever has taken everything is told why, if there is a why."""
        self._is_ended, self._reason = True, reason
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self, limit: int) -> list[Message]:
        """At least one message and at most `limit`; none at a divider, for `pass_divider`, or at
        the end, or the error that ended it."""
        self._measure()
        while not self._messages:
            if self._dividers:
                return []
            if self._reason is not None:
                raise self._reason
            if self._is_ended:
                return []
            self._want()
            if not self._messages and not self._dividers:
                await self._wait()
        if self._dividers:
            limit = min(limit, self._before_divider())
        if not limit:
            return []
        if limit >= len(self._messages):
            taken, self._messages, self._bytes = self._messages, [], 0
        else:
            taken = self._messages[:limit]
            del self._messages[:limit]
            self._bytes -= letter_bytes(taken)
        self._begin(len(taken))
        return taken

    def _begin(self, count: int) -> None:
        """The application is busy with so many from now on."""
        self._taken, self._taken_at = count, perf_counter()
        if self._taken_at - self._measured_at >= MEASURE_S:
            self._measured_at, self._cpu_at = self._taken_at, thread_time()
            self._turn = asyncio.get_running_loop().call_soon(self._on_turn)
        else:
            self._cpu_at = None

    def _on_turn(self) -> None:
        self._turn = None

    def _measure(self) -> None:
        """The application comes back: what it took last time kept it busy until now."""
        if self._taken and self._cpu_at is not None:
            spent_s = perf_counter() - self._taken_at
            if self._turn is not None:  # It waited for nothing; what others took of the processor
                self._turn.cancel()  # is not its slowness.
                self._turn = None
                spent_s = min(spent_s, thread_time() - self._cpu_at)
            self._appetite.note(self._taken, spent_s)
            self._wanted = self._appetite.wanted
        self._taken = 0

    def _want(self) -> None:
        if not self._wanted // 2 < self._asked <= self._wanted:
            self._adjust(self._wanted)

    def _adjust(self, wanted: int) -> None:
        more, self._asked = wanted - self._asked, wanted
        if more:
            self._ask(more)

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise LocalProtocolError("another task is already receiving from this group")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self._adjust(0)  # Nobody is there to take what was asked for.
            raise
        finally:
            self._waiter = None
