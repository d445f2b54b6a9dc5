"""One simulated process: a member, the application above it, and its operating system.

Inputs reach the member one at a time.  While the process is paused or busy they wait in order;
datagrams wait in a socket buffer that overflows.  What a handler wants leaves when the handler
ends, which is at once unless processor time is charged [SRM §5.4].  Nothing that an effect sets
off calls the member from inside that effect: it is scheduled for the same instant.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from random import Random
from typing import Any, Final, Protocol, TypeAlias

from semcast.faults import Constant, Failpoint, Latency, Tripwire, cut_short
from semcast.faults.limits import within
from semcast.sim.clock import Clock, Processor
from semcast.sim.halting import PAUSED, Halting
from semcast.sim.network import Network
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import CRASH, Event
from semcast.terms.machine import ForgetMember, Machine
from semcast.terms.messages import Datagram, Message, Submission
from semcast.terms.outputs import Delivery, Ended, Output, Room, delivered

Observer: TypeAlias = Callable[[Event], None]
Handler: TypeAlias = Callable[..., None]

ALWAYS_READY: Final = 2**62
TIMER_REPEATS_MAX: Final = 10_000

_CRASHED: Final = 2
_BUSY: Final = 4


class Ranked(Machine, Protocol):
    """A machine that knows itself by its rank."""

    @property
    def rank(self) -> int: ...


class Consumer:
    """An application that asks for `take` messages and spends `service` on each in turn.

    Without both it is always ready.  It asks again when it has served all it asked for.
    Invariant: `waiting` (delivered, not yet served) <= `asked` (asked for, not yet served).
    """

    __slots__ = ("asked", "is_always_ready", "service", "take", "waiting")

    def __init__(self, service: float | Latency = 0.0, take: int | None = None) -> None:
        self.service = Constant(service) if isinstance(service, (int, float)) else service
        within("take", 1 if take is None else take, 1)
        self.is_always_ready = take is None and self.service == Constant(0.0)
        self.take = take or (ALWAYS_READY if self.is_always_ready else 1)
        self.asked = self.waiting = 0


class Producer:
    """An application that offers `batch` submissions at a time, one gap between any two.

    A batch is due when its last submission is, so the rate does not depend on `batch`.  Refused
    submissions are kept and offered again when there is room; meanwhile no backlog builds up:
    the next batch is due its gaps after this one was due, or now if that has passed.  It stops
    after `count_max` submissions, with the first batch due after `until_s`, or when either
    iterator ends.
    """

    __slots__ = (
        "_arrivals",
        "_batch",
        "_left",
        "_submissions",
        "due",
        "is_blocked",
        "pending",
        "until_s",
    )

    def __init__(
        self,
        arrivals: Iterable[float],
        submissions: Iterable[Submission],
        *,
        batch: int = 1,
        count_max: int = ALWAYS_READY,
        until_s: float = inf,
    ) -> None:
        within("batch", batch, 1)
        within("count_max", count_max, 0)
        self._arrivals: Iterator[float] = iter(arrivals)
        self._submissions = iter(submissions)
        self._batch = batch
        self._left = count_max
        self.until_s = until_s
        self.pending: tuple[Submission, ...] = ()
        self.due = 0.0
        self.is_blocked = False

    def prepare(self, now: float) -> bool:
        """Make the next batch `pending` and say when it is `due`; False when there is none."""
        wanted = min(self._batch, self._left)
        gaps = list(islice(self._arrivals, wanted))
        self.pending = tuple(islice(self._submissions, len(gaps)))
        self._left -= len(self.pending)
        self.due = max(self.due + sum(gaps), now)
        if not self.pending or self.due > self.until_s:
            self.stop()
        return bool(self.pending)

    def stop(self) -> None:
        """Offer nothing more."""
        self.pending = ()
        self._left = 0
        self.is_blocked = False


class Process(Halting):
    """Drives one member until it crashes.

    Invariant: `_out` is empty between handlers, except while the process is busy with the one
    whose effects it holds.  `busy_s` is all the processor time it was charged so far.
    """

    def __init__(
        self,
        member: Ranked,
        clock: Clock,
        network: Network,
        *,
        rng: Random,
        consumer: Consumer,
        producer: Producer | None,
        failpoints: Sequence[Failpoint],
        processor: Processor | None,
        socket_datagrams_max: int,
        observers: Sequence[Observer],
        on_deliver: Callable[[int, Sequence[Message], float], None] | None,
        on_crash: Callable[[int, float | None], None],
    ) -> None:
        self.member = member
        self.pid = member.rank
        self.recorded = 0
        self.busy_s = 0.0
        self.is_excluded = False
        self._clock = clock
        self._network = network
        self._rng = rng
        self._consumer = consumer
        self._producer = producer
        self._tripwire = Tripwire(failpoints) if failpoints else None
        self._processor = processor
        self._observers = tuple(observers)
        self._on_deliver = on_deliver
        self._on_crash = on_crash
        self._on_datagram = member.on_datagram
        self._out = Effects(recording=bool(observers or failpoints))
        self._inbox: deque[tuple[Handler, tuple[Any, ...]]] = deque()
        self._socket = 0
        self._socket_max = socket_datagrams_max
        self._finishes_late = False
        self._armed = [inf]
        self._repeats = 0

    def __repr__(self) -> str:
        return f"Process(pid={self.pid}, held={self._held}, inbox={len(self._inbox)})"

    @property
    def is_crashed(self) -> bool:
        return bool(self._held & _CRASHED)

    def start(self) -> None:
        """Let the application begin: ask for messages, schedule the first batch, arm the timer."""
        self._consumer.asked = self._consumer.take
        self._enter(self.member.on_ready, self._consumer.take)
        self._next_batch()

    def receive(self, source: int, datagram: Datagram) -> None:
        """A datagram reaches this process's socket."""
        if self._held or self._processor is not None:
            self._receive_late(source, datagram)
            return
        now = self._clock.now
        self._on_datagram(source, datagram, now, self._out)
        self._carry_out(now)

    def forget(self, rank: int) -> None:
        """The crash of `rank` is announced here."""
        self._enter(self.member.on_command, ForgetMember(rank))

    def _go_on(self) -> None:
        if self._finishes_late:
            self._finishes_late = False
            self._finish()
        self._drain()

    def crash(self, announced_after_s: float | None = None) -> None:
        """Stop for good; the effects of an unfinished handler are lost with the process."""
        if self._held & _CRASHED:
            return
        self._held |= _CRASHED
        self._observe([Event(CRASH, self.pid)], self._clock.now)
        self._on_crash(self.pid, announced_after_s)

    def _enter(self, handler: Handler, *args: Any) -> None:
        """An input other than a datagram: handle it now, or once nothing holds the process."""
        if not self._held:
            self._run(handler, args)
        elif not self._held & _CRASHED:
            self._inbox.append((handler, args))

    def _receive_late(self, source: int, datagram: Datagram) -> None:
        """A datagram whose handler takes time, or that has to wait in the socket buffer."""
        if self._held & _CRASHED:
            return
        if not self._held:
            self._run(self._on_datagram, (source, datagram))
        elif self._socket < self._socket_max:
            self._socket += 1
            self._inbox.append((self._on_datagram, (source, datagram)))
        else:
            self._network.dropped["socket"] += 1

    def _drain(self) -> None:
        inbox = self._inbox
        while inbox and not self._held:
            handler, args = inbox.popleft()
            if handler is self._on_datagram:
                self._socket -= 1
            self._run(handler, args)

    def _run(self, handler: Handler, args: tuple[Any, ...]) -> None:
        now = self._clock.now
        processor = self._processor
        if processor is None:
            handler(*args, now, self._out)
            self._carry_out(now)
            return
        cost = processor.run(handler, args, now, self._out)
        traversals = sum(len(to) for to, _ in self._out.send) + (handler is self._on_datagram)
        cost += traversals * processor.stack_s  # [SRM §5.4]
        self.busy_s += cost
        self._held |= _BUSY
        self._clock.at(now + cost, self._finish)

    def _finish(self) -> None:
        """The handler's time is over: its outputs leave and the next input enters."""
        if self._held & PAUSED:
            self._finishes_late = True
        elif not self._held & _CRASHED:
            self._held &= ~_BUSY
            self._carry_out(self._clock.now)
            self._drain()

    def _carry_out(self, now: float) -> None:
        out = self._out
        if out.events:
            if self._tripwire is not None:
                point = self._tripwire.tripped(out.events)
                if point is not None:
                    self._crash_inside(point, now)
                    return
            self._observe(out.events, now)
            out.events.clear()
        if out.send:
            self._network.send(self.pid, out.send)
            out.send.clear()
        if out.outputs:
            for output in out.outputs:
                self._hand_over(output, now)
            out.outputs.clear()
        if self.member.deadline < self._armed[-1]:
            self._arm(now)

    def _observe(self, events: Sequence[Event], now: float) -> None:
        observers = self._observers
        ts_ns = round(now * 1e9)
        n = self.recorded
        for event in events:
            n += 1
            event.n = n
            event.ts_ns = ts_ns
            for observe in observers:
                observe(event)
        self.recorded = n

    def _crash_inside(self, point: Failpoint, now: float) -> None:
        out = self._out
        peers = [rank for rank in range(self._network.size) if rank != self.pid]
        cut_short(out, point.keep_effects, peers, self._rng)
        self._observe(out.events or (), now)
        self._network.send(self.pid, out.send)
        messages = delivered(out.outputs)
        if self._on_deliver is not None and messages:
            self._on_deliver(self.pid, messages, now)
        self.crash(point.announced_after_s)

    def _hand_over(self, output: Output, now: float) -> None:
        if isinstance(output, Delivery):
            self._deliver(output.messages, now)
        elif isinstance(output, Room):
            self._offer_again(now)
        elif isinstance(output, Ended):
            self.is_excluded = True
            if self._producer is not None:
                self._producer.stop()  # The group went on without it; it must not take part again.

    def _deliver(self, messages: Sequence[Message], now: float) -> None:
        if self._on_deliver is not None:
            self._on_deliver(self.pid, messages, now)
        consumer = self._consumer
        if consumer.is_always_ready:
            return
        if not consumer.waiting:
            self._clock.at(now + consumer.service.draw(self._rng), self._enter, (self._serve,))
        consumer.waiting += len(messages)

    def _serve(self, now: float, out: Effects) -> None:
        """The application is done with one message."""
        consumer = self._consumer
        consumer.waiting -= 1
        consumer.asked -= 1
        if consumer.waiting:
            self._clock.at(now + consumer.service.draw(self._rng), self._enter, (self._serve,))
        elif not consumer.asked:
            consumer.asked = consumer.take
            self.member.on_ready(consumer.take, now, out)

    def _next_batch(self) -> None:
        producer = self._producer
        if producer is not None and producer.prepare(self._clock.now):
            self._clock.at(producer.due, self._enter, (self._offer,))

    def _offer(self, now: float, out: Effects) -> None:
        """Offer what is pending; what is refused waits for room."""
        producer = self._producer
        if producer is None or not producer.pending:
            return
        accepted = self.member.submit(producer.pending, now, out)
        producer.pending = producer.pending[accepted:]
        producer.is_blocked = bool(producer.pending)
        if not producer.pending:
            self._next_batch()

    def _offer_again(self, now: float) -> None:
        producer = self._producer
        if producer is not None and producer.is_blocked:
            producer.is_blocked = False  # asked again once, however often room is signalled
            self._clock.at(now, self._enter, (self._offer,))

    def _arm(self, now: float) -> None:
        # A timer is never cancelled.  Only one that rings before all others is added, so those
        # scheduled are a stack with the next to ring on top.
        when = max(self.member.deadline, now)
        self._armed.append(when)
        self._clock.at(when, self._ring)

    def _ring(self) -> None:
        now = self._armed.pop()
        if self.member.deadline <= now:
            self._enter(self._on_time)
        elif self.member.deadline < self._armed[-1]:
            self._arm(now)

    def _on_time(self, now: float, out: Effects) -> None:
        member = self.member
        if member.deadline > now:
            return  # It moved while this process was held.
        member.on_time(now, out)
        if member.deadline > now:
            self._repeats = 0
            return
        self._repeats += 1
        if self._repeats > TIMER_REPEATS_MAX:
            raise LocalProtocolError(
                f"process {self.pid}: on_time did not move its deadline past {now}"
            )
