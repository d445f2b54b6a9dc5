"""Processes and whole runs, driven through a toy member that floods and forgets."""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise, repeat
from math import inf

import msgspec
import pytest

from semcast.faults import (
    Constant,
    Crash,
    Exponential,
    Failpoint,
    FailpointCrash,
    Link,
    Partition,
    Pause,
    Uniform,
)
from semcast.kernel import run_of
from semcast.sim import Consumer, Network, Producer, Simulation, once
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError
from semcast.terms.events import CRASH, DELIVER, LEAVE, MULTICAST, RECEIVE, Event
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import ForgetMember
from semcast.terms.messages import Data, Datagram, DataMessage, Update
from semcast.terms.outputs import ROOM, Delivery, Ended
from semcast.terms.views import EXCLUDED

FAST = Link(latency=Constant(0.001))


class Flood:
    """Sends each message once to everyone and delivers what arrives as it is asked to.

    It refuses updates while `window` messages wait for its own application, and sends a
    beacon every `period_s`.
    """

    def __init__(self, rank: int, *, window: int = 10**9, period_s: float = inf) -> None:
        self.rank = rank
        self.deadline = period_s
        self.window = window
        self.period_s = period_s
        self.queue: deque[DataMessage] = deque()
        self.credit = self.seq = 0
        self.refused = False
        self.rang: list[float] = []

    def submit(self, updates, now: float, out: Effects) -> int:
        accepted = updates[: max(self.window - len(self.queue), 0)]
        for update in accepted:
            self.seq += 1
            message = DataMessage(self.rank, self.seq, payload=update.payload)
            self._record(out, MULTICAST, message)
            self.queue.append(message)
            out.send.append((EVERYONE, Data((message,))))
        self.refused = len(accepted) < len(updates)
        self._deliver(out)
        return len(accepted)

    def on_datagrams(
        self, source: int, datagrams: Sequence[Datagram], now: float, out: Effects
    ) -> None:
        for message in [message for datagram in datagrams for message in datagram.messages]:
            self._record(out, RECEIVE, message)
            self.queue.append(message)
        self._deliver(out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        self.credit += count
        self._deliver(out)

    def on_time(self, now: float, out: Effects) -> None:
        self.rang.append(now)
        self.deadline += self.period_s
        out.send.append((EVERYONE, Data(())))

    def on_command(self, command: ForgetMember, now: float, out: Effects) -> None:
        if out.events is not None:
            out.events.append(Event(LEAVE, self.rank, peer=command.member))

    def _deliver(self, out: Effects) -> None:
        while self.credit and self.queue:
            self.credit -= 1
            message = self.queue.popleft()
            self._record(out, DELIVER, message)
            out.outputs.append(Delivery(run_of([message])))
        if self.refused and len(self.queue) < self.window:
            self.refused = False
            out.outputs.append(ROOM)

    def _record(self, out: Effects, kind: str, message: DataMessage) -> None:
        if out.events is not None:
            out.events.append(Event(kind, self.rank, message.sender, message.seq, message))


def numbered(count: int | None = None):
    """Updates that carry their own number."""
    return (Update(b"%d" % i) for i in (range(count) if count else range(10**9)))


def group(size: int, link: Link = FAST, *, seed: int = 1, member=Flood, **settings) -> Simulation:
    members = [member(rank) for rank in range(size)]
    return Simulation(once(members), Network(size, link), seed=seed, recording=True, **settings)


def seen(sim: Simulation, kind: str, pid: int) -> list[tuple[float, int]]:
    """When this process recorded events of one kind, and of which message."""
    return [(e.ts_ns / 1e9, e.seq) for e in sim.trace if e.kind == kind and e.pid == pid]


def test_an_always_ready_application_gets_each_message_as_it_arrives():
    sim = group(2, producers={0: Producer(repeat(0.5), numbered(3))})
    sim.run(9.0)
    assert seen(sim, DELIVER, 1) == [(0.501, 1), (1.001, 2), (1.501, 3)]


@pytest.mark.parametrize(
    ("consumer", "times"),
    [
        (Consumer(service=1.0), [0, 1, 2, 3, 4, 5, 6]),
        (Consumer(service=1.0, take=3), [0, 0, 0, 3, 3, 3, 6]),
        (Consumer(service=Uniform(2.0, 2.0)), [0, 2, 4, 6, 8, 10, 12]),
        (Consumer(service=0.0, take=2), [0] * 7),
    ],
)
def test_a_slow_application_asks_again_when_it_has_served_what_it_took(consumer, times):
    producer = Producer(repeat(0.0), numbered(7), batch=7)
    sim = group(2, consumers={1: consumer}, producers={0: producer})
    sim.run(20.0)
    assert [when - 0.001 for when, _ in seen(sim, DELIVER, 1)] == pytest.approx(times)


def test_an_application_that_did_not_get_all_it_asked_for_does_not_ask_again():
    producer = Producer([1.0, 4.0, 0.0, 0.0, 0.0], numbered())
    sim = group(2, consumers={1: Consumer(service=1.0, take=3)}, producers={0: producer})
    sim.run(20.0)
    assert [round(when, 3) for when, _ in seen(sim, DELIVER, 1)] == [
        1.001,
        5.001,
        5.001,
        7.001,
        7.001,
    ]


def test_the_rate_of_a_producer_does_not_depend_on_its_batch():
    offered = {}
    for batch in (1, 5):
        sim = group(1, producers={0: Producer(repeat(0.125), numbered(), batch=batch)})
        sim.run(10.0)
        offered[batch] = seen(sim, MULTICAST, 0)
    assert [when for when, _ in offered[1][:3]] == [0.125, 0.25, 0.375]
    assert [when for when, _ in offered[5][:6]] == [0.625] * 5 + [1.25]
    assert len(offered[1]) == len(offered[5]) == 80


@pytest.mark.parametrize(
    ("limits", "count"), [({"count_max": 7}, 7), ({"until_s": 2.0}, 16), ({"until_s": 1.99}, 12)]
)
def test_a_producer_stops_after_a_count_or_a_time(limits, count):
    sim = group(1, producers={0: Producer(repeat(0.125), numbered(), batch=4, **limits)})
    sim.run(10.0)
    assert len(seen(sim, MULTICAST, 0)) == count


def test_a_blocked_producer_runs_at_the_rate_of_the_room_and_loses_nothing():
    members = [Flood(0, window=2)]
    producer = Producer(repeat(0.1), numbered())
    sim = Simulation(
        once(members),
        Network(1),
        seed=1,
        consumers={0: Consumer(service=1.0)},
        producers={0: producer},
        recording=True,
    )
    sim.run(50.0)
    sent = [e for e in sim.trace if e.kind == MULTICAST]
    assert len(sent) == pytest.approx(50 + 2, abs=1)
    assert [e.message.payload for e in sent] == [b"%d" % i for i in range(len(sent))]
    # After a block there is no burst: the next is due a gap later at the earliest.
    members[0].window = 1000
    blocked_until = len(sent)
    sim.run(60.0)
    gaps = [e.ts_ns for e in sim.trace if e.kind == MULTICAST][blocked_until + 1 :]
    assert min(b - a for a, b in pairwise(gaps)) >= 0.0999e9
    assert len(gaps) == pytest.approx(90, abs=12)


def test_neither_a_short_block_nor_room_said_twice_shifts_the_schedule():
    class Opening(Flood):
        """Refuses everything until it hears from somebody, and says so each time it does."""

        def on_datagrams(self, source, datagrams, now, out):
            self.window = 100
            out.outputs.append(ROOM)

    producers = {rank: Producer([1.249], numbered()) for rank in (1, 2)}
    producers[0] = Producer(repeat(1.0), numbered())
    members = [Opening(0, window=0), Flood(1), Flood(2)]
    sim = Simulation(once(members), Network(3, FAST), seed=1, producers=producers, recording=True)
    sim.run(3.5)
    assert [when for when, _ in seen(sim, MULTICAST, 0)] == [1.25, 2.0, 3.0]


def test_an_excluded_process_offers_nothing_more():
    class Outcast(Flood):
        def on_datagrams(self, source, datagrams, now, out):
            if self.rank == 1:
                out.outputs.append(Ended(EXCLUDED))

    sim = group(
        2,
        member=Outcast,
        producers={0: Producer(repeat(1.0), numbered(1)), 1: Producer(repeat(0.25), numbered())},
    )
    sim.run(9.0)
    assert sim.processes[1].application.has_ended
    assert len(seen(sim, MULTICAST, 1)) == 4  # at 0.25, 0.5, 0.75 and 1.0


def test_a_paused_process_handles_late_what_its_socket_held_and_loses_the_rest():
    members = [Flood(0), Flood(1, period_s=1.5)]
    sim = Simulation(
        once(members),
        Network(2, FAST),
        seed=1,
        producers={0: Producer(repeat(0.1), numbered(50))},
        faults=[Pause(1, 1.05, 4.05)],
        socket_datagrams_max=10,
        recording=True,
    )
    sim.run(9.0)
    got = seen(sim, RECEIVE, 1)
    assert [seq for _, seq in got] == [*range(1, 21), *range(41, 51)]
    assert [when for when, _ in got[10:20]] == [4.05] * 10
    assert sim.network.dropped == {"socket": 20}
    assert members[1].rang == [4.05, 4.05, 4.5, 6.0, 7.5, 9.0]  # 1.5 and 3.0 came late


def test_a_second_pause_has_the_whole_socket_again():
    sim = Simulation(
        once([Flood(0), Flood(1, period_s=1.0)]),
        Network(2, FAST),
        seed=1,
        producers={0: Producer(repeat(0.1), numbered(100))},
        faults=[Pause(1, 0.95, 2.05), Pause(1, 3.95, 8.05)],
        socket_datagrams_max=20,
        recording=True,
    )
    sim.run(9.0)
    assert sim.network.dropped == {"socket": 41 - 20}


def test_overlapping_pauses_last_until_the_last_ends():
    sim = group(
        2,
        producers={0: Producer(repeat(1.0), numbered(1))},
        faults=[Pause(1, 0.5, 2.0), Pause(1, 1.5, 3.0)],
    )
    sim.run(9.0)
    assert seen(sim, RECEIVE, 1) == [(3.0, 1)]


def test_a_crashed_process_is_silent_and_others_hear_of_it_when_announced():
    sim = group(
        3,
        producers={r: Producer(repeat(1.0), numbered()) for r in (0, 1)},
        faults=[Crash(1, 2.5, announced_after_s=0.75), Crash(1, 4.0, announced_after_s=0.0)],
    )
    sim.run(5.0)
    assert [e.kind for e in sim.trace if e.pid == 1][-1] == CRASH
    assert seen(sim, CRASH, 1) == [(2.5, 0)]
    assert seen(sim, MULTICAST, 1) == [(1.0, 1), (2.0, 2)]
    assert [(e.ts_ns, e.pid, e.peer) for e in sim.trace if e.kind == LEAVE] == [
        (3_250_000_000, 0, 1),
        (3_250_000_000, 2, 1),
    ]


@pytest.mark.parametrize("faults", [[Crash(1, 1.0)], []])
def test_what_nobody_announces_stays_unknown_until_somebody_does(faults):
    sim = group(3, faults=faults)
    sim.run(5.0)
    assert not [e for e in sim.trace if e.kind == LEAVE]
    sim.announce(1)
    assert [(e.pid, e.peer) for e in sim.trace if e.kind == LEAVE] == [(0, 1), (2, 1)]


@pytest.mark.parametrize(("keep", "reached"), [(0.0, 0), (0.5, 2), (0.8, 4), (1.0, 4)])
def test_a_failpoint_lets_only_some_members_get_the_last_multicast(keep, reached):
    sim = group(
        5,
        producers={0: Producer(repeat(1.0), numbered())},
        faults=[
            FailpointCrash(Failpoint(0, MULTICAST, nth=3, keep_effects=keep), announced_after_s=1.0)
        ],
    )
    sim.run(9.0)
    assert [e.kind for e in sim.trace if e.pid == 0 and e.ts_ns == 3_000_000_000] == (
        [MULTICAST, DELIVER, CRASH] if keep == 1.0 else [MULTICAST, CRASH]
    )
    got = {pid: len(seen(sim, RECEIVE, pid)) for pid in range(1, 5)}
    assert sorted(got.values()) == [2] * (4 - reached) + [3] * reached
    assert len([e for e in sim.trace if e.kind == LEAVE]) == 4


def test_a_failpoint_works_without_anybody_recording():
    delivered: list[tuple[int, int]] = []
    sim = Simulation(
        once([Flood(0), Flood(1)]),
        Network(2),
        seed=1,
        producers={0: Producer(repeat(1.0), numbered())},
        faults=[FailpointCrash(Failpoint(1, DELIVER, nth=2))],
        on_deliver=lambda pid, messages, now: delivered.extend((pid, m.seq) for m in messages),
    )
    sim.run(3.5)
    assert sim.processes[1].is_down
    assert sorted(delivered) == [(0, 1), (0, 2), (0, 3), (1, 1)]
    assert sim.trace == []


def test_after_healing_nothing_fails_any_more():
    sim = group(
        2,
        Link(latency=Constant(0.001), loss=1.0),
        producers={0: Producer(repeat(1.0), numbered())},
        faults=[
            Partition(0.0, 99.0, ((0,), (1,))),
            Pause(1, 1.0, 99.0),
            Pause(0, 7.0, 99.0),
            Crash(0, 8.0),
            FailpointCrash(Failpoint(0, MULTICAST, nth=9)),
        ],
    )
    sim.run(4.5)
    assert seen(sim, RECEIVE, 1) == []
    sim.heal()
    sim.run(10.5)
    assert [seq for _, seq in seen(sim, RECEIVE, 1)] == [5, 6, 7, 8, 9, 10]


def test_a_group_that_does_not_fit_its_network_is_refused():
    with pytest.raises(ConfigError, match="machines: there is none for incarnation 1 of 1"):
        Simulation(once([Flood(0)]), Network(2), seed=1)
    with pytest.raises(ConfigError, match="pid: 2 is not a process below 2"):
        group(2, faults=[Crash(2, 1.0)])


def busy_run(seed: int) -> list[Event]:
    """A bit of everything."""
    link = Link(latency=Exponential(0.01), loss=0.1, duplicate=0.1, reorder=0.2, bandwidth_bps=1e6)
    sim = group(
        5,
        link,
        seed=seed,
        consumers={1: Consumer(service=Exponential(0.05), take=3)},
        producers={r: Producer(repeat(0.01), numbered(), batch=r + 1) for r in (0, 2)},
        faults=[
            Partition(1.0, 2.0, ((0, 1), (2, 3))),
            Pause(3, 0.5, 1.5),
            Crash(4, 2.5, announced_after_s=0.1),
            FailpointCrash(Failpoint(2, RECEIVE, nth=100, keep_effects=0.5)),
        ],
    )
    sim.run(3.0)
    return sim.trace


def digest(trace: list[Event]) -> str:
    return sha256(msgspec.json.encode(trace)).hexdigest()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another():
    assert digest(busy_run(1)) == digest(busy_run(1)) != digest(busy_run(2))


def test_a_trace_is_stamped_densely_and_in_order_of_time():
    trace = busy_run(3)
    assert len(trace) > 1000
    assert {e.pid for e in trace if e.kind == CRASH} == {2, 4}
    assert [e.ts_ns for e in trace] == sorted(e.ts_ns for e in trace)
    for pid in range(5):
        stamps = [e.n for e in trace if e.pid == pid]
        assert stamps == list(range(1, len(stamps) + 1))


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_trace_does_not_depend_on_the_hash_seed(hash_seed):
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    printed = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == digest(busy_run(7))


if __name__ == "__main__":
    sys.stdout.write(digest(busy_run(7)))
