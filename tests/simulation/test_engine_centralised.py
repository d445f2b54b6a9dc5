"""Centralised mode: handlers' processor time is charged to the simulated clock [SRM §5.4]."""

from collections.abc import Sequence
from math import inf

import pytest

from semcast.faults import Constant, Crash, Link, Pause
from semcast.sim import CpuModel, Network, Simulation, once
from semcast.terms.errors import ConfigError
from semcast.terms.events import RECEIVE, Event
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import Excluded

WIRE_S = 1.0
MS = 1_000_000


class Echo:
    """Rank 0 multicasts one datagram per `rings`; the others answer each datagram they get."""

    def __init__(self, rank: int, rings: Sequence[float] = ()) -> None:
        self.rank = rank
        self.rings = [*rings, inf] if rank == 0 else [inf]
        self.deadline = self.rings.pop(0)

    def on_time(self, now, out):
        self.deadline = self.rings.pop(0)
        out.send.append((EVERYONE, Excluded(0)))

    def on_datagrams(self, source, datagrams, now, out):
        for datagram in datagrams:
            if out.events is not None:
                out.events.append(Event(RECEIVE, self.rank, source))
            if self.rank:
                out.send.append(((source,), datagram))

    def on_ready(self, count, now, out):
        pass

    def submit(self, updates, now, out):
        return len(updates)

    def forget(self, rank, now, out):
        pass


def run(processor: CpuModel, *, size=2, rings=(10.0,), faults=(), socket=256) -> Simulation:
    sim = Simulation(
        once([Echo(rank, rings) for rank in range(size)]),
        Network(size, Link(latency=Constant(WIRE_S))),
        seed=1,
        processors=dict.fromkeys(range(size), processor),
        faults=faults,
        socket_datagrams_max=socket,
        recording=True,
    )
    sim.run(30.0)
    return sim


def received(sim: Simulation, pid: int) -> list[float]:
    return [e.ts_ns / 1e9 for e in sim.trace if e.pid == pid and e.kind == RECEIVE]


def test_outputs_leave_when_the_handler_ends():
    start = [0, 0]  # both applications become ready
    processor = CpuModel(stack_s=0.0, replay=[*start, 100 * MS, 200 * MS, 400 * MS])
    sim = run(processor)
    assert received(sim, 1) == pytest.approx([10 + 0.1 + WIRE_S + 0.2])
    assert received(sim, 0) == pytest.approx([10 + 0.1 + WIRE_S + 0.2 + WIRE_S + 0.4])


def test_inputs_of_a_busy_process_wait_in_order_and_others_do_not_wait():
    costs = [0, 0, 0, 0, 500 * MS, 500 * MS, 300 * MS, 300 * MS]
    sim = run(CpuModel(stack_s=0.0, replay=costs), size=3)
    # Both answers reach process 0 together; it handles the second after the first.
    assert received(sim, 1) == received(sim, 2) == pytest.approx([11.5])
    assert received(sim, 0) == pytest.approx([12.8, 13.1])


def test_each_traversal_of_the_stack_costs_and_a_multicast_is_one():
    sim = run(CpuModel(stack_s=0.001, replay=[0] * 100), size=5)
    assert received(sim, 1) == pytest.approx([10 + 0.001 + WIRE_S + 0.002])
    # Four answers come together, each costs one traversal on the way in; three had to wait for the
    # first, and are read at once.
    arrived = 10 + 0.001 + WIRE_S + 0.002 + WIRE_S
    assert received(sim, 0) == pytest.approx([arrived + 0.001 * i for i in (1, 4, 4, 4)])


def test_a_factor_models_a_slower_processor():
    replay = [0, 0, 100 * MS, 200 * MS, 0]
    sim = run(CpuModel(stack_s=0.0, factor=3.0, replay=replay))
    assert received(sim, 1) == pytest.approx([10 + 0.3 + WIRE_S + 0.6])


def test_a_measured_run_replays_exactly_from_its_costs():
    rings = [10.0 + i * 1e-5 for i in range(200)]
    measured = CpuModel()
    first = run(measured, size=4, rings=rings)
    assert min(measured.costs_ns) > 0
    assert len(received(first, 0)) == 600
    again = [run(CpuModel(replay=measured.costs_ns), size=4, rings=rings) for _ in range(2)]
    assert again[0].trace == again[1].trace == first.trace


def test_a_replay_that_is_too_short_is_refused():
    with pytest.raises(ConfigError, match="replay: this run needs more than the 3 recorded costs"):
        run(CpuModel(replay=[0, 0, 0]))


def test_the_socket_of_a_busy_process_overflows():
    rings = [10.0 + i * 0.01 for i in range(10)]
    processor = CpuModel(stack_s=0.0, replay=[0, 0] + [0] * 10 + [2000 * MS] + [0] * 99)
    sim = run(processor, rings=rings, socket=3)
    assert len(received(sim, 1)) == 1 + 3
    assert sim.network.dropped == {"socket": 6}


def test_a_handler_cut_off_by_a_crash_leaves_nothing():
    replay = [0, 0, 0, 500 * MS, 0]
    sim = run(CpuModel(stack_s=0.0, replay=replay), faults=[Crash(1, 11.2)])
    assert received(sim, 1) == received(sim, 0) == []


def test_a_handler_interrupted_by_a_pause_ends_after_it():
    replay = [0, 0, 0, 500 * MS, 0]
    sim = run(CpuModel(stack_s=0.0, replay=replay), faults=[Pause(1, 11.2, 15.0)])
    assert received(sim, 1) == [15.0]
    assert received(sim, 0) == [15.0 + WIRE_S]


def test_a_process_adds_up_what_it_was_charged():
    replay = [0, 0, 100 * MS, 200 * MS, 400 * MS]
    sim = run(CpuModel(stack_s=0.001, factor=2.0, replay=replay))
    # Each sends one datagram and receives one.
    assert [process.busy_s for process in sim.processes] == pytest.approx([1.002, 0.402])


def test_without_a_processor_nothing_is_charged():
    assert [process.busy_s for process in run(None).processes] == [0.0, 0.0]
