"""One simulated process through its incarnations: a machine, its application, disk and socket.

Every input goes through `enter` or `receive`, one at a time.  While the process is paused or busy
inputs wait in order; datagrams wait in a socket buffer that overflows.  Effects are carried out
when a handler ends, which is at once unless processor time is charged [SRM §5.4].  Nothing that an
effect sets off calls the machine from inside that effect: it is scheduled for the same instant.
The clock that a machine reads is the simulation's plus what it has jumped.
The process knows no family: commands, records and datagrams are values that it passes on.
"""

from collections.abc import Sequence
from typing import Any, Final

from semcast.faults import Downtime, Failpoint, FailpointSet, truncate_effects
from semcast.sim.application import Application
from semcast.sim.circumstances import Circumstances, Machines
from semcast.sim.clock import VirtualClock
from semcast.sim.disk_writer import DiskWriter
from semcast.sim.inbox import Handler, Inbox, Unread
from semcast.sim.network import DatagramCarrier
from semcast.sim.timer import DeadlineTimer
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.events import CRASH, DISK, OLD_DISK, RECOVER, Event
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Command, GoOffline, GoOnline, LeaveGroup, Status
from semcast.terms.outputs import Ended

PAUSED: Final = 1
BUSY: Final = 2
DOWN: Final = 4  # crashed, or its incarnation ended and another follows
AWAY: Final = 8  # not started, or it left
_GONE: Final = DOWN | AWAY

ABSENT: Final = 1
ISOLATED: Final = 2


class SimProcess:
    """Invariant: `_out` is empty between handlers, except while the process is busy with the one
    whose effects it holds.  `busy_s` is all the processor time it was charged so far.  It has at
    most 30 fields: Python 3.11 reads those of larger objects more slowly."""

    def __init__(
        self,
        pid: int,
        machines: Machines,
        clock: VirtualClock,
        network: DatagramCarrier,
        application: Application,
        circumstances: Circumstances,
    ) -> None:
        self.application = application
        self.recorded = 0
        self.busy_s = 0.0
        self.has_started = False
        self.clock = clock
        self._machines, self._network = machines, network
        self._circumstances = circumstances
        points = (*circumstances.failpoints, *circumstances.isolations)
        self._tripwire = FailpointSet(points) if points else None
        self._processor, self._observers = circumstances.processor, tuple(circumstances.observers)
        self._idle_s = circumstances.idle_s
        self._is_recording = bool(circumstances.observers or points)
        self._inbox = Inbox(circumstances.socket_datagrams_max)
        self._held, self._pauses, self._finishes_late = AWAY, 0, False
        self._cut, self._is_offline = 0, False
        self._skew_s = 0.0
        self.pid = pid
        self._writer = DiskWriter(machines.record, circumstances.sync, circumstances.rng, self)
        self._become(1)

    def _become(self, inc: int) -> None:
        self.life = Incarnation(self.pid, inc)
        self.machine = self._machines.born(self.life, self.now, self._writer.begin())
        self._begins = self._machines.begins(self.life)
        self._on_datagrams = self.machine.on_datagrams
        self._out = Effects(recording=self._is_recording)
        self.timer = DeadlineTimer(self)
        self._is_idle_due = False

    def __repr__(self) -> str:
        return f"SimProcess({self.life}, {self._held}, inbox={len(self._inbox)}, {self.machine})"

    @property
    def now(self) -> float:
        """What this process takes for the time."""
        return self.clock.now + self._skew_s

    @property
    def status(self) -> Status:
        """How its machine is doing."""
        return self.machine.status(self.now)

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return not self._held & _GONE

    @property
    def is_held(self) -> bool:
        """Whether inputs wait, or are lost."""
        return bool(self._held)

    @property
    def is_down(self) -> bool:
        """Whether it crashed, and did not restart yet."""
        return bool(self._held & DOWN)

    # What happens to it

    def start(self) -> None:
        """Begin, unless it did before."""
        if not self.has_started:
            self._start()

    def _start(self) -> None:
        self.has_started = True
        self._held &= ~_GONE
        self.enter(self._begin, self.application.begin(self))
        self.application.send_on()

    def _begin(self, ready: int, now: float, out: Effects) -> None:
        for command in self._begins:
            self.machine.on_command(command, now, out)
        self.machine.on_ready(ready, now, out)

    def crash(self, downtime: Downtime | None = None) -> None:
        """Lose everything but the disk, and of that what was not synced, or more."""
        if self._held & _GONE:
            return
        is_lost = downtime is not None and downtime.loses_disk
        is_old = downtime is not None and downtime.old_disk
        note = DISK if is_lost else OLD_DISK if is_old else ""
        self._observe([Event(CRASH, self.pid, note=note)])
        self._stop(DOWN)
        self._writer.crash(is_lost=is_lost, is_old=is_old)

    def recover(self) -> None:
        """Begin the next incarnation with what the disk holds."""
        if self._held & DOWN:
            self._become(self.life.inc + 1)
            self._observe([Event(RECOVER, self.pid)])
            self._start()

    def end(self, after_s: float | None) -> None:
        """The incarnation is over; another follows after so long, if any does."""
        if after_s is None:
            self._stop(AWAY)
        else:
            self._stop(DOWN)
            self.clock.at(self.clock.now + after_s, self.recover)

    def found(self, begins: Sequence[Command]) -> None:
        """Begin the next incarnation, with these commands."""
        self.crash()
        if self.has_started:
            self._held = self._held & ~AWAY | DOWN
            self._become(self.life.inc + 1)
            self._observe([Event(RECOVER, self.pid)])
        self._begins = begins
        self._start()

    @property
    def next_life(self) -> Incarnation:
        """The incarnation that `found` begins."""
        return Incarnation(self.pid, self.life.inc + self.has_started)

    def _stop(self, why: int) -> None:
        self._held = self._held & ~BUSY | why
        self._finishes_late = False
        self._inbox = Inbox(self._circumstances.socket_datagrams_max)
        self._out = Effects(recording=self._is_recording)
        self.application.stop()

    def pause(self) -> None:
        """Handle nothing until as many `resume` as `pause` were called."""
        self._pauses += 1
        self._held |= PAUSED

    def resume(self) -> None:
        """Handle what has waited, in order."""
        self._pauses = max(self._pauses - 1, 0)
        if not self._pauses:
            self._held &= ~PAUSED
            if self._finishes_late:
                self._finishes_late = False
                self._finish(self.life.inc)
            self._drain()

    def slow_disk(self, until: float) -> None:
        """No sync ends before that time."""
        self._writer.slow_down(until)

    def jump(self, by_s: float) -> None:
        """The clock goes forward."""
        self._skew_s += by_s
        self.timer.restart()

    def disconnect(self, announced: bool) -> None:
        """Go out of reach; with `announced` the machine is told first."""
        if announced:
            self.enter(self.machine.on_command, GoOffline())
            self._is_offline = True
        self._cut |= ABSENT

    def reconnect(self) -> None:
        """Come back into reach."""
        self._cut &= ~ABSENT
        if self._is_offline:
            self._is_offline = False
            self.enter(self.machine.on_command, GoOnline())

    def leave(self) -> None:
        """The application asks to be a member no longer."""
        self.enter(self._leave)

    def _leave(self, now: float, out: Effects) -> None:
        self.application.wants_to_leave = True
        self.machine.on_command(LeaveGroup(), now, out)

    def heal(self) -> None:
        """From here on there is no pause, no failpoint, and nothing cuts it off."""
        self._tripwire = None
        self._cut &= ~ISOLATED
        if self._cut:
            self.reconnect()
        if self._pauses:
            self._pauses = 1
            self.resume()

    # Inputs

    def receive(self, source: int, datagram: Any) -> None:
        """A datagram reaches this process's socket."""
        if self._held or self._cut or self._processor is not None:
            self._receive_late(source, datagram)
            return
        out = self._out
        self._on_datagrams(source, (datagram,), self.clock.now + self._skew_s, out)
        if out.refused:
            self._refuse(source, out)
        self._carry_out()

    def _receive_late(self, source: int, datagram: Any) -> None:
        """A datagram whose handler takes time, or that has to wait in the socket buffer."""
        if self._cut or self._held & _GONE:
            return
        if not self._held:
            self._run(self._read, ([(source, [datagram])],), 1)
        elif not self._inbox.put_datagram(self._read, source, datagram):
            self._network.dropped["socket"] += 1

    def _read(self, unread: Unread, now: float, out: Effects) -> None:
        for source, datagrams in unread:
            self._on_datagrams(source, datagrams, now, out)
            if out.refused:
                self._refuse(source, out)

    def enter(self, handler: Handler, *args: Any) -> None:
        """An input other than a datagram: handle it now, or once nothing holds the process."""
        self._enter_in(self.life, handler, args)

    def at(self, when: float, handler: Handler, *args: Any) -> None:
        """Enter at that time of the simulation, if this incarnation still runs then."""
        self.clock.at(when, self._enter_in, (self.life, handler, args))

    def after(self, delay_s: float, handler: Handler, *args: Any) -> None:
        """Enter after so long."""
        self.clock.at(self.clock.now + delay_s, self._enter_in, (self.life, handler, args))

    def _enter_in(self, life: Incarnation, handler: Handler, args: tuple[Any, ...]) -> None:
        if life is self.life and not self._held:
            self._run(handler, args)
        elif life is self.life and not self._held & _GONE:
            self._inbox.put(handler, args)

    def _drain(self) -> None:
        while self._inbox and not self._held:
            self._run(*self._inbox.take())

    def _run(self, handler: Handler, args: tuple[Any, ...], datagrams: int = 0) -> None:
        """Handle an input, which is so many `datagrams`."""
        processor, out, now = self._processor, self._out, self.clock.now + self._skew_s
        if processor is None:
            if args:
                handler(*args, now, out)
            else:  # as most of them
                handler(now, out)
            self._carry_out()
            return
        cost = processor.run(handler, args, now, out)
        traversals = sum(len(to) for to, _ in out.send) + datagrams
        cost += traversals * processor.stack_s  # [SRM §5.4]
        self.busy_s += cost
        self._held |= BUSY
        self.clock.at(self.clock.now + cost, self._finish, (self.life.inc,))

    def _finish(self, inc: int) -> None:
        """The handler's time is over: its outputs leave and the next input enters."""
        if inc != self.life.inc or self._held & _GONE:
            return
        if self._held & PAUSED:
            self._finishes_late = True
            return
        self._held &= ~BUSY
        self._carry_out()
        self._drain()

    def _refuse(self, source: int, out: Effects) -> None:
        """What no correct peer sends goes to who looks on; a mistake of a machine ends the run."""
        refused, out.refused = out.refused, []
        on_error = self._circumstances.on_error
        for error in refused:
            if on_error is None or not isinstance(error, RemoteProtocolError):
                raise error
            on_error(self.life, source, error)

    # Effects: persist, record, send, hand over, then the timers

    def _carry_out(self) -> None:
        out = self._out
        if out.persist or out.forget_before:
            self._writer.carry_out(out)
        if self._tripwire is not None and self._trip(self._tripwire, out):
            return
        if out.events:
            self._observe(out.events)
            out.events.clear()
        if out.read:
            self._writer.read(out.read)
        if out.send:
            if not self._cut:
                self._network.send(self.pid, out.send)
            out.send.clear()
        if out.outputs:
            outputs, out.outputs = out.outputs, []  # as live: nobody may hold the list
            self.application.take(outputs)
        if self.machine.deadline < self.timer.armed[-1]:
            self.timer.arm(self.clock.now + self._skew_s)

    def await_idle(self) -> None:
        """The application has sent: tell the machine, once, when the loop has turned."""
        if self._idle_s is not None and not self._is_idle_due:
            self._is_idle_due = True
            self.after(self._idle_s, self._on_idle)

    def _on_idle(self, now: float, out: Effects) -> None:
        self._is_idle_due = False
        self.machine.on_idle(now, out)

    def _observe(self, events: Sequence[Event]) -> None:
        life, n, ts_ns = self.life, self.recorded, round(self.clock.now * 1e9)
        if life.inc > 1:
            for event in events:
                event.inc = life.inc
        for event in events:
            n += 1
            event.n = n
            event.ts_ns = ts_ns
        self.recorded = n
        for observe in self._observers:
            observe(events)

    def _trip(self, tripwire: FailpointSet, out: Effects) -> bool:
        """Whether this handler has reached a failpoint at which the process crashes."""
        names, kinds = self._machines.kinds, tripwire.kinds
        events = [event for event in out.events or () if event.kind in kinds]
        sent: list[str] = []
        for to, datagram in out.send:
            sent += [kind for kind in names(datagram) if kind in kinds] * len(to)
        point = tripwire.triggered(events, sent) if events or sent else None
        if point is None:
            return False
        peers = [pid for pid in range(self._network.size) if pid != self.pid]
        if point in self._circumstances.isolations:
            self._isolate(point, peers)
            return False
        truncate_effects(out, point.keep_effects, peers, self._circumstances.rng)
        self._observe(out.events or ())
        if not self._cut:
            self._network.send(self.pid, out.send)
        self.application.take([output for output in out.outputs if not isinstance(output, Ended)])
        self._circumstances.on_stumble(self.pid, point)
        return True

    def _isolate(self, point: Failpoint, peers: Sequence[int]) -> None:
        """Send a share of what this handler sends, and be out of reach from then on."""
        if not self._cut:
            sends = Effects(recording=False)
            sends.send += self._out.send
            truncate_effects(sends, point.keep_effects, peers, self._circumstances.rng)
            self._network.send(self.pid, sends.send)
        self._cut |= ISOLATED
        for_s = self._circumstances.isolations[point]
        self.clock.at(self.clock.now + for_s, self._end_isolation)

    def _end_isolation(self) -> None:
        self._cut &= ~ISOLATED
