"""Runs one live machine, of whatever family: gives it inputs, carries out its effects, keeps time.

Invariant: no input begins before the effects of the input before are carried out.  Every outside
input goes through `_input`, which cannot be entered from inside effects; it first handles datagrams
that wait, and `_carry_out` repeats `on_ready` until readiness no longer changes.  Effects are
carried out in this order: disk, events, datagrams, outputs; so a multicast is recorded before it
leaves.  After a quiet moment messages leave at once; messages that follow soon leave when the event
loop has turned, or when they fill a datagram.  What one wake-up read is handled in inputs of at
most `RECEIVED_MAX` datagrams or `RECEIVED_BYTES_MAX` bytes.
An error in handling a datagram drops that datagram.  Any other unexpected error ends the driver,
and the application gets it as `InternalError`: a machine that failed halfway must not continue.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final, Protocol, TypeVar

from semcast.runtime.clock import DriverClock, Timer
from semcast.runtime.storage.stable_storage import StableStorage
from semcast.terms.effects import Effects
from semcast.terms.errors import (
    InternalError,
    LocalProtocolError,
    ReentryError,
    SemcastError,
    StorageError,
)
from semcast.terms.events import Event
from semcast.terms.ids import Pid
from semcast.terms.machine import Command, Machine, Status
from semcast.terms.messages import Update
from semcast.terms.outputs import Output
from semcast.terms.records import ReadResult

log = logging.getLogger("semcast")

YIELD_AFTER_MESSAGES: Final = 512  # after which a sender lets the event loop turn
IDLE_S: Final = 0.0005  # since the last messages were sent: more are not expected at once
RECEIVED_MAX: Final = 64  # datagrams handled as one input, and
RECEIVED_BYTES_MAX: Final = 512 << 10  # how large they are together: others must get their turn

T = TypeVar("T")


class EventSink(Protocol):
    """Where a member's events are recorded."""

    def record(self, events: list[Event], ts_ns: int) -> None: ...


class DatagramChannel(Protocol):
    """The way to the other members."""

    @property
    def decode(self) -> Callable[[bytes], Any]: ...

    def send(self, sends: Sequence[tuple[Sequence[Pid], Any]], *, is_repair: bool) -> None: ...

    def discard(self, error: Exception, now: float) -> None: ...


class ApplicationPort(Protocol):
    """The application's side.  `put` returns the change in how many messages the application can
    take, and so does `prefetch`, which makes that at least `count`; `readiness` is how many it can
    take now.  `awaits_view`: a sender waits for a view that the application may not have entered.
    """

    awaits_view: bool

    @property
    def readiness(self) -> int: ...

    def connect(self, driver: "Driver") -> None: ...

    def put(self, outputs: Sequence[Output]) -> int: ...

    def prefetch(self, count: int) -> int: ...

    def on_submitted(self, offered: int, accepted: int) -> None: ...

    def end(self, reason: SemcastError | None) -> None: ...


class Driver:
    """Lives from the moment there is a machine until the group is closed."""

    def __init__(
        self,
        machine: Machine,
        channel: DatagramChannel,
        port: ApplicationPort,
        clock: DriverClock,
        *,
        sink: EventSink | None = None,
        disk: StableStorage | None = None,
        sends_when_idle: bool = True,
    ) -> None:
        """`sends_when_idle`: messages wait for company only until the event loop has turned."""
        self.machine = machine
        self.clock = clock
        self.changed = asyncio.Event()  # set after every input, for `wait_until`
        self.ended: SemcastError | None = None
        self.sent_since_yield = 0  # messages sent since the event loop last came round
        self.takes: Callable[[Any], bool] | None = None  # which datagrams to handle; None: all
        self._channel = channel
        self._port = port
        self._sink = sink
        self._disk = disk
        self._sends_when_idle = sends_when_idle
        self._now = clock.now
        self._out = Effects(recording=sink is not None)
        self._received: list[tuple[Pid, list[Any]]] = []
        self._received_count = self._received_bytes = 0
        self._is_running = False
        self._is_answering = False  # what is sent answers datagrams, so it may be large repairs
        self._is_suspended = False  # until there is another machine
        self._sent_before = 0  # by machines before this one
        self._discarded_before: Counter[str] = Counter()
        self._sent_at = 0.0
        self._timer: Timer | None = None
        self._armed, self._is_due = inf, False  # when; or once the loop has turned
        port.connect(self)
        if disk is not None:
            disk.connect(self)

    @property
    def sent_in_all(self) -> int:
        """Number of messages multicast by this machine and the machines before it."""
        return self._sent_before + self.machine.sent

    @property
    def discarded(self) -> Counter[str]:
        """Datagrams that machines had no use for, by reason."""
        return self._discarded_before + Counter(self.status().discarded)

    def begin(self) -> None:
        """The machine may have things to do before anything happens."""
        self._input(lambda _now, _out: None)

    def submit(self, updates: Sequence[Update]) -> int:
        """Send; return how many of them, from the front, there was room for."""
        if self._is_suspended:
            return 0
        if not self.sent_since_yield:  # before effects wake the application: readers wait
            self.clock.call_soon(self._on_loop_idle)
        self.sent_since_yield += len(updates)
        return self._input(self._submit, updates)

    def perform(self, handler: Callable[[float, Effects], T]) -> T:
        """An input that only the machines of one family have: `handler` calls the machine."""
        return self._input(handler)

    def _submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        is_first, self._sent_at = now - self._sent_at > IDLE_S, now
        accepted = self.machine.submit(updates, now, out)
        self._port.on_submitted(len(updates), accepted)
        if is_first and self._sends_when_idle:
            self.machine.on_idle(now, out)
        return accepted

    def command(self, command: Command) -> None:
        """Give the machine a decision of the application or operator."""
        self._input(self.machine.on_command, command)

    def on_ready(self, count: int) -> None:
        """The application can take `count` more messages, or fewer."""
        self._try(self.machine.on_ready, count)

    def on_persisted(self, ticket: int) -> None:
        """Every record up to `ticket` is on stable storage."""
        self._try(self.machine.on_persisted, ticket)

    def on_read(self, result: ReadResult) -> None:
        """The disk has the records that the machine asked for."""
        self._try(self.machine.on_read, result)

    def on_disk_failed(self, error: Exception) -> None:
        """Nobody knows what is on the disk after a failed sync, so nothing is tried again."""
        if not isinstance(error, StorageError):
            error = StorageError(f"stable storage failed: {error!r}")
        self.end(error)

    def on_datagram(self, source: Pid, body: bytes) -> None:
        """A datagram of a member; raises RemoteProtocolError if it cannot be decoded."""
        if self.ended is not None:
            return
        datagram = self._channel.decode(body)
        if self.takes is not None and not self.takes(datagram):
            return
        received = self._received
        if received and received[-1][0] == source:
            received[-1][1].append(datagram)
        else:
            received.append((source, [datagram]))
        self._received_count += 1
        self._received_bytes += len(body)
        if self._received_count >= RECEIVED_MAX or self._received_bytes >= RECEIVED_BYTES_MAX:
            self.on_drained()

    def on_drained(self, _now: float = 0.0) -> None:
        """No more datagrams wait to be read."""
        if self._received:
            self._try(self._handle, self._take_received())

    def _take_received(self) -> list[tuple[Pid, list[Any]]]:
        received, self._received = self._received, []
        self._received_count = self._received_bytes = 0
        return received

    def _handle(self, received: list[tuple[Pid, list[Any]]], now: float, out: Effects) -> None:
        self._is_answering = True
        self.machine.on_received(received, now, out)
        for error in out.refused:
            self._channel.discard(error, now)
        out.refused.clear()

    def _input(self, handler: Callable[..., T], *args: Any) -> T:
        """Give the machine an input and carry out its effects.  A SemcastError of the handler goes
        to the caller, after the effects that came before it."""
        if self._is_running:
            name = getattr(handler, "__qualname__", handler)
            raise ReentryError(f"{name}: called while the effects of another input are carried out")
        if self.ended is not None:
            raise self.ended
        self._is_running = True
        refusal: SemcastError | None = None
        try:
            now = self._now()
            if self._received:  # What came before this input counts before it.
                self._handle(self._take_received(), now, self._out)
            try:
                result = handler(*args, now, self._out)
            except SemcastError as error:
                refusal = error
            self._carry_out(now)
        except Exception as error:
            raise self._fail(error) from error
        finally:
            self._is_running = False
        if refusal is not None:
            raise refusal
        return result

    def _try(self, handler: Callable[..., object], *args: Any) -> None:
        """Give an input that has no caller to raise to: any error ends the driver."""
        if self.ended is not None:
            return
        try:
            self._input(handler, *args)
        except ReentryError:
            raise  # to the effect that did it, whose input fails
        except SemcastError as error:
            if self.ended is None:
                self._fail(error)

    def _carry_out(self, now: float) -> None:
        out, port = self._out, self._port
        ready = 0
        while True:
            if out.persist or out.forget_before or out.read:
                self._use_disk(out)
            if out.events:
                self._record(out.events)
            if out.send:
                sends, out.send = out.send, []
                self._channel.send(sends, is_repair=self._is_answering)
            if out.outputs:
                outputs, out.outputs = out.outputs, []
                ready += port.put(outputs)
            if port.awaits_view:
                # Whoever sends while it handles a message would else wait for itself.
                ready += port.prefetch(self.machine.status(now).unseen)
            if not ready:
                break
            change, ready = ready, 0
            self.machine.on_ready(change, now, out)
        self._is_answering = False
        if not self.changed.is_set():
            self.changed.set()
        if self.machine.deadline < self._armed and not self.sent_since_yield:
            self._arm()  # else when the loop has turned, and much of it was done

    def _use_disk(self, out: Effects) -> None:
        if self._disk is None:
            raise LocalProtocolError("this machine needs stable storage, and has none")
        if out.persist:
            records, out.persist = out.persist, []
            self._disk.append(records)
        if out.forget_before:
            number, out.forget_before = out.forget_before, 0
            self._disk.forget_before(number)
        if out.read:
            requests, out.read = out.read, []
            self._disk.read(requests)

    def _record(self, events: list[Event]) -> None:
        """Before anything leaves; a disk that is full ends the recording, not the member."""
        assert self._sink is not None
        try:
            # Not `now`, which is when handling began: others may have acted since.
            self._sink.record(events, self.clock.wall_ns())
            events.clear()
        except (OSError, SemcastError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            log.warning("trace: stopped recording: %s", reason)
            self._out.events = None

    def _on_loop_idle(self) -> None:
        """The event loop has come round: no more messages share a datagram with what waits.  A
        sender that was made to yield goes on, and fills it; else the time to coalesce ends it."""
        goes_on, self.sent_since_yield = self.sent_since_yield >= YIELD_AFTER_MESSAGES, 0
        if not goes_on and self._sends_when_idle:
            self._try(self.machine.on_idle)
        elif self.ended is None and self.machine.deadline < self._armed:
            self._arm()

    def _arm(self) -> None:
        if self.ended is not None or self._is_due:
            return
        if self.machine.deadline <= self._now():
            self._is_due = True
            self.clock.call_soon(self._on_due)  # The timer stays.
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed = self.machine.deadline
        self._timer = self.clock.call_at(self._armed, self._on_timer)

    def _on_due(self) -> None:
        self._is_due = False
        self._try(self._on_time)

    def _on_timer(self) -> None:
        self._timer, self._armed = None, inf
        self._try(self._on_time)
        if self._timer is None and self.machine.deadline < inf:
            self._arm()

    def _on_time(self, now: float, out: Effects) -> None:
        if self.machine.deadline <= now:
            self.machine.on_time(now, out)

    def status(self) -> Status:
        """How the machine is doing."""
        return self.machine.status(self._now())

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds, or this is the end; False if that took too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition() and self.ended is None:
                    self.changed.clear()
                    await self.changed.wait()
        return condition()

    def suspend(self) -> None:
        """The machine has ended; senders wait until `replace` brings another one."""
        self._is_suspended = True

    def replace(self, machine: Machine) -> None:
        """Go on with another machine, which knows nothing; the application keeps its place."""
        self._sent_before += self.machine.sent
        self._discarded_before = self.discarded
        self.machine, self._is_suspended = machine, False
        if self._disk is not None:
            self._disk.connect(self)
        self._armed = inf
        if ready := self._port.readiness:
            self._try(machine.on_ready, ready)
        else:
            self._try(lambda _now, _out: None)

    def _fail(self, error: Exception) -> SemcastError:
        """End because of an error that nobody foresaw."""
        if isinstance(error, InternalError):
            reason = error
        else:
            reason = InternalError(f"an error in semcast ended this member: {error!r}")
            reason.__cause__ = error
        log.error("%s; please report it", reason, exc_info=error)
        self.end(reason)
        return reason

    def end(self, reason: SemcastError | None) -> None:
        """No more inputs; whoever waits is told why."""
        self.ended = self.ended or reason or LocalProtocolError("the group is closed")
        self._received.clear()
        self._port.end(reason)
        self.changed.set()
        self.stop()

    def stop(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
