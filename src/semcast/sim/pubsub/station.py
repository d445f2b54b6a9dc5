"""One simulated process that runs a participant through its lives: it crashes and comes back.

Inputs reach the participant one at a time; while the process is paused they wait in order,
datagrams in a socket buffer that overflows.  What a handler wants is carried out when it ends:
records are written, datagrams leave, messages are delivered.  Written is not durable: a sync takes
time, covers what was written before it began, and only then is the participant told.
A station that is disconnected neither sends nor hears.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Any, Final, Protocol, TypeAlias

from semcast.faults import Constant, Failpoint, Latency, Tripwire, cut_short
from semcast.sim.clock import Clock
from semcast.sim.halting import Halting
from semcast.sim.process import TIMER_REPEATS_MAX, Handler, Observer, Producer
from semcast.sim.pubsub.disk import Disk
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import CRASH, DISK, RECOVER, Event
from semcast.terms.machine import GoOffline, GoOnline, JoinGroup, LeaveGroup, Machine
from semcast.terms.messages import Message
from semcast.terms.outputs import ROOM, Output, delivered

SOCKET_DATAGRAMS_MAX: Final = 256
NO_WAIT: Final = Constant(0.0)

_DOWN: Final = 2


class Carrier(Protocol):
    """What takes a station's datagrams away."""

    @property
    def size(self) -> int: ...
    def send(self, source: int, sends: Sequence[tuple[Sequence[int], Any]]) -> None: ...


Born: TypeAlias = Callable[[int, int, float, tuple[Any, ...]], Machine]
"""(pid, incarnation, now, records on its disk) → the participant of a new life."""


class Station(Halting):
    """Invariant: `_out` is empty between handlers; tickets up to `_synced` were told durable."""

    def __init__(
        self,
        pid: int,
        born: Born,
        clock: Clock,
        network: Carrier,
        *,
        subscribes: bool = True,
        disk: Disk | None = None,
        sync: Latency = NO_WAIT,
        rng: Random | None = None,
        producer: Producer | None = None,
        failpoints: Sequence[Failpoint] = (),
        observers: Sequence[Observer] = (),
        on_deliver: Callable[[int, Sequence[Message], float], None] | None = None,
        on_crash: Callable[[int, Failpoint], None] | None = None,
    ) -> None:
        self.pid = pid
        self.inc = 0
        self.recorded = 0
        self.is_connected = True
        self.subscribes = subscribes
        self.disk = disk
        self._has_said_goodbye = False
        self._born = born
        self._clock = clock
        self._network = network
        self._sync = sync
        self._rng = rng or Random(pid)
        self._producer = producer
        self._tripwire = Tripwire(failpoints) if failpoints else None
        self._observers = tuple(observers)
        self._on_deliver = on_deliver
        self._on_crash = on_crash
        self._out = Effects(recording=bool(observers or failpoints))
        self._inbox: deque[tuple[Handler, tuple[Any, ...]]] = deque()
        self._armed = inf
        self._repeats = 0
        self._written = self._synced = 0
        self._is_syncing = False
        self.participant = born(pid, 0, clock.now, ())

    def __repr__(self) -> str:
        return f"Station(pid={self.pid}, inc={self.inc}, held={self._held})"

    @property
    def is_down(self) -> bool:
        return bool(self._held & _DOWN)

    def start(self) -> None:
        """Let the application begin: it joins, if it subscribes, and sends if it has what."""
        self._enter(self._begin)
        self._next_batch()

    def leave(self) -> None:
        """The application asks to be one no longer."""
        self._enter(self.participant.on_command, LeaveGroup())

    def disconnect(self, announced: bool) -> None:
        """Go out of reach, with a word of goodbye or without."""
        if announced:
            self._enter(self.participant.on_command, GoOffline())
        self.is_connected = False
        self._has_said_goodbye = announced

    def reconnect(self) -> None:
        """Come back into reach; who said goodbye says that it is back."""
        self.is_connected = True
        if self._has_said_goodbye:
            self._enter(self.participant.on_command, GoOnline())

    def receive(self, source: int, datagram: Any) -> None:
        """A datagram reaches this process's socket."""
        if not self.is_connected or self._held & _DOWN:
            return
        if not self._held:
            now = self._clock.now
            self.participant.on_datagram(source, datagram, now, self._out)
            self._carry_out(now)
        elif len(self._inbox) < SOCKET_DATAGRAMS_MAX:
            self._inbox.append((self._on_datagram, (source, datagram)))

    def _go_on(self) -> None:
        while self._inbox and not self._held:
            handler, args = self._inbox.popleft()
            self._enter(handler, *args)

    def crash(self, *, loses_disk: bool = False) -> None:
        """Everything but the disk is lost, and of that what was not synced, or all."""
        if self._held & _DOWN:
            return
        self._held |= _DOWN
        self._inbox.clear()
        self._armed = inf
        self._is_syncing = False
        if self.disk is not None:
            self.disk.crash(self._rng)
            if loses_disk:
                self.disk.lose()
        self._observe([Event(CRASH, self.pid, note=DISK if loses_disk else "")], self._clock.now)

    def recover(self) -> None:
        """Begin the next life with what the disk holds."""
        if not self._held & _DOWN:
            return
        self._held &= ~_DOWN
        self.inc += 1
        self._written = self._synced = 0
        self._observe([Event(RECOVER, self.pid)], self._clock.now)
        records = () if self.disk is None else self.disk.records()
        self.participant = self._born(self.pid, self.inc, self._clock.now, records)
        self.start()

    def _enter(self, handler: Handler, *args: Any) -> None:
        """An input other than a datagram: handle it now, or once nothing holds the process."""
        if not self._held:
            now = self._clock.now
            handler(*args, now, self._out)
            self._carry_out(now)
        elif not self._held & _DOWN:
            self._inbox.append((handler, args))

    def _begin(self, now: float, out: Effects) -> None:
        if self.subscribes:
            self.participant.on_command(JoinGroup(), now, out)

    def _on_datagram(self, source: int, datagram: Any, now: float, out: Effects) -> None:
        if self.is_connected:
            self.participant.on_datagram(source, datagram, now, out)

    def _carry_out(self, now: float) -> None:
        out = self._out
        if out.persist:
            self._write(out, now)
        if out.events:
            point = self._tripwire.tripped(out.events) if self._tripwire is not None else None
            if point is not None:
                self._crash_inside(point, now)
                return
            self._observe(out.events, now)
            out.events.clear()
        if out.send:
            if self.is_connected:
                self._network.send(self.pid, out.send)
            out.send.clear()
        if out.outputs:
            self._hand_over(out.outputs, now)
            out.outputs.clear()
        if self.participant.deadline < self._armed:
            self._arm(now)

    def _write(self, out: Effects, now: float) -> None:
        """Append to the disk; a sync that is under way does not cover it, the next one does."""
        for ticket, record in out.persist:
            if self.disk is not None:
                self.disk.write(record)
            self._written = ticket
        out.persist.clear()
        if not self._is_syncing:
            self._begin_sync(now)

    def _begin_sync(self, now: float) -> None:
        self._is_syncing = True
        upto = 0 if self.disk is None else self.disk.size
        covers = (self.inc, self._written, upto)
        self._clock.at(now + self._sync.draw(self._rng), self._end_sync, covers)

    def _end_sync(self, inc: int, ticket: int, upto: int) -> None:
        if inc != self.inc or self._held & _DOWN:
            return  # The life that asked for it is over.
        if self.disk is not None:
            self.disk.sync(upto)
        self._is_syncing = False
        if ticket < self._written:
            self._begin_sync(self._clock.now)
        self._enter(self._on_persisted, ticket)

    def _on_persisted(self, ticket: int, now: float, out: Effects) -> None:
        self._synced = ticket
        self.participant.on_persisted(ticket, now, out)

    def _observe(self, events: Sequence[Event], now: float) -> None:
        ts_ns = round(now * 1e9)
        for event in events:
            self.recorded += 1
            event.n = self.recorded
            event.ts_ns = ts_ns
            event.inc = self.inc + 1
            for observe in self._observers:
                observe(event)

    def _crash_inside(self, point: Failpoint, now: float) -> None:
        out = self._out
        peers = [pid for pid in range(self._network.size) if pid != self.pid]
        cut_short(out, point.keep_effects, peers, self._rng)
        self._observe(out.events or (), now)
        if self.is_connected:
            self._network.send(self.pid, out.send)
        self._hand_over(out.outputs, now)
        self._out = Effects(recording=True)
        if self._on_crash is not None:
            self._on_crash(self.pid, point)

    def _hand_over(self, outputs: Sequence[Output], now: float) -> None:
        messages = delivered(outputs)
        if self._on_deliver is not None and messages:
            self._on_deliver(self.pid, messages, now)
        if ROOM in outputs:
            self._offer_again(now)

    def _next_batch(self) -> None:
        producer, now = self._producer, self._clock.now
        if producer is not None and (producer.pending or producer.prepare(now)):
            self._clock.at(max(producer.due, now), self._offer_in, (self.inc,))

    def _offer_in(self, inc: int) -> None:
        if inc == self.inc:
            self._enter(self._offer)

    def _offer(self, now: float, out: Effects) -> None:
        """Offer what is pending; what is refused waits for room."""
        producer = self._producer
        if producer is None or not producer.pending:
            return
        accepted = self.participant.submit(producer.pending, now, out)
        producer.pending = producer.pending[accepted:]
        producer.is_blocked = bool(producer.pending)
        if not producer.pending:
            self._next_batch()

    def _offer_again(self, now: float) -> None:
        producer = self._producer
        if producer is not None and producer.is_blocked:
            producer.is_blocked = False
            self._clock.at(now, self._offer_in, (self.inc,))

    def _arm(self, now: float) -> None:
        # A timer is never cancelled: one that another has overtaken finds that it is not `_armed`.
        self._armed = max(self.participant.deadline, now)
        self._clock.at(self._armed, self._ring, (self.inc, self._armed))

    def _ring(self, inc: int, when: float) -> None:
        if inc != self.inc or when != self._armed or self._held & _DOWN:
            return
        self._armed = inf
        self._enter(self._on_time)

    def _on_time(self, now: float, out: Effects) -> None:
        if self.participant.deadline > now:
            return  # It moved while this process was held.
        self.participant.on_time(now, out)
        self._repeats = 0 if self.participant.deadline > now else self._repeats + 1
        if self._repeats > TIMER_REPEATS_MAX:
            raise LocalProtocolError(
                f"process {self.pid}: on_time did not move its deadline past {now}"
            )
