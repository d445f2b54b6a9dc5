"""What the application asks for, gets, and is told when nothing more will come."""

import asyncio

import pytest

from semcast.runtime.application import mailbox as module
from semcast.runtime.application.mailbox import PREFETCH_INITIAL, PREFETCH_MAX, Mailbox, Message
from semcast.terms.errors import LocalProtocolError


class Clock:
    """The time that the application takes."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "perf_counter", made)
    monkeypatch.setattr(module, "thread_time", made)
    return made


def messages(count, first=1):
    return [Message("ada", None, b"", seq) for seq in range(first, first + count)]


def numbers(taken):
    return [message.seq for message in taken]


class Source:
    """A protocol with as many messages as asked for."""

    def __init__(self):
        self.asked = []
        self.sent = 0
        self.box = Mailbox(self.give)

    def give(self, count):
        self.asked.append(count)
        self.box.put(messages(count, self.sent + 1))
        self.sent += count


async def test_messages_are_taken_in_order_and_at_most_as_many_as_wanted():
    box = Mailbox(lambda count: None)
    box.put(messages(3))
    assert numbers(await box.take(2)) == [1, 2]
    assert len(box) == 1
    assert numbers(await box.take(2)) == [3]


async def test_whoever_waits_is_woken():
    asked = []
    box = Mailbox(asked.append)
    waiting = asyncio.ensure_future(box.take(9))
    await asyncio.sleep(0)
    assert asked == [PREFETCH_INITIAL]
    box.put(messages(2))
    assert numbers(await waiting) == [1, 2]


@pytest.mark.parametrize(
    ("work_s", "asked"),
    [
        (0.0, [PREFETCH_INITIAL, PREFETCH_MAX - PREFETCH_INITIAL + 1]),
        (1.0, [PREFETCH_INITIAL, -61, 1]),
    ],
)
async def test_only_the_difference_to_what_is_outstanding_is_asked_for(clock, work_s, asked):
    """Or taken back."""
    found = []
    box = Mailbox(found.append)
    for place in range(3):
        waiting = asyncio.ensure_future(box.take(1))
        await asyncio.sleep(0)
        box.put(messages(1, place))
        await waiting
        clock.now += work_s
    assert found == asked


async def test_more_is_asked_for_once_half_of_it_has_come(clock):
    asked = []
    box = Mailbox(asked.append)
    for _ in range(5 * PREFETCH_INITIAL):
        waiting = asyncio.ensure_future(box.take(1))
        await asyncio.sleep(0)
        box.put(messages(1))
        await waiting
        clock.now += module.PREFETCH_S / PREFETCH_INITIAL
    assert asked[0] == PREFETCH_INITIAL
    assert min(asked[1:]) >= PREFETCH_INITIAL // 2 - 1
    assert sum(asked) <= 6 * PREFETCH_INITIAL


async def test_of_small_batches_one_in_a_while_is_measured(clock, monkeypatch):
    looks = []
    monkeypatch.setattr(module, "thread_time", lambda: looks.append(clock.now) or clock.now)
    box = Mailbox(lambda count: None)
    for _ in range(12):
        box.put(messages(3))
        await box.take(3)
        clock.now += module.MEASURE_S / 4
    assert len(looks) == 3 * 2, "before and after a batch in four"


async def test_a_slow_application_is_asked_one_at_a_time(clock):
    source = Source()
    await source.box.take(PREFETCH_INITIAL)
    for _ in range(20):
        clock.now += 1.0
        taken = await source.box.take(1)
        clock.now += 1.0
        while len(source.box):
            clock.now += len(taken) * 1.0
            taken = await source.box.take(PREFETCH_INITIAL)
    assert source.asked[-1] == 1


async def test_a_fast_application_is_given_much(clock):
    source = Source()
    for _ in range(20):
        taken = await source.box.take(PREFETCH_MAX)
        clock.now += len(taken) * 1e-7
    assert source.asked[-1] == PREFETCH_MAX


async def test_waiting_for_messages_is_not_counted_as_work(clock):
    asked = []
    box = Mailbox(asked.append)
    for _ in range(10):
        waiting = asyncio.ensure_future(box.take(1))
        await asyncio.sleep(0)
        clock.now += 60.0  # nothing came for a minute
        box.put(messages(1))
        await waiting
        clock.now += 1e-6
    assert sum(asked) > 1000


async def test_the_end_is_told_after_the_last_message():
    box = Mailbox(lambda count: None)
    box.put(messages(1))
    box.end(None)
    assert len(await box.take(5)) == 1
    assert await box.take(5) == []
    assert await box.take(5) == []


async def test_the_reason_of_the_end_is_raised_after_the_last_message():
    box = Mailbox(lambda count: None)
    waiting = asyncio.ensure_future(box.take(1))
    await asyncio.sleep(0)
    box.put(messages(2))
    box.end(LocalProtocolError("over"))
    assert len(await waiting) == 1
    assert len(await box.take(1)) == 1
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="over"):
            await box.take(1)


async def test_a_cancelled_wait_loses_nothing():
    box = Mailbox(lambda count: None)
    waiting = asyncio.ensure_future(box.take(5))
    await asyncio.sleep(0)
    box.put(messages(2))
    waiting.cancel()  # when it was woken already
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(await box.take(5)) == 2


async def test_two_cannot_wait_at_once():
    box = Mailbox(lambda count: None)
    first = asyncio.ensure_future(box.take(1))
    await asyncio.sleep(0)
    with pytest.raises(LocalProtocolError, match="another task"):
        await box.take(1)
    box.put(messages(1))
    assert len(await first) == 1


async def test_put_withdraws_from_an_application_that_stays_away(clock):
    asked = []
    box = Mailbox(asked.append)
    box.put(messages(1))
    await box.take(8)
    waiting = asyncio.create_task(box.take(8))
    await asyncio.sleep(0)
    outstanding = sum(asked)
    assert outstanding > 8
    assert box.put(messages(8, first=2)) == 0
    await waiting  # Now it is busy,
    clock.now += module.PREFETCH_S / 2
    assert box.put(messages(1, first=10)) == 0
    clock.now += module.PREFETCH_S
    change = box.put(messages(1, first=11))  # and for too long.
    assert outstanding + change == 11, "what was delivered, the first one included"
    assert sum(asked) == outstanding, "nobody was called"


async def test_a_reader_that_gives_up_withdraws_in_a_turn_of_its_own(clock):
    """Whoever cancels may be anywhere, even inside the effects of an input."""
    asked = []
    box = Mailbox(asked.append)
    taking = box.take(8)
    taking.send(None)
    assert asked == [PREFETCH_INITIAL]
    with pytest.raises(asyncio.CancelledError):
        taking.throw(asyncio.CancelledError)
    assert asked == [PREFETCH_INITIAL]
    await asyncio.sleep(0)
    assert asked == [PREFETCH_INITIAL, -PREFETCH_INITIAL]


async def test_a_reader_that_comes_back_at_once_withdraws_nothing():
    asked = []
    box = Mailbox(asked.append)
    waiting = asyncio.ensure_future(box.take(8))
    await asyncio.sleep(0)
    waiting.cancel()
    again = asyncio.ensure_future(box.take(8))
    await asyncio.wait({waiting})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(asked) == PREFETCH_INITIAL
    box.put(messages(1))
    assert numbers(await again) == [1]


async def test_after_the_end_nobody_withdraws_anything():
    asked = []
    box = Mailbox(asked.append)
    waiting = asyncio.ensure_future(box.take(8))
    await asyncio.sleep(0)
    waiting.cancel()
    box.end(None)
    await asyncio.wait({waiting})
    await asyncio.sleep(0)
    assert asked == [PREFETCH_INITIAL]


async def test_prefetch_asks_for_what_is_not_asked_for_yet():
    box = Mailbox()
    assert box.prefetch(5) == 5
    assert box.prefetch(8) == 3
    assert box.prefetch(8) == 0
    assert box.asked == 8


async def test_what_is_delivered_is_bounded_in_bytes_too():
    asked = []
    box = Mailbox(asked.append)
    waiting = asyncio.ensure_future(box.take(1))
    await asyncio.sleep(0)
    large = [Message("ada", None, bytes(module.BYTES_MAX), seq) for seq in (1, 2)]
    assert sum(asked) + box.put(large) == 2
    assert numbers(await waiting) == [1]


@pytest.mark.parametrize(("waits", "asked_for_more"), [(False, True), (True, False)])
async def test_a_processor_that_others_took_does_not_make_an_application_slow(
    clock, monkeypatch, waits, asked_for_more
):
    monkeypatch.setattr(module, "thread_time", lambda: 0.0)  # It computed nothing,
    source = Source()
    for _ in range(8):
        await source.box.take(PREFETCH_MAX)
        clock.now += 1.0  # but a second passed: it was preempted, or it waited for something.
        if waits:
            await asyncio.sleep(0)
    await source.box.take(PREFETCH_MAX)
    assert (source.asked[-1] == PREFETCH_MAX) == asked_for_more


async def test_nobody_takes_what_is_before_and_after_a_marker_at_once():
    box = Mailbox(lambda count: None)
    box.put(messages(4), [(0, "first"), (2, "second"), (2, "third"), (4, "last")])
    said = []
    assert await box.take(9) == []
    assert box.pass_marker(said.append) is None
    assert numbers(await box.take(9)) == [1, 2]
    assert box.pass_marker(str.upper) == "SECOND"
    assert await box.take(9) == []
    assert box.pass_marker(str.upper) == "THIRD"
    assert numbers(await box.take(1)) == [3]
    assert box.pass_marker(str.upper) is None, "one message comes first"
    assert numbers(await box.take(9)) == [4]
    assert box.pass_marker(str.upper) == "LAST"
    assert said == ["first"]


async def test_a_marker_wakes_whoever_waits_and_stays_if_it_cannot_be_passed():
    box = Mailbox(lambda count: None)
    waiting = asyncio.ensure_future(box.take(9))
    await asyncio.sleep(0)
    box.put((), [(0, "marker")])
    assert await waiting == []
    with pytest.raises(TypeError):
        box.pass_marker(len(box))
    assert box.pass_marker(str.upper) == "MARKER"


async def test_markers_come_before_the_end():
    box = Mailbox(lambda count: None)
    box.put(messages(1), [(1, "marker")])
    box.end(LocalProtocolError("over"))
    assert numbers(await box.take(9)) == [1]
    assert await box.take(9) == []
    assert box.pass_marker(str.upper) == "MARKER"
    with pytest.raises(LocalProtocolError, match="over"):
        await box.take(9)
