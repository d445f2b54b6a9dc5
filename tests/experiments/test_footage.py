"""What is measured on columns is what a loop over the events finds."""

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.fleet.stream_measurement import TICK_NS, Period, StreamMeasurement, read_measurement
from semcast.terms.events import DELIVER, DELIVERY, MULTICAST, PURGE, RETRANSMISSION, SKIP, Event
from semcast.terms.messages import DataMessage
from semcast.traces.parquet import TraceWriter
from semcast.traces.schema import RunInfo

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
RUN = RunInfo(name="run", protocol="s-rm", order="fifo", relation="item", f=1, seed=1, run_id=5)
PIDS = range(3)
ITEMS = (11, -7)


class Sent(NamedTuple):
    sender: int
    item: int
    at_ms: int


class Done(NamedTuple):
    """Something that happened to a message at a process."""

    kind: str
    where: str
    pid: int
    at_ms: int
    sender: int
    seq: int


class History(NamedTuple):
    """What was sent and what became of it, each in its order."""

    sent: list[Sent]
    done: list[Done]

    def numbered(self) -> Iterator[tuple[int, Sent]]:
        """With the numbers of the messages."""
        lasts = dict.fromkeys(PIDS, 0)
        for sent in self.sent:
            lasts[sent.sender] += 1
            yield lasts[sent.sender], sent

    def events(self) -> Iterator[Event]:
        """As the processes record it."""
        clocks = dict.fromkeys(PIDS, 0)
        messages = {}
        for seq, sent in self.numbered():
            message = messages[sent.sender, seq] = DataMessage(sent.sender, seq, sent.item)
            yield self._event(
                Event(MULTICAST, sent.sender, sent.sender, seq, message), sent, clocks
            )
        for done in self.done:
            message = messages[done.sender, done.seq] if done.kind == DELIVER else None
            by_seq = 0 if done.kind == DELIVER else done.seq + 1
            event = Event(
                done.kind, done.pid, done.sender, done.seq, message, by_seq, note=done.where
            )
            yield self._event(event, done, clocks)

    @staticmethod
    def _event(event: Event, what: Sent | Done, clocks: dict[int, int]) -> Event:
        clocks[event.pid] += 1
        event.n, event.ts_ns = clocks[event.pid], START_NS + what.at_ms * MS
        return event


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Two senders; deliveries, purges and skips in any order and at any time."""
    gaps = draw(st.lists(st.integers(0, 30), min_size=1, max_size=30))
    sent = [
        Sent(draw(st.sampled_from((0, 1))), draw(st.sampled_from(ITEMS)), at)
        for at in accumulate(gaps)
    ]
    history = History(sent, [])
    messages = [(s.sender, seq) for seq, s in history.numbered()]
    kinds = st.sampled_from(
        ((DELIVER, ""), (DELIVER, ""), (PURGE, DELIVERY), (PURGE, RETRANSMISSION), (SKIP, ""))
    )
    for pid in PIDS:
        at_ms = 0
        for _ in range(draw(st.integers(0, 20))):
            at_ms += draw(st.integers(0, 40))
            kind, where = draw(kinds)
            history.done.append(Done(kind, where, pid, at_ms, *draw(st.sampled_from(messages))))
    return history


def footage_of(history: History, sender: int) -> StreamMeasurement:
    """The history, by way of Parquet whose rows stand in another order."""
    with TemporaryDirectory() as place:
        path = Path(place) / "trace"
        with TraceWriter(path, RUN, ["a", "b", "c"]) as trace:
            trace.append(history.events())
            trace.close(complete=True)
        for file in path.glob("events/*/*.parquet"):
            table = parquet.read_table(file)
            parquet.write_table(table.take(list(reversed(range(len(table))))), file)
        return read_measurement(path, start_ns=START_NS, sender=sender)


def counted(history: History, sender: int, pid: int, period: Period, *what: tuple[str, str]) -> int:
    return sum(
        done.pid == pid and done.sender == sender and (done.kind, done.where) in what
        and period.start_s * 1000 < done.at_ms <= period.end_s * 1000
        for done in history.done
    )  # fmt: skip


def age_ms(history: History, sender: int, pid: int, item: int, now_ms: int) -> int:
    """By the definition, looking at everything."""
    sent_ms = {0: 0}
    newest = held = 0
    for seq, sent in history.numbered():
        if sent.sender == sender and sent.item == item:
            sent_ms[seq] = sent.at_ms
            newest = seq if sent.at_ms <= now_ms else newest
    for done in history.done:
        is_it = (done.kind, done.pid, done.sender) == (DELIVER, pid, sender)
        if is_it and done.seq in sent_ms and done.at_ms <= now_ms:
            held = done.seq
    return 0 if held >= newest else now_ms - sent_ms[held]


def is_current(history: History, sender: int, pid: int) -> bool:
    items, newest, held = {}, {}, {}
    for seq, sent in history.numbered():
        if sent.sender == sender:
            items[seq] = sent.item
            newest[sent.item] = seq
    for done in history.done:
        if (done.kind, done.pid, done.sender) == (DELIVER, pid, sender):
            held[items[done.seq]] = done.seq
    return held == newest


@settings(max_examples=60)
@given(histories(), st.sampled_from((0, 1)), st.integers(0, 20), st.integers(1, 40))
def test_columns_tell_what_events_tell(history, sender, start, ticks):
    footage = footage_of(history, sender)
    period = Period(start / 100, (start + ticks) / 100)
    sent = [s for s in history.sent if s.sender == sender]
    within = [s for s in sent if start * 10 < s.at_ms <= (start + ticks) * 10]
    assert footage.sent_rate(period) == pytest.approx(len(within) / period.seconds)
    for pid in PIDS:
        delivered = counted(history, sender, pid, period, (DELIVER, ""))
        omitted = counted(history, sender, pid, period, (PURGE, DELIVERY), (SKIP, ""))
        assert footage.rate(pid, period) == pytest.approx(delivered / period.seconds)
        total = delivered + omitted
        assert footage.purged_ratio(pid, period) == (omitted / total if total else 0.0)
        assert footage.is_current(pid) == is_current(history, sender, pid)
        ages = footage.ages_ns(pid, ITEMS, period)
        assert ages.tolist() == [
            [age_ms(history, sender, pid, item, tick * 10) * MS for item in ITEMS]
            for tick in range(start + 1, start + ticks + 1)
        ]


@given(histories(), st.floats(0.01, 1.0))
@settings(max_examples=20)
def test_a_share_of_the_samples_does_not_exceed_the_staleness(history, share):
    footage, period = footage_of(history, 0), Period(0.0, 0.5)
    [found_ms] = footage.staleness_ms(2, ITEMS, period, [share])
    ages_ms = (footage.ages_ns(2, ITEMS, period) / MS).ravel().tolist()
    assert found_ms in ages_ms
    assert sum(age <= found_ms for age in ages_ms) >= share * len(ages_ms) - 1e-9
    assert sum(age < found_ms for age in ages_ms) < share * len(ages_ms) + 1e-9


def test_staleness_is_the_age_of_what_a_process_holds():
    history = History(
        [Sent(0, ITEMS[0], 5), Sent(0, ITEMS[0], 30)],
        [Done(DELIVER, "", 2, 12, 0, 1), Done(DELIVER, "", 2, 41, 0, 2)],
    )
    ages = footage_of(history, 0).ages_ns(2, ITEMS[:1], Period(0, 0.05))
    # Nothing held, then the newest, then one of 5 ms superseded at 30 ms, then the newest.
    assert (ages[:, 0] / MS).tolist() == [10, 0, 25, 35, 0]
    assert TICK_NS == 10 * MS


def test_by_second():
    done = [Done(DELIVER, "", 1, at_ms, 0, 1) for at_ms in (400, 1000, 1001, 2500)]
    footage = footage_of(History([Sent(0, ITEMS[0], 1)], done), 0)
    assert footage.by_second(1, 4) == [2, 1, 1, 0]
    assert footage.by_second(2, 2) == [0, 0]
