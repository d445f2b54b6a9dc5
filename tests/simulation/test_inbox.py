"""What waits for a process that is held: in order, datagrams read together, within bounds."""

from semcast.faults import Constant, Link, Pause
from semcast.sim.inbox import Inbox
from semcast.sim.network import Network
from semcast.sim.simulation import Simulation, once
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import Machine, Status
from semcast.terms.messages import WindowEmpty


def read(*_):
    raise AssertionError("nobody reads")


def test_datagrams_with_nothing_between_them_are_one_input_by_source():
    inbox = Inbox(10)
    for source, datagram in [(1, "a"), (1, "b"), (2, "c"), (1, "d")]:
        assert inbox.put_datagram(read, source, datagram)
    inbox.put(print, ("timer",))
    inbox.put_datagram(read, 1, "e")
    assert inbox.take() == (read, ([(1, ["a", "b"]), (2, ["c"]), (1, ["d"])],), 4)
    assert inbox.take() == (print, ("timer",), 0)
    assert inbox.take() == (read, ([(1, ["e"])],), 1)
    assert not inbox


def test_what_comes_after_a_read_is_read_next_time():
    inbox = Inbox(10)
    inbox.put_datagram(read, 1, "a")
    _, (first,), _ = inbox.take()
    inbox.put_datagram(read, 1, "b")
    assert first == [(1, ["a"])]
    assert inbox.take() == (read, ([(1, ["b"])],), 1)


def test_the_socket_buffer_overflows_and_has_room_again_once_it_was_read():
    inbox = Inbox(2)
    assert [inbox.put_datagram(read, 1, n) for n in range(3)] == [True, True, False]
    inbox.put(print, ())  # takes none of that room
    inbox.take()
    assert inbox.put_datagram(read, 1, 3)


class Counter(Machine):
    """Sends a datagram every second, and notes what it is handed at once."""

    sent = 0

    def __init__(self, deadline):
        self.deadline, self.batches = deadline, []

    def submit(self, updates, now, out):
        return 0

    def on_time(self, now, out):
        self.deadline += 1.0
        out.send.append((EVERYONE, WindowEmpty(0, int(now))))

    def on_datagrams(self, source, datagrams, now, out):
        self.batches.append((now, [datagram.last for datagram in datagrams]))

    def status(self, now):
        return Status()


def test_a_process_that_was_paused_gets_all_that_waited_at_once():
    counters = [Counter(1.0), Counter(float("inf"))]
    network = Network(2, Link(latency=Constant(0.25)))
    sim = Simulation(once(counters), network, seed=1, faults=[Pause(1, 2.0, 4.5)])
    sim.run(5.5)
    assert counters[1].batches == [(1.25, [1]), (4.5, [2, 3, 4]), (5.25, [5])]
