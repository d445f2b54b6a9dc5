"""A process in a group with views, through its incarnations, with a machine that takes notes."""

from collections.abc import Sequence
from itertools import repeat
from math import inf
from typing import Any

import pytest

from semcast.families.testing import Habits
from semcast.families.views.knowledge import Knower
from semcast.families.views.testing import kinds
from semcast.faults import (
    ClockJump,
    Constant,
    Crash,
    Failpoint,
    FailpointCrash,
    Fault,
    Isolation,
    LateJoin,
    LeaveAt,
    Link,
    Pause,
)
from semcast.kernel import run_of
from semcast.sim import Consumer, Machines, Network, Producer, Simulation
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError, LocalProtocolError, RemoteProtocolError
from semcast.terms.events import DELIVER, Event
from semcast.terms.ids import EVERYONE, Incarnation
from semcast.terms.machine import Command, FoundGroup, Machine, SupplyState
from semcast.terms.messages import DataMessage, Update
from semcast.terms.outputs import Delivery, Ended, Installed
from semcast.terms.views import (
    EXCLUDED,
    LEFT,
    NO_VIEW,
    BallotRejected,
    GroupView,
    Heartbeat,
    NotInView,
    Prepare,
    Stamped,
)
from semcast.wire import VIEW_CODEC


def stamped(datagram: Any) -> Stamped:
    return Stamped(1, 1, datagram)


class Diary(Machine):
    """Installs a view of its own, tells everyone what it multicasts, delivers what it is told."""

    def __init__(
        self, notes: list[str], life: Incarnation, now: float, rings: Sequence[float]
    ) -> None:
        self.life, self.notes = life, notes
        self.view, self.last = NO_VIEW, 0
        self.rings = [now + ring for ring in rings]
        self.note("born", f"{now:.3f}")

    @property
    def deadline(self) -> float:  # type: ignore[override]
        return self.rings[0] if self.rings else inf

    @property
    def sent(self) -> int:
        return self.last

    def status(self, now: float) -> Any:
        raise AssertionError("nobody asks")

    def note(self, what: str, *details: object) -> None:
        self.notes.append(" ".join(map(str, (f"{self.life.pid}.{self.life.inc}", what, *details))))

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        if isinstance(command, FoundGroup):
            self.found(command.lives, out)
        elif isinstance(command, SupplyState):
            self.note("state", command.view, f"{now:.3f}")
        else:
            self.note("leave", f"{now:.3f}")
            out.outputs.append(Ended(LEFT))

    def found(self, lives: tuple[Incarnation, ...], out: Effects) -> None:
        self.note("found", len(lives))
        self.view = GroupView(1, lives, (0,) * len(lives))
        out.outputs.append(Installed(self.view, None, True))

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        self.last += 1
        self.note("multicast", updates[0].obsoletes)
        out.send.append((EVERYONE, stamped(Prepare(1, self.last))))
        return 1

    def on_datagrams(
        self, source: int, datagrams: Sequence[Stamped], now: float, out: Effects
    ) -> None:
        for stamped in datagrams:
            self._hear(source, stamped.datagram, now, out)

    def _hear(self, source: int, datagram: Any, now: float, out: Effects) -> None:
        self.note("heard", type(datagram).__name__, f"{now:.3f}")
        if isinstance(datagram, BallotRejected):
            out.refused.append(RemoteProtocolError("nonsense"))
        elif isinstance(datagram, NotInView):
            out.outputs.append(Ended(EXCLUDED))
        elif isinstance(datagram, Prepare):
            assert out.events is not None
            out.outputs.append(Delivery(run_of([DataMessage(source, datagram.ballot)])))
            out.events.append(Event(DELIVER, self.life.pid, source, datagram.ballot))

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        self.note("ready", count, f"{now:.3f}")

    def on_time(self, now: float, out: Effects) -> None:
        self.note("time", f"{now:.3f}")
        self.rings.pop(0)
        out.send.append((EVERYONE, stamped(Heartbeat(self.life.inc, 0))))


class World:
    def __init__(
        self,
        *faults: Fault,
        sends: Sequence[Update] = (),
        rings: Sequence[float] = (),
        service_s: float = 0.0,
    ) -> None:
        self.notes: list[str] = []
        self.trace: list[Event] = []
        self.errors: list[str] = []
        founding = FoundGroup((Incarnation(0, 1), Incarnation(1, 1)), 1)
        self.simulation = Simulation(
            Machines(
                born=lambda life, now, _: Diary(
                    self.notes, life, now, rings if life.pid == 0 else ()
                ),
                begins=lambda life: (founding,) if life.inc == 1 else (),
                kinds=kinds,
            ),
            Network(2, Link(latency=Constant(0.01)), through_bytes=VIEW_CODEC),
            seed=1,
            consumers={pid: Consumer(service_s) for pid in range(2)},
            producers={0: Producer(repeat(0.1), sends)},
            habits=Habits(
                new_state=lambda: Knower("fifo", "item"),
                snapshot=Constant(0.05),
                back_after_s=0.2,
            ),
            faults=faults,
            observers=[self.trace.append],
            on_error=lambda life, source, e: self.errors.append(f"{life.pid} {source} {e}"),
        )

    def until(self, when: float, *words: str) -> list[str]:
        self.simulation.run(when)
        return [note for note in self.notes if note.split()[1] in words]


def test_founders_enter_the_first_view_and_are_asked_for_their_state() -> None:
    assert World().until(1.0, "found", "state") == [
        "0.1 found 2",
        "1.1 found 2",
        "0.1 state 1 0.050",
        "1.1 state 1 0.050",
    ]


def test_who_crashes_comes_back_as_a_new_life_that_is_no_founder() -> None:
    world = World(Crash(1, 0.3, back_after_s=0.2))
    assert world.until(1.0, "born", "found") == [
        "0.1 born 0.000",
        "1.1 born 0.000",
        "0.1 found 2",
        "1.1 found 2",
        "1.2 born 0.500",
    ]
    assert [(e.kind, e.pid, e.inc) for e in world.trace] == [("crash", 1, 1), ("recover", 1, 2)]


def test_the_end_of_faults_brings_back_who_is_to_come_back() -> None:
    world = World(Crash(0, 0.1), Crash(1, 0.1, back_after_s=50.0))
    world.until(0.5)
    world.simulation.heal()
    assert world.until(0.6, "born")[2:] == ["1.2 born 0.500"]
    assert [process.pid for process in world.simulation.up] == [1]


def test_who_was_excluded_comes_back_after_a_while() -> None:
    world = World()
    world.simulation.clock.at(
        0.3, world.simulation.processes[1].receive, (0, stamped(NotInView(1, 2)))
    )
    assert world.until(1.0, "born")[2:] == ["1.2 born 0.500"]


def test_who_left_is_gone_and_who_arrives_starts_late() -> None:
    world = World(LeaveAt(1, 0.3), LateJoin(0, 0.2))
    assert world.until(1.0, "found", "leave") == ["1.1 found 2", "0.1 found 2", "1.1 leave 0.300"]
    assert [process.pid for process in world.simulation.up] == [0]


def test_a_clock_that_jumps_makes_what_is_waited_for_due() -> None:
    world = World(ClockJump(0, 0.2, 0.5), rings=(0.1, 0.6, 0.9))
    notes = world.until(1.0, "time", "heard")
    assert notes == [
        "0.1 time 0.100",
        "1.1 heard Heartbeat 0.110",
        "0.1 time 0.700",
        "1.1 heard Heartbeat 0.210",
        "0.1 time 0.900",
        "1.1 heard Heartbeat 0.410",
    ]


def test_what_arrives_in_a_pause_is_heard_after_it() -> None:
    world = World(Pause(1, 0.05, 0.4), rings=(0.1,))
    assert world.until(1.0, "heard") == ["1.1 heard Heartbeat 0.400"]


def test_a_failpoint_may_name_a_datagram() -> None:
    stumble = FailpointCrash(Failpoint(0, "prepare", nth=2, keep_effects=0.0), back_after_s=0.05)
    world = World(stumble, sends=[Update()] * 3)
    assert world.until(1.0, "multicast", "born") == [
        "0.1 born 0.000",
        "1.1 born 0.000",
        "0.1 multicast ()",
        "0.1 multicast ()",
        "0.2 born 0.250",
        "0.2 multicast ()",
    ]
    assert len(world.until(1.0, "heard")) == 2


def test_who_is_isolated_at_a_failpoint_lives_on_and_neither_sends_nor_hears() -> None:
    isolation = Isolation(Failpoint(0, "prepare", nth=2, keep_effects=0.0), 0.15)
    world = World(isolation, sends=[Update()] * 4)
    assert world.until(1.0, "multicast", "heard") == [
        "0.1 multicast ()",
        "1.1 heard Prepare 0.110",
        "0.1 multicast ()",
        "0.1 multicast ()",
        "0.1 multicast ()",
        "1.1 heard Prepare 0.410",
    ]
    assert world.simulation.processes[0].life == Incarnation(0, 1)


def test_the_end_of_faults_ends_an_isolation() -> None:
    isolation = Isolation(Failpoint(0, "prepare", nth=1, keep_effects=0.0), 50.0)
    world = World(isolation, sends=[Update()] * 3)
    world.until(0.25)
    world.simulation.heal()
    assert world.until(1.0, "heard") == ["1.1 heard Prepare 0.310"]


def test_what_cannot_be_meant_is_told_and_the_process_goes_on() -> None:
    world = World()
    world.until(0.1)
    world.simulation.processes[1].receive(0, stamped(BallotRejected(1, 7)))
    assert world.errors == ["1 0 nonsense"]
    assert world.simulation.processes[1].is_up


def test_a_new_life_names_only_what_it_said_itself() -> None:
    sends = [Update(), Update(), Update(obsoletes=(1, 2)), Update(obsoletes=(2, 3))]
    world = World(Crash(0, 0.25, back_after_s=0.01), sends=sends)
    assert world.until(1.0, "multicast") == [
        "0.1 multicast ()",
        "0.1 multicast ()",
        "0.2 multicast ()",
        "0.2 multicast (1,)",
    ]


def test_a_slow_application_asks_for_more_when_it_has_served() -> None:
    world = World(sends=[Update()], service_s=0.3)
    assert world.until(1.0, "ready") == [
        "0.1 ready 1 0.000",
        "1.1 ready 1 0.000",
        "1.1 ready 1 0.410",
    ]


def test_a_timer_that_never_moves_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(rings=(0.5,))
    monkeypatch.setattr(Diary, "on_time", lambda self, now, out: None)
    with pytest.raises(LocalProtocolError, match=r"did not move its deadline past 0\.5"):
        world.until(1.0)


def entering(view: GroupView, state: bytes | None = None) -> Installed:
    return Installed(view, state, False)


def test_an_application_knows_the_same_in_any_order() -> None:
    view = GroupView(3, (Incarnation(0, 1), Incarnation(4, 2)), (10, 0))
    messages = [
        DataMessage(0, 11, item=5),
        DataMessage(0, 12),
        DataMessage(1, 1, never_purge=True),
        DataMessage(0, 13, item=5),
    ]
    one, other = (Knower("fifo", "item") for _ in range(2))
    for application, order in ((one, (0, 1, 2, 3)), (other, (2, 1, 3))):
        application.install(entering(view))
        for place in order:
            application.deliver(messages[place], 0)
    assert one.state() == other.state()
    assert one.knows.newest == {"0.1": (0, 13), "0.1/5": (0, 13), "4.2": (0, 1)}


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_joiner_goes_on_from_the_state_it_is_given(order: str) -> None:
    donor, joiner = (Knower(order, "item") for _ in range(2))
    members = (Incarnation(0, 1),)
    donor.install(entering(GroupView(1, members, (0,))))
    donor.deliver(DataMessage(0, 1, item=7), 1)
    joiner.install(entering(GroupView(2, members, (1,)), donor.state()))
    donor.install(entering(GroupView(2, members, (1,))))
    for application in (donor, joiner):
        application.deliver(DataMessage(0, 2, item=7), 1)
    assert joiner.state() == donor.state()
    newest = (2, 1) if order == "total" else (0, 2)
    assert newest in joiner.knows.newest.values()


def test_an_isolation_that_never_lasts_is_refused() -> None:
    with pytest.raises(ConfigError):
        Isolation(Failpoint(0, "prepare"), 0.0)
