"""A process with a disk, through its incarnations, with a machine that only takes notes."""

from collections.abc import Sequence
from itertools import repeat
from math import inf
from typing import Any

import msgspec
import pytest

from semcast.faults import (
    Constant,
    Crash,
    Disconnection,
    Failpoint,
    FailpointCrash,
    Fault,
    LateJoin,
    LeaveAt,
    Link,
    Pause,
    SlowDisk,
)
from semcast.kernel import run_of
from semcast.sim import Machines, Network, Producer, Simulation
from semcast.specs.channel import UnreliableChannel
from semcast.specs.violations import ViolationLog
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.events import APPEND, DELIVER, MULTICAST, Event
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import Command, JoinGroup, Machine
from semcast.terms.messages import DataMessage, Update, WindowEmpty
from semcast.terms.outputs import Delivery


class Record(msgspec.Struct, frozen=True, array_like=True, tag=1):
    text: str


class Diary(Machine):
    """Persists every multicast, then sends it to everyone; delivers what it is sent."""

    def __init__(self, notes: list[str], pid: int, inc: int, records: Sequence[Any]) -> None:
        self.pid, self.notes = pid, notes
        self.deadline = inf
        texts = [record.text for record in records]
        self.seq = len(texts)
        self.waiting: list[int] = []
        self.note("born", inc, texts)

    def note(self, what: str, *details: object) -> None:
        self.notes.append(" ".join(map(str, (self.pid, what, *details))))

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        self.note(type(command).__name__, now)

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        self.seq += 1
        out.persist.append((self.seq, Record(str(self.seq))))
        self.waiting.append(self.seq)
        return 1

    def on_persisted(self, ticket: int, now: float, out: Effects) -> None:
        assert out.events is not None
        for seq in [seq for seq in self.waiting if seq <= ticket]:
            self.waiting.remove(seq)
            self.note("durable", seq, f"{now:.3f}")
            out.events.append(Event(APPEND, self.pid, self.pid, seq))
            out.send.append((EVERYONE, WindowEmpty(self.pid, seq)))

    def on_datagrams(
        self, source: int, datagrams: Sequence[WindowEmpty], now: float, out: Effects
    ) -> None:
        for datagram in datagrams:
            self.note("heard", f"{source}:{datagram.last}", f"{now:.3f}")
            message = DataMessage(source, datagram.last)
            out.outputs.append(Delivery(run_of([message])))
            if out.events is not None:
                out.events.append(Event(DELIVER, self.pid, source, datagram.last, message))

    def on_time(self, now: float, out: Effects) -> None:
        raise AssertionError("it set no deadline")

    @property
    def sent(self) -> int:
        return self.seq

    def status(self, now: float) -> Any:
        raise AssertionError("nobody asks")


class World:
    def __init__(
        self,
        *faults: Fault,
        sends: int = 0,
        sync_s: float = 0.05,
        link: Link | None = None,
        channel: UnreliableChannel | None = None,
        seed: int = 1,
    ) -> None:
        self.notes: list[str] = []
        self.trace: list[Event] = []
        updates = [Update()] * sends
        self.simulation = Simulation(
            Machines(
                born=lambda life, now, records: Diary(self.notes, *life, records),
                begins=lambda life: (JoinGroup(),),
                record=Record,
            ),
            Network(2, link or Link(latency=Constant(0.01))),
            seed=seed,
            sync=Constant(sync_s),
            producers={0: Producer(repeat(0.1), updates)},
            faults=faults,
            observers=[self.trace.append],
            channel=channel,
        )

    def until(self, when: float) -> list[str]:
        self.simulation.run(when)
        return self.notes


def about(notes: list[str], *words: str) -> list[str]:
    return [note for note in notes if note.split()[1] in words]


def test_what_waits_for_durability_leaves_after_the_sync() -> None:
    notes = World(sends=1).until(1.0)
    assert about(notes, "durable", "heard") == ["0 durable 1 0.150", "1 heard 0:1 0.160"]


def test_a_sync_covers_only_what_was_written_before_it_began() -> None:
    notes = World(sends=3, sync_s=0.15).until(1.0)
    assert about(notes, "durable") == [
        "0 durable 1 0.250",
        "0 durable 2 0.400",
        "0 durable 3 0.550",
    ]


def test_a_crash_before_the_sync_may_lose_the_record_and_sends_nothing() -> None:
    world = World(Crash(0, 0.12, back_after_s=0.2), sends=1)
    notes = world.until(1.0)
    assert about(notes, "heard", "durable") == []
    assert [n for n in notes if n.startswith("0 born")] in (
        ["0 born 1 []", "0 born 2 []"],
        ["0 born 1 []", "0 born 2 ['1']"],
    )


def test_a_life_after_the_sync_begins_with_its_records() -> None:
    world = World(Crash(0, 0.18, back_after_s=0.2), sends=2)
    notes = world.until(1.0)
    assert about(notes, "born") == ["0 born 1 []", "1 born 1 []", "0 born 2 ['1']"]
    assert about(notes, "durable") == ["0 durable 1 0.150", "0 durable 2 0.430"]
    assert [(e.kind, e.pid, e.inc) for e in world.trace if e.kind in ("crash", "recover")] == [
        ("crash", 0, 1),
        ("recover", 0, 2),
    ]


def test_a_lost_disk_is_told_and_forgets_everything() -> None:
    world = World(Crash(0, 0.18, back_after_s=0.1, loses_disk=True), sends=1)
    assert about(world.until(1.0), "born")[-1] == "0 born 2 []"
    assert [e.note for e in world.trace if e.kind == "crash"] == ["disk"]


def test_who_never_comes_back_stays_down_even_when_faults_end() -> None:
    world = World(Crash(0, 0.1), Crash(1, 0.1, back_after_s=50.0))
    world.until(0.5)
    world.simulation.heal()
    assert about(world.until(1.0), "born") == ["0 born 1 []", "1 born 1 []", "1 born 2 []"]
    assert [process.is_down for process in world.simulation.processes] == [True, False]


def test_a_crash_between_durable_and_sent() -> None:
    stumble = FailpointCrash(Failpoint(0, APPEND, keep_effects=0.0), back_after_s=0.3)
    world = World(stumble, sends=1)
    notes = world.until(1.0)
    assert about(notes, "heard") == []
    assert about(notes, "born")[-1] == "0 born 2 ['1']"
    assert [e.kind for e in world.trace] == ["append", "crash", "recover"]


def test_an_absent_process_neither_sends_nor_hears() -> None:
    notes = World(Disconnection(1, 0.12, 0.4), sends=4).until(1.0)
    assert about(notes, "GoOffline", "GoOnline") == ["1 GoOffline 0.12", "1 GoOnline 0.4"]
    assert about(notes, "heard") == ["1 heard 0:4 0.460"]
    notes = World(Disconnection(0, 0.12, 0.4, announced=False), sends=4).until(1.0)
    assert about(notes, "GoOffline", "GoOnline") == []
    assert about(notes, "heard") == ["1 heard 0:4 0.460"]


def test_the_end_of_faults_brings_the_absent_back() -> None:
    world = World(Disconnection(1, 0.1, 9.0))
    world.until(0.3)
    world.simulation.heal()
    assert about(world.until(0.5), "GoOnline") == ["1 GoOnline 0.3"]


def test_a_pause_delays_and_an_arrival_starts_late() -> None:
    notes = World(Pause(1, 0.1, 0.5), LateJoin(0, 0.2), LeaveAt(1, 0.6), sends=1).until(1.0)
    assert about(notes, "JoinGroup", "LeaveGroup", "heard") == [
        "1 JoinGroup 0.0",
        "0 JoinGroup 0.2",
        "1 heard 0:1 0.500",
        "1 LeaveGroup 0.6",
    ]


def test_the_channel_is_told_of_every_datagram() -> None:
    ledger = ViolationLog()
    channel = UnreliableChannel(2, 2, ledger)
    doubling = Link(latency=Constant(0.01), duplicate=1.0)
    world = World(sends=2, link=doubling, channel=channel)
    assert len(about(world.until(1.0), "heard")) == 4
    assert ledger.stored == []
    assert sum(channel.buffer[0, 1].values()) == 0


def test_a_timer_that_never_moves_is_an_error() -> None:
    world = World()
    stuck = world.simulation.processes[0]
    stuck.machine.deadline = 0.5  # type: ignore[misc]
    stuck.machine.on_time = lambda now, out: None  # type: ignore[method-assign]
    stuck.leave()
    with pytest.raises(LocalProtocolError, match=r"did not move its deadline past 0\.5"):
        world.until(1.0)


@pytest.mark.parametrize(
    "bad", [lambda: Crash(-1, 0.0), lambda: Crash(0, inf), lambda: Disconnection(0, 1.0, 0.5)]
)
def test_impossible_faults_are_refused(bad: Any) -> None:
    with pytest.raises(ConfigError):
        bad()


def test_same_seed_same_notes() -> None:
    faults = (
        Crash(0, 0.12, back_after_s=0.2),
        FailpointCrash(Failpoint(0, MULTICAST, keep_effects=0.5)),
    )
    lossy = Link(latency=Constant(0.01), loss=0.5)
    one, two = (World(*faults, sends=20, link=lossy).until(5.0) for _ in range(2))
    assert one == two


def test_a_slow_disk_holds_up_its_syncs_and_nothing_else() -> None:
    slow = SlowDisk(0, 0.12, 0.6)
    notes = World(slow, sends=3).until(1.0)
    assert about(notes, "durable") == [
        "0 durable 1 0.150",
        "0 durable 2 0.600",
        "0 durable 3 0.650",
    ]


def test_an_old_disk_has_what_an_earlier_sync_left_and_says_so() -> None:
    born = set()
    for seed in range(30):
        world = World(Crash(0, 0.95, back_after_s=0.01, old_disk=True), sends=8, seed=seed)
        born.add(about(world.until(1.0), "born")[-1])
        assert [e.note for e in world.trace if e.kind == "crash"] == ["old-disk"]
    texts = [[str(number) for number in range(1, upto + 1)] for upto in (0, 1, 2, 4, 8)]
    assert born <= {f"0 born 2 {each}" for each in texts}
    assert len(born) > 2


def test_a_lost_disk_is_not_also_an_old_one() -> None:
    with pytest.raises(ConfigError, match="old_disk"):
        Crash(0, 0.1, loses_disk=True, old_disk=True)


def test_what_is_forgotten_is_not_found_by_the_next_life() -> None:
    world = World(Crash(0, 0.95, back_after_s=0.01), sends=8)
    world.until(0.9)
    process = world.simulation.processes[0]
    process.enter(lambda now, out: setattr(out, "forget_before", 7))
    assert about(world.until(1.0), "born")[-1] == "0 born 2 ['7', '8']"
