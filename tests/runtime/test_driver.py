"""The driver over a machine that does what its test says: virtual time, no sockets, no sleeping."""

import asyncio
import heapq
import logging
from itertools import count

import pytest

from semcast.kernel import run_of
from semcast.runtime.application.group_events import View
from semcast.runtime.application.port import GroupPort, StateHandlers
from semcast.runtime.driver import RECEIVED_MAX, YIELD_AFTER_MESSAGES, Driver
from semcast.runtime.membership.directory import Directory
from semcast.terms.errors import (
    InternalError,
    LocalProtocolError,
    ReentryError,
    RemoteProtocolError,
    StorageError,
)
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import LeaveGroup, Machine, Status
from semcast.terms.messages import DataMessage, Update
from semcast.terms.outputs import ROOM, Delivery, Ended, PhaseChanged
from semcast.terms.records import ReadRequest, ReadResult
from semcast.terms.views import CHANGING, EXCLUDED, LEFT, MEMBER


class VirtualClock:
    """Time goes on when the test says so."""

    def __init__(self):
        self.time, self._due, self._order = 100.0, [], count()

    def now(self):
        return self.time

    def wall_ns(self):
        return int(self.time * 1e9)

    def call_at(self, when, callback):
        entry = [max(when, self.time), next(self._order), callback, ()]
        heapq.heappush(self._due, entry)
        return Call(entry)

    def call_soon(self, callback, *args):
        heapq.heappush(self._due, [self.time, next(self._order), callback, args])

    def advance(self, seconds=0.0):
        end = self.time + seconds
        while self._due and self._due[0][0] <= end:
            self.time, _, callback, args = heapq.heappop(self._due)
            if callback is not None:
                callback(*args)
        self.time = end


class Call:
    def __init__(self, entry):
        self.entry = entry

    def cancel(self):
        self.entry[2] = None


class MemoryChannel:
    """Bodies are Python objects; what is sent is kept."""

    def __init__(self):
        self.sent, self.repairs, self.discarded = [], [], []

    def decode(self, body):
        return body

    def send(self, sends, *, is_repair):
        self.sent += sends
        self.repairs += [is_repair] * len(sends)

    def discard(self, error, now):
        self.discarded.append(type(error))


class Scripted(Machine):
    """Notes its inputs; `on[name]` is called with `now` and `out` in place of an input's work."""

    sent = 0

    def __init__(self):
        self.deadline, self.inputs, self.on, self.report = float("inf"), [], {}, Status()

    def _note(self, name, value, now, out):
        self.inputs.append((name, value))
        return self.on.get(name, lambda now, out: None)(now, out)

    def submit(self, updates, now, out):
        accepted = self._note("submit", len(updates), now, out)
        return len(updates) if accepted is None else accepted

    def on_datagrams(self, source, datagrams, now, out):
        for datagram in datagrams:
            try:
                self._note("datagram", (source, datagram), now, out)
            except Exception as error:
                out.refused.append(error)

    def on_ready(self, count, now, out):
        self._note("ready", count, now, out)

    def on_idle(self, now, out):
        self._note("idle", None, now, out)

    def on_time(self, now, out):
        self._note("time", now, now, out)

    def on_persisted(self, ticket, now, out):
        self._note("persisted", ticket, now, out)

    def on_command(self, command, now, out):
        self._note("command", command, now, out)

    def status(self, now):
        return self.report


class Alone:
    """A membership that nothing happens to."""

    def on_view(self, view): ...

    def on_rival(self, lineage): ...

    def on_excluded(self, ended):
        return ""

    def minority_reason(self):
        return "minority"


class Run:
    """A driver and everything around it."""

    def __init__(self, **options):
        self.machine, self.channel, self.clock = Scripted(), MemoryChannel(), VirtualClock()
        view = View(1, ("a", "b"), is_primary=True)
        self.port = GroupPort(Directory("a", 0, None), Alone(), StateHandlers(), view)
        self.driver = Driver(self.machine, self.channel, self.port, self.clock, **options)

    def outputs(self, name, *outputs):
        self.machine.on[name] = lambda now, out: out.outputs.extend(outputs)


def letter(seq=1):
    return Delivery(run_of([DataMessage(0, seq, payload=b"x")]))


def raises(error):
    def handler(now, out):
        out.send.append((EVERYONE, "before the error"))
        raise error

    return handler


async def test_effects_of_an_input_are_carried_out_before_the_next_one_begins():
    run = Run()
    order = []
    run.port.mailbox.prefetch(1)

    def submit(now, out):
        order.append("submit")
        out.send.append((EVERYONE, 1))
        out.outputs.append(letter())

    run.machine.on["submit"] = submit
    run.channel.send = lambda sends, is_repair: order.append("send")
    run.port.put = lambda outputs: order.append("put") or -3
    run.machine.on["ready"] = lambda now, out: order.append("ready")
    run.driver.submit([Update()])
    assert order == ["submit", "send", "put", "ready"]
    assert run.machine.inputs[-1] == ("ready", -3)


async def test_a_port_that_enters_the_machine_from_inside_effects_is_caught():
    run = Run()
    run.outputs("submit", letter())
    run.port.put = lambda outputs: run.driver.command(LeaveGroup())
    with pytest.raises(ReentryError, match="on_command"):
        run.driver.submit([Update()])
    assert ("command", LeaveGroup()) not in run.machine.inputs
    with pytest.raises(ReentryError):
        await run.port.mailbox.take(1)


@pytest.mark.parametrize(
    "enter",
    [
        lambda driver: driver.on_ready(1),
        lambda driver: driver.submit([Update()]),
        lambda driver: driver.on_persisted(1),
        lambda driver: driver.begin(),
    ],
)
async def test_every_input_is_refused_inside_effects(enter):
    run = Run()
    run.outputs("command", letter())
    run.port.put = lambda outputs: enter(run.driver)
    with pytest.raises(ReentryError):
        run.driver.command(LeaveGroup())
    assert [name for name, _ in run.machine.inputs] == ["command"]


async def test_a_reader_that_pauses_nests_no_carry_out(monkeypatch):
    """It is away for longer than was foreseen, so what comes makes the mailbox withdraw."""
    run, depth, deepest = Run(), [0], [0]
    carry_out = run.driver._carry_out

    def counted(now):
        depth[0] += 1
        deepest[0] = max(deepest[0], depth[0])
        carry_out(now)
        depth[0] -= 1

    run.driver._carry_out = counted
    monkeypatch.setattr("semcast.runtime.application.mailbox.perf_counter", run.clock.now)
    given = count(1)
    asked = [0]

    def deliver(now, out):
        if asked[0] > 0:
            asked[0] -= 1
            out.outputs.append(letter(next(given)))

    def ready(now, out):
        asked[0] += run.machine.inputs[-1][1]
        assert asked[0] >= 0
        deliver(now, out)

    run.machine.on |= {"ready": ready, "datagram": deliver}
    taken = []
    while len(taken) < 200:
        taken += await run.port.mailbox.take(16)
        run.clock.advance(0.02)  # It pauses, and more comes.
        for number in range(4):
            run.driver.on_datagram(1, b"%d" % number)
            run.driver.on_drained()
    withdrawals = [value for name, value in run.machine.inputs if name == "ready" and value < 0]
    assert len(withdrawals) > 5
    assert deepest[0] == 1


async def test_an_error_in_handling_a_datagram_costs_that_datagram():
    run = Run()
    errors = iter([RemoteProtocolError("nonsense"), KeyError("ours"), None])

    def stumble(now, out):
        error = next(errors)
        if error is not None:
            raise error

    run.machine.on["datagram"] = stumble
    for number in range(3):
        run.driver.on_datagram(1, b"%d" % number)
    run.driver.on_drained()
    assert run.channel.discarded == [RemoteProtocolError, KeyError]
    assert run.machine.inputs[-1] == ("datagram", (1, b"2"))
    assert run.driver.ended is None


@pytest.mark.parametrize("call", ["submit", "command"])
async def test_a_mistake_of_the_application_goes_to_the_caller_after_the_effects(call):
    run = Run()
    run.machine.on[call] = raises(LocalProtocolError("no such item"))
    with pytest.raises(LocalProtocolError, match="no such item"):
        enter(run, call)
    assert run.channel.sent == [(EVERYONE, "before the error")]
    assert run.driver.ended is None


def enter(run, call):
    if call == "submit":
        run.driver.submit([Update()])
    elif call == "command":
        run.driver.command(LeaveGroup())
    elif call == "time":
        run.machine.deadline = run.clock.time + 1
        run.driver.begin()
        run.clock.advance(2)
    elif call == "ready":
        run.driver.on_ready(1)
    elif call == "idle":
        run.driver._sent_at = run.clock.time
        run.driver.submit([Update()])
        run.clock.advance()
    else:
        run.driver.on_datagram(1, b"1")
        run.driver.on_drained()


@pytest.mark.parametrize("call", ["submit", "command", "time", "ready", "idle"])
async def test_an_error_of_ours_ends_the_driver_and_the_application_gets_it(call, caplog):
    run = Run()
    waiting = asyncio.ensure_future(run.port.mailbox.take(1))
    await asyncio.sleep(0)
    run.machine.inputs.clear()
    run.machine.on[call] = raises(ZeroDivisionError("ours"))
    if call in ("submit", "command"):
        with pytest.raises(InternalError, match="ours"):
            enter(run, call)
    else:
        enter(run, call)
    with pytest.raises(InternalError, match="ZeroDivisionError") as found:
        await waiting
    assert isinstance(found.value.__cause__, ZeroDivisionError)
    assert run.port.can_send.is_set(), "a sender that waits is woken"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info, "with its traceback"
    inputs = len(run.machine.inputs)
    run.clock.advance(10)
    run.driver.on_ready(1)
    run.driver.on_datagram(1, b"1")
    run.driver.on_drained()
    assert len(run.machine.inputs) == inputs, "a machine that failed gets nothing more"


async def test_an_error_while_effects_of_datagrams_are_carried_out_ends_the_driver():
    run = Run()
    run.outputs("datagram", letter())
    run.port.put = lambda outputs: 1 / 0
    enter(run, "datagram")
    assert isinstance(run.driver.ended, InternalError)
    with pytest.raises(InternalError, match="ZeroDivisionError"):
        await run.port.mailbox.take(1)


async def test_a_mistake_that_nobody_made_is_an_error_of_ours():
    """A timer has no caller that could have misused the machine."""
    run = Run()
    run.machine.on["time"] = raises(LocalProtocolError("impossible"))
    enter(run, "time")
    assert isinstance(run.driver.ended, InternalError)


async def test_datagrams_of_one_drain_are_one_input_in_the_order_they_came():
    run, carried = Run(), []
    carry_out = run.driver._carry_out
    run.driver._carry_out = lambda now: (carried.append(1), carry_out(now))
    for source, body in [(1, b"a"), (1, b"b"), (2, b"c"), (1, b"d")]:
        run.driver.on_datagram(source, body)
    assert run.machine.inputs == []
    run.driver.on_drained()
    inputs = [value for _, value in run.machine.inputs]
    assert inputs == [(1, b"a"), (1, b"b"), (2, b"c"), (1, b"d")]
    assert len(carried) == 1


async def test_a_long_drain_is_handled_in_parts():
    run = Run()
    for number in range(RECEIVED_MAX + 1):
        run.driver.on_datagram(1, b"%d" % number)
    assert len(run.machine.inputs) == RECEIVED_MAX
    large = bytes(1 << 20)
    run.driver.on_datagram(1, large)
    assert run.machine.inputs[-1] == ("datagram", (1, large))


async def test_what_came_before_another_input_is_handled_before_it():
    run = Run()
    run.driver.on_datagram(1, b"data")
    run.driver.command(LeaveGroup())
    assert [name for name, _ in run.machine.inputs] == ["datagram", "command"]


async def test_only_answers_to_datagrams_may_be_repairs():
    run = Run()
    for name in ("datagram", "submit"):
        run.machine.on[name] = lambda now, out: out.send.append(((1,), "answer"))
    enter(run, "datagram")
    enter(run, "submit")
    assert run.channel.repairs == [True, False]


async def test_what_may_not_come_any_more_is_not_handled():
    run = Run()
    run.driver.takes = lambda datagram: datagram != b"data"
    for body in (b"data", b"gossip"):
        run.driver.on_datagram(1, body)
    run.driver.on_drained()
    assert run.machine.inputs == [("datagram", (1, b"gossip"))]


async def test_a_timer_rings_at_the_deadline_and_not_before():
    run = Run()
    run.machine.deadline = run.clock.time + 5

    def later(now, out):
        run.machine.deadline = now + 5 if now < 108 else float("inf")

    run.machine.on["time"] = later
    run.driver.begin()
    run.clock.advance(4.9)
    assert run.machine.inputs == []
    run.clock.advance(20)
    assert run.machine.inputs == [("time", 105.0), ("time", 110.0)]


async def test_a_nearer_deadline_replaces_the_timer():
    run = Run()
    run.machine.deadline = run.clock.time + 5
    run.driver.begin()
    run.machine.on["command"] = lambda now, out: setattr(run.machine, "deadline", now + 1)
    run.machine.on["time"] = lambda now, out: setattr(run.machine, "deadline", float("inf"))
    run.driver.command(LeaveGroup())
    run.clock.advance(10)
    assert [name for name, _ in run.machine.inputs] == ["command", "time"]
    assert run.machine.inputs[-1][1] == 101.0


async def test_what_is_due_at_once_is_done_in_the_next_turn_and_the_timer_stays():
    run = Run()
    run.machine.deadline = run.clock.time + 5
    run.driver.begin()
    run.machine.on["command"] = lambda now, out: setattr(run.machine, "deadline", now)
    run.machine.on["time"] = lambda now, out: setattr(run.machine, "deadline", now + 7)
    run.driver.command(LeaveGroup())
    assert run.machine.inputs == [("command", LeaveGroup())]
    run.clock.advance()
    assert run.machine.inputs[1:] == [("time", 100.0)]
    run.clock.advance(6)  # The timer for what was due before finds nothing to do.
    assert run.machine.inputs[2:] == []
    run.clock.advance(1)
    assert run.machine.inputs[2:] == [("time", 107.0)]


async def test_after_a_quiet_moment_messages_leave_at_once_and_then_together():
    run = Run()
    run.driver.submit([Update()])
    run.driver.submit([Update()])
    run.driver.submit([Update()])
    names = [name for name, _ in run.machine.inputs]
    assert names == ["submit", "idle", "submit", "submit"]
    run.clock.advance()
    assert run.machine.inputs[-1][0] == "idle"
    assert run.driver.sent_since_yield == 0


async def test_a_sender_that_goes_on_fills_its_datagrams():
    run = Run()
    run.driver._sent_at = run.clock.time
    run.driver.submit([Update()] * YIELD_AFTER_MESSAGES)
    run.clock.advance()
    assert [name for name, _ in run.machine.inputs] == ["submit"]


@pytest.mark.parametrize("options", [{"sends_when_idle": False}])
async def test_with_a_time_to_coalesce_the_loop_decides_nothing(options):
    run = Run(**options)
    run.driver.submit([Update()])
    run.clock.advance()
    assert [name for name, _ in run.machine.inputs] == ["submit"]


class MemoryDisk:
    def __init__(self):
        self.records = []
        self.forgotten = 0
        self.connected = 0

    def connect(self, user):
        self.connected += 1

    def append(self, records):
        self.records += records

    def forget_before(self, number):
        self.forgotten = number

    def read(self, requests):
        self.requests = requests


async def test_records_go_to_the_disk_and_their_durability_comes_back():
    disk = MemoryDisk()
    run = Run(disk=disk)
    run.machine.on["submit"] = lambda now, out: out.persist.append((7, "record"))
    run.driver.submit([Update()])
    assert disk.records == [(7, "record")]
    run.driver.on_persisted(7)
    assert run.machine.inputs[-1] == ("persisted", 7)
    run.driver.on_disk_failed(OSError(5, "Input/output error"))
    with pytest.raises(StorageError, match="Input/output error"):
        await run.port.mailbox.take(1)
    run.driver.on_persisted(8)
    assert run.machine.inputs[-1] == ("persisted", 7)


async def test_what_a_machine_needs_no_longer_is_told_to_its_disk_and_its_successor_is_connected():
    disk = MemoryDisk()
    run = Run(disk=disk)
    run.machine.on["submit"] = lambda now, out: setattr(out, "forget_before", 5)
    run.driver.submit([Update()])
    assert (disk.forgotten, disk.records, disk.connected) == (5, [], 1)
    disk.forgotten = 0
    run.machine.on["submit"] = lambda now, out: None
    run.driver.submit([Update()])
    assert disk.forgotten == 0
    run.driver.replace(run.machine)
    assert disk.connected == 2


async def test_records_that_a_machine_asks_for_come_back_as_an_input():
    disk = MemoryDisk()
    run = Run(disk=disk)
    request, answers = ReadRequest((3,), "why"), []
    run.machine.on["submit"] = lambda now, out: out.read.append(request)
    run.machine.on_read = lambda result, now, out: answers.append(result)
    run.driver.submit([Update()])
    assert disk.requests == [request]
    run.driver.on_read(ReadResult({3: "record"}, "why"))
    assert answers == [ReadResult({3: "record"}, "why")]


async def test_a_machine_that_persists_without_a_disk_is_an_error_of_ours():
    run = Run()
    run.machine.on["submit"] = lambda now, out: out.persist.append((7, "record"))
    with pytest.raises(InternalError, match="stable storage"):
        run.driver.submit([Update()])


async def test_another_machine_gets_what_the_application_is_ready_for():
    run = Run()
    waiting = asyncio.ensure_future(run.port.mailbox.take(1))
    await asyncio.sleep(0)
    run.machine.sent, run.machine.report = 3, Status(discarded={"lineage": 2})
    run.driver.suspend()
    assert run.driver.submit([Update()]) == 0
    assert run.machine.inputs == [("ready", run.port.readiness)]
    second = Scripted()
    run.driver.replace(second)
    assert second.inputs == [("ready", run.port.readiness)]
    assert run.driver.submit([Update()]) == 1
    second.sent = 1
    assert run.driver.sent_in_all == 4
    assert run.driver.discarded == {"lineage": 2}
    waiting.cancel()


class TestSenderThatWaitsForAView:
    """An application that sends while it handles a message would else wait for itself."""

    async def test_it_is_handed_what_comes_before_the_view(self):
        run = Run()
        run.machine.report = Status(unseen=3)
        run.machine.on["submit"] = lambda now, out: out.outputs.append(PhaseChanged(CHANGING)) or 0
        run.machine.on["ready"] = lambda now, out: setattr(run.machine, "report", Status())
        assert run.driver.submit([Update()]) == 0
        assert run.machine.inputs[2:] == [("ready", 3)]

    @pytest.mark.parametrize("output", [PhaseChanged(MEMBER), Ended(LEFT)])
    async def test_who_waits_for_room_or_has_left_is_not(self, output):
        run = Run()
        run.machine.report = Status(unseen=3)
        run.machine.on["submit"] = lambda now, out: out.outputs.append(output) or 0
        run.driver.submit([Update()])
        assert "ready" not in dict(run.machine.inputs)

    async def test_a_machine_that_withholds_it_is_asked_once(self):
        run = Run()
        run.machine.report = Status(unseen=3)
        run.machine.on["submit"] = lambda now, out: out.outputs.append(PhaseChanged(CHANGING)) or 0
        run.driver.submit([Update()])
        run.driver.submit([Update()])
        assert [value for name, value in run.machine.inputs if name == "ready"] == [3]


async def test_an_end_is_noticed_wherever_it_stands_among_the_outputs():
    run = Run()
    delivery = Delivery(run_of([DataMessage(0, 1, payload=b"x")]), skipped=2)
    run.outputs("submit", Ended(LEFT), delivery, ROOM)
    run.driver.submit([Update()])
    assert run.port.phase == LEFT
    assert [(m.sender, m.skipped) for m in await run.port.mailbox.take(9)] == [("a", 2)]
    assert (run.port.delivered, run.port.skipped) == (1, 2)
    assert run.port.can_send.is_set()


async def test_an_exclusion_is_told_after_the_last_message():
    run = Run()
    run.port._membership.on_excluded = lambda ended: "too slow"
    run.outputs("submit", Ended(EXCLUDED), letter())
    run.driver.submit([Update()])
    assert len(await run.port.mailbox.take(9)) == 1
    change = run.port.mailbox.pass_marker(run.port.on_marker)
    assert (change.status, change.reason, change.view.is_primary) == (EXCLUDED, "too slow", False)
