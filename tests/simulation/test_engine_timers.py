"""A member's deadline: it rings in time, once, and leaves no litter in the clock."""

from itertools import repeat
from math import inf

import pytest

from semcast.faults import Constant, Link, Pause
from semcast.sim import Network, Producer, Simulation, once
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import Excluded, Update

LATENCY_S = 0.001


class Alarm:
    """Sends a datagram per update and writes down when its timer rings."""

    def __init__(self, rank: int, deadline: float = inf) -> None:
        self.rank = rank
        self.deadline = deadline
        self.rang: list[float] = []

    def submit(self, updates, now, out):
        out.send += [(EVERYONE, Excluded(0))] * len(updates)
        return len(updates)

    def on_datagrams(self, source, datagrams, now, out):
        pass

    def on_time(self, now, out):
        self.rang.append(now)
        self.deadline = inf

    def on_ready(self, count, now, out):
        pass

    def forget(self, rank, now, out):
        pass


class Timeout(Alarm):
    """Rings a second after the last datagram."""

    def on_datagrams(self, source, datagrams, now, out):
        self.deadline = now + 1.0


class Restless(Alarm):
    """Wants a short timer after each datagram, then waits for the long one again."""

    def on_datagrams(self, source, datagrams, now, out):
        self.deadline = now + 0.0001

    def on_time(self, now, out):
        self.rang.append(now)
        self.deadline = 10.0 if now < 10.0 else inf


def run(alarm: Alarm, gaps, until: float, faults=()) -> Simulation:
    """Let process 0 send to the alarm, which is process 1."""
    sim = Simulation(
        once([Alarm(0), alarm]),
        Network(2, Link(latency=Constant(LATENCY_S))),
        seed=1,
        producers={0: Producer(gaps, repeat(Update()))},
        faults=faults,
    )
    sim.run(until)
    return sim


def test_a_timer_rings_at_the_deadline():
    alarm = Alarm(1, deadline=1.5)
    run(alarm, [], until=9.0)
    assert alarm.rang == [1.5]


def test_a_deadline_in_the_past_rings_at_once():
    class Late(Alarm):
        def on_datagrams(self, source, datagrams, now, out):
            self.deadline = now - 1.0

    alarm = Late(1)
    run(alarm, [2.0], until=9.0)
    assert alarm.rang == [2.001]


def test_a_deadline_that_moved_on_rings_later():
    alarm = Timeout(1, deadline=1.0)
    run(alarm, [0.5 - LATENCY_S], until=9.0)
    assert alarm.rang == [1.5]


def test_a_deadline_that_moves_on_never_rings_and_leaves_no_litter():
    alarm = Timeout(1, deadline=1.0)
    sim = run(alarm, repeat(0.001, 2000), until=2.9)
    assert alarm.rang == []
    assert len(sim.clock) == 1
    sim.run(9.0)
    assert alarm.rang == pytest.approx([3.001])


def test_a_deadline_that_comes_and_goes_is_scheduled_once():
    alarm = Restless(1, deadline=10.0)
    sim = run(alarm, repeat(0.001, 1000), until=5.0)
    assert len(alarm.rang) == 1000
    assert len(sim.clock) == 1
    sim.run(11.0)
    assert alarm.rang[1000:] == [10.0]


def test_a_deadline_behind_one_already_scheduled_waits_for_that():
    class Fickle(Alarm):
        """Wants 3.0 after the first datagram and 7.0 after the second."""

        def on_datagrams(self, source, datagrams, now, out):
            self.deadline = 3.0 if self.deadline == 5.0 else 7.0

    alarm = Fickle(1, deadline=5.0)
    sim = run(alarm, [1.0, 1.0], until=4.0)
    assert len(sim.clock) == 1
    sim.run(9.0)
    assert alarm.rang == [7.0]


def test_a_member_that_never_moves_its_deadline_fails_loudly():
    class Stuck(Alarm):
        def on_time(self, now, out):
            pass

    with pytest.raises(
        LocalProtocolError, match="process 1: on_time did not move its deadline past 1"
    ):
        run(Stuck(1, deadline=1.0), [], until=2.0)


def test_a_member_may_want_several_calls_at_one_instant():
    class Twice(Alarm):
        def on_time(self, now, out):
            self.rang.append(now)
            self.deadline += 0.001 * (len(self.rang) % 2)

    alarm = Twice(1, deadline=0.001)
    run(alarm, [], until=11.0)
    assert len(alarm.rang) > 2 * 10_000


def test_a_pause_makes_a_timer_late():
    alarm = Alarm(1, deadline=1.0)
    run(alarm, [], until=9.0, faults=[Pause(1, 0.5, 2.0)])
    assert alarm.rang == [2.0]


def test_a_deadline_that_moved_during_a_pause_does_not_ring():
    alarm = Timeout(1, deadline=1.0)
    run(alarm, [0.75], until=9.0, faults=[Pause(1, 0.5, 2.0)])
    assert alarm.rang == [3.0]  # the datagram, handled at 2.0, came before the timer
