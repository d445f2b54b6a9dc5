"""One simulated process in a group with views, through its lives.

A life ends when the process crashes, leaves, or learns that the group went on without it; the next
one knows nothing, joins, and has the next incarnation.  Inputs reach the member one at a time;
while the process is paused they wait in order, datagrams in a socket buffer that overflows.  The
clock that the member reads is the simulation's plus what it has jumped.
A failpoint may name a kind of datagram too: the process stops in the handler that sends it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from random import Random
from typing import Any, Final, TypeAlias

from semcast.faults import Failpoint, Latency, Tripwire, cut_short
from semcast.sim.clock import Clock
from semcast.sim.halting import PAUSED, Halting
from semcast.sim.network import Network
from semcast.sim.process import TIMER_REPEATS_MAX, Consumer, Handler, Observer, Producer
from semcast.sim.pubsub.station import NO_WAIT, SOCKET_DATAGRAMS_MAX
from semcast.sim.views.application import Application, of_this_life
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.events import CRASH, RECOVER, Event
from semcast.terms.ids import Life, Lineage
from semcast.terms.machine import FoundGroup, LeaveGroup, Machine, Status, SupplyState
from semcast.terms.messages import Submission
from semcast.terms.outputs import ROOM, Delivery, Ended, Installed, Output, Rival
from semcast.terms.views import Stamped

Born: TypeAlias = Callable[[Life, float], tuple[Machine, Application, Consumer]]
"""(a life, now) → its member, its application, and how fast that is."""

_DOWN: Final = 2
_AWAY: Final = 4  # not started, or it left


class Station(Halting):
    """Invariant: `_out` is empty between handlers; `_earlier` submissions were of lives before."""

    def __init__(
        self,
        pid: int,
        born: Born,
        clock: Clock,
        network: Network,
        *,
        rng: Random,
        founders: tuple[Life, ...] = (),
        producer: Producer | None = None,
        failpoints: Sequence[Failpoint] = (),
        isolations: Mapping[Failpoint, float] | None = None,
        snapshot: Latency = NO_WAIT,
        back_after_s: float = 0.1,
        observers: Sequence[Observer] = (),
        on_install: Callable[[Life, Installed, Application], None] = lambda *_: None,
        on_error: Callable[[Life, int, RemoteProtocolError], None] = lambda *_: None,
        on_crash: Callable[[int, Failpoint], None] = lambda *_: None,
    ) -> None:
        self.pid = pid
        self.recorded = 0
        self._born = born
        self._clock = clock
        self._network = network
        self._rng = rng
        self._founders, self._lineage = founders, 1
        self._producer = producer
        self._isolations = isolations or {}
        points = (*failpoints, *self._isolations)
        self._tripwire = Tripwire(points) if points else None
        self._snapshot = snapshot
        self._back_after_s = back_after_s
        self._observers = tuple(observers)
        self._on_install = on_install
        self._on_error = on_error
        self._on_crash = on_crash
        self._out = Effects(recording=bool(observers or points))
        self._inbox: deque[tuple[Handler, tuple[Any, ...]]] = deque()
        self._is_connected = True
        self._held = _AWAY
        self._skew_s = 0.0
        self._has_begun = self.wants_to_leave = False
        self.rivals: list[Lineage] = []  # those that its lives told of
        self._earlier = 0
        self._become(1)

    def _become(self, inc: int) -> None:
        """Begin a life that knows nothing."""
        self.life = Life(self.pid, inc)
        self.member, self.application, self.consumer = self._born(self.life, self.now)
        self._accepted = 0
        self._armed = inf
        self._repeats = 0

    def __repr__(self) -> str:
        return f"Station(life={self.life}, held={self._held}, {self.member})"

    @property
    def now(self) -> float:
        """What this process takes for the time."""
        return self._clock.now + self._skew_s

    @property
    def status(self) -> Status:
        """How its member is doing."""
        return self.member.status(self.now)

    @property
    def is_down(self) -> bool:
        return bool(self._held & _DOWN)

    @property
    def is_up(self) -> bool:
        """Whether it runs, as a member or on its way to be one."""
        return not self._held & (_DOWN | _AWAY)

    @property
    def is_blocked(self) -> bool:
        """Whether its application has something to say and may not."""
        return self._producer is not None and bool(self._producer.pending)

    def arrive(self) -> None:
        """Start, unless it did before."""
        if not self._has_begun:
            self.start()

    def start(self) -> None:
        """Let the application begin."""
        self._has_begun = True
        self._held &= ~_AWAY
        self._enter(self._begin)
        self._next_batch()

    def leave(self) -> None:
        """The application asks to be one no longer."""
        self._enter(self._leave)

    def offer(self, submission: Submission) -> None:
        """The application has one more thing to say."""
        self._producer = self._producer or Producer((), ())
        self._producer.pending += (submission,)
        self._enter(self._offer)

    def receive(self, source: int, datagram: Stamped) -> None:
        """A datagram reaches this process's socket."""
        if not self._is_connected:
            return
        if self._held != PAUSED or len(self._inbox) < SOCKET_DATAGRAMS_MAX:
            self._enter(self._on_datagram, source, datagram)

    def _go_on(self) -> None:
        while self._inbox and not self._held:
            handler, args = self._inbox.popleft()
            self._enter(handler, *args)

    def jump(self, by_s: float) -> None:
        """The clock goes forward."""
        self._skew_s += by_s
        if not self._held:
            self._arm()

    def heal(self) -> None:
        """Also, nothing cuts it off."""
        self._is_connected = True
        super().heal()

    def crash(self) -> None:
        """Everything that this life knows is lost."""
        if not self.is_up:
            return
        self._observe([Event(CRASH, self.pid, inc=self.life.inc)])
        self._end_life(_DOWN)

    def recover(self) -> None:
        """Begin the next life."""
        if self._held & _DOWN:
            self._held &= ~_DOWN
            self.wants_to_leave = False
            self._become(self.life.inc + 1)
            self._observe([Event(RECOVER, self.pid, inc=self.life.inc)])
            self.start()

    def found(self, founders: tuple[Life, ...], lineage: Lineage) -> None:
        """Begin the life that is among the founders, in a group that is founded now."""
        self.crash()
        self._founders, self._lineage = founders, lineage
        if self._has_begun:
            self._held = self._held & ~_AWAY | _DOWN
            self.recover()
        self.arrive()

    @property
    def next_life(self) -> Life:
        """The one that `found` begins."""
        return Life(self.pid, self.life.inc + self._has_begun)

    def _end_life(self, held: int) -> None:
        self._held |= held
        self._inbox.clear()
        self._armed = inf
        self._earlier += self._accepted

    def _enter(self, handler: Handler, *args: Any) -> None:
        """Handle an input now, or once nothing holds the process."""
        if not self._held:
            now = self.now
            handler(*args, now, self._out)
            self._carry_out(now)
        elif self._held == PAUSED:
            self._inbox.append((handler, args))

    def _after(self, delay_s: float, handler: Handler, *args: Any) -> None:
        self._clock.at(self._clock.now + delay_s, self._enter_in, (self.life.inc, handler, args))

    def _enter_in(self, inc: int, handler: Handler, args: tuple[Any, ...]) -> None:
        if inc == self.life.inc:
            self._enter(handler, *args)

    def _begin(self, now: float, out: Effects) -> None:
        if self.life in self._founders:
            founding = FoundGroup(self._founders, self._lineage)
            self.member.on_command(founding, now, out)
        self.consumer.asked = self.consumer.take
        self.member.on_ready(self.consumer.take, now, out)

    def _leave(self, now: float, out: Effects) -> None:
        self.wants_to_leave = True
        self.member.on_command(LeaveGroup(), now, out)

    def _on_datagram(self, source: int, datagram: Stamped, now: float, out: Effects) -> None:
        try:
            self.member.on_datagram(source, datagram, now, out)
        except RemoteProtocolError as error:
            self._on_error(self.life, source, error)

    def _carry_out(self, now: float) -> None:
        out, member = self._out, self.member
        if out.events is not None and self._tripwire is not None:
            sent = [
                Event(type(stamped.datagram).__name__.lower(), self.pid)
                for to, stamped in out.send
                for _ in to
            ]
            point = self._tripwire.tripped(out.events + sent)
            if point is not None and point in self._isolations:
                self._isolate(point)
            elif point is not None:
                self._crash_inside(point)
                return
        if out.events:
            events, out.events = out.events, []  # as live: nobody may keep the list
            self._observe(events)
        if out.send:
            if self._is_connected:
                self._network.send(self.pid, out.send)
            out.send.clear()
        if out.outputs:
            outputs, out.outputs = out.outputs, []
            self._hand_over(outputs)
            if ROOM in outputs:
                self._offer_again()
            if any(isinstance(output, Ended) for output in outputs):
                self._go()
        if member.deadline < self._armed:
            self._arm()

    def _observe(self, events: Sequence[Event]) -> None:
        ts_ns = round(self._clock.now * 1e9)
        for event in events:
            self.recorded += 1
            event.n = self.recorded
            event.ts_ns = ts_ns
            for observe in self._observers:
                observe(event)

    def _isolate(self, point: Failpoint) -> None:
        """Send a share of what this handler sends, and be out of reach from then on."""
        if self._is_connected:
            sends = Effects(recording=False)
            sends.send += self._out.send
            cut_short(sends, point.keep_effects, self._peers, self._rng)
            self._network.send(self.pid, sends.send)
        self._is_connected = False
        self._clock.at(self._clock.now + self._isolations[point], self._reconnect)

    def _reconnect(self) -> None:
        self._is_connected = True

    @property
    def _peers(self) -> list[int]:
        return [pid for pid in range(self._network.size) if pid != self.pid]

    def _crash_inside(self, point: Failpoint) -> None:
        out = self._out
        cut_short(out, point.keep_effects, self._peers, self._rng)
        self._observe(out.events or ())
        if self._is_connected:
            self._network.send(self.pid, out.send)
        self._hand_over(out.outputs)
        self._out = Effects(recording=True)
        self._on_crash(self.pid, point)

    def _hand_over(self, outputs: Sequence[Output]) -> None:
        """The application takes what is delivered, and enters views, in order."""
        handed = 0
        for output in outputs:
            if isinstance(output, Delivery):
                for message in output.messages:
                    self.application.deliver(message, output.position)
                handed += len(output.messages)
            elif isinstance(output, Installed):
                self._install(output)
            elif isinstance(output, Rival):
                self.rivals.append(output.lineage)
        self._consume(handed)

    def _install(self, installed: Installed) -> None:
        self.application.install(installed)
        self._on_install(self.life, installed, self.application)
        if installed.wants_state:
            view_id, state = installed.view.id, self.application.state()
            supply = SupplyState(view_id, state)
            self._after(self._snapshot.draw(self._rng), self.member.on_command, supply)

    def _go(self) -> None:
        """This life is over; who did not want to leave comes back as another."""
        self._end_life(_AWAY if self.wants_to_leave else _DOWN)
        if not self.wants_to_leave:
            self._clock.at(self._clock.now + self._back_after_s, self.recover)

    def _consume(self, handed: int) -> None:
        consumer = self.consumer
        if consumer.is_always_ready or not handed:
            return
        if not consumer.waiting:
            self._after(consumer.service.draw(self._rng), self._serve)
        consumer.waiting += handed

    def _serve(self, now: float, out: Effects) -> None:
        """The application is done with one message."""
        consumer = self.consumer
        consumer.waiting -= 1
        consumer.asked -= 1
        if consumer.waiting:
            self._after(consumer.service.draw(self._rng), self._serve)
        elif not consumer.asked:
            consumer.asked = consumer.take
            self.member.on_ready(consumer.take, now, out)

    def _next_batch(self) -> None:
        producer, now = self._producer, self._clock.now
        if producer is not None and (producer.pending or producer.prepare(now)):
            self._after(max(producer.due - now, 0.0), self._offer)

    def _offer(self, now: float, out: Effects) -> None:
        """Offer what is pending; what is refused waits for room."""
        producer = self._producer
        if producer is None or not producer.pending:
            return
        accepted = self.member.submit(of_this_life(producer.pending, self._earlier), now, out)
        self._accepted += accepted
        producer.pending = producer.pending[accepted:]
        producer.is_blocked = bool(producer.pending)
        if not producer.pending:
            self._next_batch()

    def _offer_again(self) -> None:
        producer = self._producer
        if producer is not None and producer.is_blocked:
            producer.is_blocked = False
            self._after(0.0, self._offer)

    def _arm(self) -> None:
        # A timer is never cancelled: one that another has overtaken finds that it is not `_armed`.
        self._armed = self.member.deadline
        if self._armed < inf:
            wait_s = max(self._armed - self.now, 0.0)
            self._clock.at(self._clock.now + wait_s, self._ring, (self.life.inc, self._armed))

    def _ring(self, inc: int, when: float) -> None:
        if inc == self.life.inc and when == self._armed and not self._held & (_DOWN | _AWAY):
            self._armed = inf
            self._enter(self._on_time, when)

    def _on_time(self, when: float, now: float, out: Effects) -> None:
        now = max(now, when)  # Sums of floats may fall short of it.
        if self.member.deadline > now:
            return  # It moved while this process was held.
        self.member.on_time(now, out)
        self._repeats = 0 if self.member.deadline > now else self._repeats + 1
        if self._repeats > TIMER_REPEATS_MAX:
            raise LocalProtocolError(
                f"process {self.pid}: on_time did not move its deadline past {now}"
            )
