"""The application above a simulated machine: it sends, takes messages, and may hold a state.

An application that holds a state enters views with it and hands it over where it is asked to.
A new incarnation begins with a new state; what an application had still to send it sends then.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from semcast.families.referee import ApplicationState
from semcast.families.testing import Habits
from semcast.faults import Constant, Latency
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation
from semcast.terms.limits import check_range
from semcast.terms.machine import SupplyState
from semcast.terms.messages import DataMessage, Update
from semcast.terms.outputs import Delivery, Ended, Installed, Output, Rival, Room

if TYPE_CHECKING:
    from semcast.sim.process import SimProcess

ALWAYS_READY: Final = 2**62

OnDeliver: TypeAlias = Callable[[int, Sequence[DataMessage], float], None]
OnInstall: TypeAlias = Callable[[Incarnation, Installed, ApplicationState], None]


class Consumer:
    """An application that asks for `take` messages and spends `service` on each in turn.

    Without both it is always ready.  It asks again when it has served all it asked for.
    Invariant: `waiting` has no more messages (delivered, not yet served) than it has `asked` for
    and not yet served.
    """

    __slots__ = ("asked", "is_always_ready", "service", "take", "waiting")

    def __init__(self, service: float | Latency = 0.0, take: int | None = None) -> None:
        self.service = Constant(service) if isinstance(service, (int, float)) else service
        check_range("take", 1 if take is None else take, 1)
        self.is_always_ready = take is None and self.service == Constant(0.0)
        self.take = take or (ALWAYS_READY if self.is_always_ready else 1)
        self.asked = 0
        self.waiting: deque[DataMessage] = deque()

    def begin(self) -> int:
        """How many messages a new incarnation asks for."""
        self.asked = self.take
        self.waiting.clear()
        return self.take

    def service_s(self, message: DataMessage, now: float, rng: Random) -> float:
        """How long it spends on a message that it begins to serve now."""
        return self.service.draw(rng)


class Producer:
    """An application that offers `batch` updates at a time, one gap between any two.

    A batch is due when its last update is, so the rate does not depend on `batch`.  Refused
    updates are offered again when there is room; meanwhile no backlog builds up:
    the next batch is due its gaps after this one was due, or now if that has passed.  It stops
    after `count_max` updates, with the first batch due after `until_s`, or when either
    iterator ends.
    """

    __slots__ = (
        "_arrivals",
        "_batch",
        "_left",
        "_updates",
        "due",
        "is_blocked",
        "pending",
        "until_s",
    )

    def __init__(
        self,
        arrivals: Iterable[float],
        updates: Iterable[Update],
        *,
        batch: int = 1,
        count_max: int = ALWAYS_READY,
        until_s: float = inf,
    ) -> None:
        check_range("batch", batch, 1)
        check_range("count_max", count_max, 0)
        self._arrivals: Iterator[float] = iter(arrivals)
        self._updates = iter(updates)
        self._batch = batch
        self._left = count_max
        self.until_s = until_s
        self.pending: tuple[Update, ...] = ()
        self.due = 0.0
        self.is_blocked = False

    def prepare(self, now: float) -> bool:
        """Make the next batch `pending` and say when it is `due`; False when there is none."""
        wanted = min(self._batch, self._left)
        gaps = list(islice(self._arrivals, wanted))
        self.pending = tuple(islice(self._updates, len(gaps)))
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


class Application:
    """One process's application.  `earlier` updates were of incarnations before this one.
    `rivals` are the lineages beside its own that its machines told of, `unasked` how many messages
    it was handed at the most beyond those that it asked for."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer | None,
        habits: Habits,
        rng: Random,
        on_deliver: OnDeliver | None = None,
        on_install: OnInstall | None = None,
    ) -> None:
        self.consumer, self.producer = consumer, producer
        self.state: ApplicationState | None = None
        self.wants_to_leave = self.has_ended = False
        self.rivals: list[int] = []
        self.unasked = 0
        self._habits, self._rng = habits, rng
        self._on_deliver, self._on_install = on_deliver, on_install
        self._earlier = self._accepted = 0
        self._process: SimProcess

    @property
    def is_blocked(self) -> bool:
        """Whether it has something to say and may not."""
        return self.producer is not None and bool(self.producer.pending)

    def begin(self, process: "SimProcess") -> int:
        """An incarnation of the process begins; how many messages it asks for."""
        self._process = process
        self.wants_to_leave = self.has_ended = False
        if self._habits.new_state is not None:
            self.state = self._habits.new_state()
        return self.consumer.begin()

    def send_on(self) -> None:
        """Schedule the next batch, if there is one."""
        producer, now = self.producer, self._process.clock.now
        if producer is not None and (producer.pending or producer.prepare(now)):
            self._process.at(max(producer.due, now), self._offer)

    def stop(self) -> None:
        """The incarnation is over."""
        self._earlier += self._accepted
        self._accepted = 0

    def take(self, outputs: Sequence[Output]) -> None:
        """Take what the machine hands over, in order."""
        for output in outputs:
            if isinstance(output, Delivery):
                self._deliver(output)
            elif isinstance(output, Room):
                self._offer_again()
            elif isinstance(output, Installed):
                self._install(output)
            elif isinstance(output, Ended):
                self._end()
            elif isinstance(output, Rival):
                self.rivals.append(output.lineage)

    def _deliver(self, delivery: Delivery) -> None:
        run, process = delivery.run, self._process
        if self.state is not None:
            for place, message in enumerate(run.messages()):
                self.state.deliver(message, delivery.position and delivery.position + place)
        if self._on_deliver is not None:
            self._on_deliver(process.pid, run.messages(), process.now)
        consumer = self.consumer
        if consumer.is_always_ready:
            return
        is_idle = not consumer.waiting
        consumer.waiting.extend(run.messages())
        self.unasked = max(self.unasked, len(consumer.waiting) - consumer.asked)
        if is_idle:
            self._begin_to_serve()

    def _begin_to_serve(self) -> None:
        process, consumer = self._process, self.consumer
        spent_s = consumer.service_s(consumer.waiting[0], process.clock.now, self._rng)
        process.after(spent_s, self._serve)

    def _serve(self, now: float, out: Effects) -> None:
        """The application is done with one message."""
        consumer = self.consumer
        consumer.waiting.popleft()
        consumer.asked -= 1
        if consumer.waiting:
            self._begin_to_serve()
        elif consumer.asked <= 0:
            consumer.asked += consumer.take
            self._process.machine.on_ready(consumer.take, now, out)

    def _install(self, installed: Installed) -> None:
        if self.state is None:
            return
        self.state.install(installed)
        process = self._process
        if self._on_install is not None:
            self._on_install(process.life, installed, self.state)
        if installed.wants_state:
            supply = SupplyState(installed.view.id, self.state.state())
            delay_s = self._habits.snapshot.draw(self._rng)
            process.after(delay_s, process.machine.on_command, supply)

    def _end(self) -> None:
        """The machine is no member any more; who did not want to leave may come back."""
        if self.wants_to_leave:
            self._process.end(None)
        elif self._habits.back_after_s is not None:
            self._process.end(self._habits.back_after_s)
        else:
            self.has_ended = True
            if self.producer is not None:
                self.producer.stop()

    def say(self, update: Update) -> None:
        """Send one thing more."""
        self.producer = self.producer or Producer((), ())
        self.producer.pending += (update,)
        self._process.enter(self._offer)

    def _offer(self, now: float, out: Effects) -> None:
        """Offer what is pending; what is refused waits for room."""
        producer = self.producer
        if producer is None or not producer.pending:
            return
        updates = _of_this_incarnation(producer.pending, self._earlier)
        self._process.await_idle()
        accepted = self._process.machine.submit(updates, now, out)
        self._accepted += accepted
        producer.pending = producer.pending[accepted:]
        producer.is_blocked = bool(producer.pending)
        if not producer.pending:
            self.send_on()

    def _offer_again(self) -> None:
        producer = self.producer
        if producer is not None and producer.is_blocked:
            producer.is_blocked = False  # asked again once, however often room is signalled
            self._process.after(0.0, self._offer)


def _of_this_incarnation(updates: Sequence[Update], earlier: int) -> Sequence[Update]:
    """The same in numbers of this incarnation; what earlier ones said, as many messages as
    `earlier`, cannot be named any more."""
    if not earlier:
        return updates
    return [
        replace(one, obsoletes=tuple(seq - earlier for seq in one.obsoletes if seq > earlier))
        for one in updates
    ]
