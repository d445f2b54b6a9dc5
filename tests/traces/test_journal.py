"""A journal says what a simulation's writer would, and survives whatever ends its process."""

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.terms.errors import ConfigError
from semcast.terms.events import (
    CRASH,
    DELIVER,
    DELIVERY,
    DISCARD,
    DRAINED,
    LEAVE,
    MULTICAST,
    PURGE,
    RECEIVE,
    RETRANSMISSION,
    SAFE,
    SKIP,
    STABLE,
    Event,
)
from semcast.terms.messages import DataMessage
from semcast.traces import journal_conversion
from semcast.traces.errors import BadFile
from semcast.traces.journal import Journal
from semcast.traces.journal_conversion import convert_journals, run_id_of, write_run
from semcast.traces.journal_file import JournalHeader, read_journal
from semcast.traces.parquet import TraceWriter, read_runs, read_trace
from semcast.traces.schema import ProcessInfo, RunInfo

RUN = RunInfo(name="demo", protocol="s-rm", order="fifo", relation="item", f=1, seed=42, run_id=7)
NAMES = ("a", "b", "c")
HEADER = JournalHeader(
    run_id=7,
    pid=0,
    names=NAMES,
    incarnations=(4, 5, 6),
    group="quotes",
    protocol="s-rm",
    order="fifo",
    relation="item",
    f=1,
)


def header(pid: int, relation: str = "item") -> JournalHeader:
    return msgspec.structs.replace(HEADER, pid=pid, relation=relation)


def received(count: int, first: int = 1) -> list[Event]:
    return [Event(RECEIVE, 0, 1, seq, peer=1) for seq in range(first, first + count)]


def left_behind(journal: Journal) -> None:
    """What a crash leaves."""
    journal.__exit__(OSError, OSError(), None)


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


_covers = {
    "item": st.just(b""),
    "bitmap": st.integers(0, 2**20).map(lambda n: n.to_bytes((n.bit_length() + 7) // 8, "little")),
    "list": st.lists(st.integers(1, 9), unique=True, max_size=3).map(lambda d: tuple(sorted(d))),
}
_annotations = {
    relation: st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        covers,
        st.booleans(),
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=2).map(tuple),
        st.binary(max_size=300),
    )
    for relation, covers in _covers.items()
}
_others = st.one_of(
    st.builds(Event, st.sampled_from([RECEIVE, SAFE, STABLE]), st.just(0), st.integers(0, 2)),
    st.builds(
        Event,
        st.just(PURGE),
        st.just(0),
        sender=st.integers(0, 2),
        seq=st.integers(1, 2**40),
        by_seq=st.integers(1, 2**40),
        note=st.sampled_from([DELIVERY, RETRANSMISSION]),
        buffered=st.integers(0, 2**31 - 1),
    ),
    st.builds(Event, st.just(SKIP), st.just(0), st.just(1), st.just(3), by_seq=st.just(5)),
    st.builds(Event, st.just(DISCARD), st.just(0), note=st.text(max_size=5), peer=st.just(2)),
    st.builds(Event, st.just(LEAVE), st.just(0), note=st.just(DRAINED), peer=st.just(1)),
)


@st.composite
def executions(draw: Any) -> tuple[str, list[tuple[int, int, list[Event]]]]:
    """A relation, and batches: whose, when, and the events, which are not yet numbered."""
    relation = draw(st.sampled_from(sorted(_covers)))
    sent: list[DataMessage] = []
    batches = []
    for ts_ns in range(draw(st.integers(0, 8))):
        pid = draw(st.integers(0, 2))
        events = []
        for what in draw(st.lists(st.sampled_from("mdo"), max_size=5)):
            if what == "m":
                seq = 1 + sum(message.sender == pid for message in sent)
                sent.append(DataMessage(pid, seq, *draw(_annotations[relation])))
                events.append(Event(MULTICAST, pid, pid, seq, sent[-1], buffered=seq))
                events[-1].declared = draw(st.lists(st.integers(1, 2**60), max_size=2).map(tuple))
                events[-1].declares = draw(st.sampled_from(["", "item", "item=3 never_purge=0"]))
            elif what == "d" and sent:
                m = draw(st.sampled_from(sent))
                events.append(Event(DELIVER, pid, m.sender, m.seq, m))
            else:
                events.append(msgspec.structs.replace(draw(_others), pid=pid))
        batches.append((pid, ts_ns * 10, events))
    return relation, batches


@settings(max_examples=40)
@given(executions())
def test_it_says_what_a_writer_of_parquet_says(
    execution: tuple[str, list[tuple[int, int, list[Event]]]],
) -> None:
    relation, batches = execution
    run = replace(RUN, relation=relation)
    with TemporaryDirectory() as folder:
        one, other = Path(folder, "one"), Path(folder, "other")
        journals = [Journal(one, header(pid, relation), extent=4096) for pid in range(3)]
        for pid, ts_ns, events in batches:
            journals[pid].record(events, ts_ns)
        for journal in journals:
            journal.close()
        write_run(one, run, NAMES, complete=True)
        recorded = [0, 0, 0]
        with TraceWriter(other, run, NAMES) as writer:
            for pid, ts_ns, events in batches:
                for event in events:
                    recorded[pid] += 1
                    event.n, event.ts_ns = recorded[pid], ts_ns
                    event.inc = HEADER.incarnations[pid]
                    if event.sender >= 0:
                        event.sender_inc = HEADER.incarnations[event.sender]
                writer.append(events)
            writer.close(complete=True)
        seen, expected = read_trace(one), read_trace(other)
        assert seen == expected
        assert rows_of(one, MULTICAST) == rows_of(other, MULTICAST)


def rows_of(path: Path, kind: str) -> list[dict[str, Any]]:
    """Every cell but the incarnations, in one order."""
    if not (path / "events" / f"kind={kind}").exists():
        return []
    rows = ds.dataset(path / "events" / f"kind={kind}").to_table().to_pylist()
    lives = ("inc", "sender_inc", "by_inc")
    told = [{key: row[key] for key in row if key not in lives} for row in rows]
    return sorted(told, key=lambda row: (row["pid"], row["n"]))


def test_files_and_incarnations(tmp_path: Path) -> None:
    with Journal(tmp_path, header(2)) as journal:
        message = DataMessage(1, 1, item=9, payload=b"x")
        purge = Event(PURGE, 2, 1, 1, by_seq=2, note=DELIVERY)
        journal.record([Event(DELIVER, 2, 1, 1, message), purge], 10)
    assert contents(tmp_path).keys() == {
        "events/kind=deliver/7-2-6.parquet",
        "events/kind=purge/7-2-6.parquet",
        "processes.parquet/7-2.parquet",
        "runs.parquet/7.parquet",
    }
    [row] = ds.dataset(tmp_path / "events" / "kind=purge").to_table().to_pylist()
    assert (row["run_id"], row["pid"], row["inc"], row["n"], row["ts_ns"]) == (7, 2, 6, 2, 10)
    assert (row["sender_inc"], row["by_sender"], row["by_inc"]) == (5, 1, 5)


def test_names_of_items_are_told_once(tmp_path: Path) -> None:
    acme, zinc, bare = (
        DataMessage(0, 1, item=1, name="ACME"),
        DataMessage(0, 2, item=2, name="ZINC"),
        DataMessage(0, 3, item=3),
    )
    for pid, messages in ((0, (acme, zinc, bare)), (1, (zinc, acme))):
        with Journal(tmp_path, header(pid)) as journal:
            for message in messages:
                journal.record([Event(DELIVER, pid, 0, message.seq, message)] * 2, 0)
            size = journal._end
            journal.record([Event(DELIVER, pid, 0, 1, acme)], 0)
            assert b"ACME" not in journal.path.read_bytes()[size:]
    assert read_trace(tmp_path).items == {1: "ACME", 2: "ZINC"}
    assert ds.dataset(tmp_path / "items.parquet").count_rows() == 2


def test_a_run_that_nobody_launched(tmp_path: Path) -> None:
    """Who closed its journal is correct, who left it behind is not; liveness is not judged."""
    with Journal(tmp_path, header(0)) as journal:
        journal.record(received(1), 1)
    left_behind(Journal(tmp_path, header(1)))
    trace = read_trace(tmp_path)
    assert trace.processes == (ProcessInfo(0, "a", True), ProcessInfo(1, "b", False))
    assert trace.run == replace(
        RUN, name="quotes", seed=0, complete=False, parameters={"members": "3"}
    )
    assert len(trace.events) == 1


def test_runs_of_a_directory(tmp_path: Path) -> None:
    assert read_runs(tmp_path) == []
    for run_id in (9, 7):
        Journal(tmp_path, msgspec.structs.replace(HEADER, run_id=run_id)).close()
    seven, nine = read_runs(tmp_path)
    assert (seven.run_id, nine.run_id) == (7, 9)
    write_run(tmp_path, replace(nine, name="last"), NAMES, complete=True)
    assert read_runs(tmp_path) == [seven, replace(nine, name="last", complete=True)]
    assert len(read_trace(tmp_path, 9).processes) == 3


def test_members_agree_on_the_number_of_their_run() -> None:
    number = run_id_of("quotes", ["a", "b"], [1, 2])
    assert 0 <= number < 2**63
    assert number == run_id_of("quotes", ("a", "b"), (1, 2))
    assert number != run_id_of("quotes", ["a", "b"], [1, 3])


def test_who_launched_the_run_knows_better(tmp_path: Path) -> None:
    killed, slow = Journal(tmp_path, header(0)), Journal(tmp_path, header(1))
    killed.record(received(3), 5)
    left_behind(killed)
    run = replace(RUN, parameters={"rate": "9"})
    for _ in range(2):  # Saying it twice changes nothing.
        write_run(tmp_path, run, NAMES, complete=True, crashes={0: 6, 2: 8})
    slow.record([Event(SAFE, 1, 0, 1)], 7)
    left_behind(slow)  # Its opinion of the run comes too late.
    trace = read_trace(tmp_path)
    assert trace.run == replace(run, complete=True)
    assert trace.processes == (
        ProcessInfo(0, "a", False),
        ProcessInfo(1, "b", True),
        ProcessInfo(2, "c", False),
    )
    assert [(e.kind, e.pid, e.n, e.ts_ns) for e in trace.events[3:]] == [
        (CRASH, 0, 4, 6),
        (SAFE, 1, 1, 7),
        (CRASH, 2, 1, 8),
    ]
    [crash] = ds.dataset(tmp_path / "events/kind=crash/7-0-4.parquet").to_table().to_pylist()
    assert crash["inc"] == 4


@pytest.mark.parametrize("extent", [64, 4096, 1 << 20])
def test_it_grows(tmp_path: Path, extent: int) -> None:
    """By extents, for one batch of several too."""
    journal = Journal(tmp_path, HEADER, extent=extent)
    events = received(2000)
    for first in range(0, 1000, 10):
        journal.record(events[first : first + 10], first)
    journal.record(events[1000:], 2000)
    assert journal.path.stat().st_size % extent == 0
    left_behind(journal)
    seen = read_trace(tmp_path).events
    assert [(e.n, e.seq) for e in seen] == [(n, n) for n in range(1, 2001)]
    assert seen[999].ts_ns == 990


def test_a_full_disk_loses_the_batch_and_nothing_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, HEADER, extent=4096)
    journal.record(received(3), 1)

    def no_space(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", no_space)
        with pytest.raises(OSError, match="no space left"):
            journal.record(received(2000), 2)
    journal.record(received(1, first=4), 3)
    journal.close()
    assert [e.seq for e in read_trace(tmp_path).events] == [1, 2, 3, 4]


@settings(max_examples=60)
@given(st.data())
def test_a_torn_tail_hides_nothing_before_it(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        journal = Journal(folder, HEADER, extent=256)
        ends = [journal._end]
        for batch in range(4):
            journal.record(received(2, first=2 * batch + 1), batch)
            ends.append(journal._end)
        left_behind(journal)
        torn = data.draw(st.integers(ends[0], ends[-1] - 1))
        whole = sum(end <= torn for end in ends[1:])
        content = bytearray(journal.path.read_bytes())
        if data.draw(st.booleans()):
            del content[torn:]
        else:
            content[torn] ^= data.draw(st.integers(1, 255))
        journal.path.write_bytes(content)
        assert [e.seq for e in read_trace(folder).events] == list(range(1, 2 * whole + 1))


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_journal import HEADER, received
from semcast.traces.journal import Journal
journal = Journal(sys.argv[1], HEADER, extent=4096)
for batch in range(10**9):
    journal.record(received(3, first=3 * batch + 1), batch)
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""


def test_kill_9_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        returned = len(process.stdout.read(500))
        os.kill(process.pid, signal.SIGKILL)
        returned += len(process.stdout.read())
    trace = read_trace(tmp_path)
    batches, rest = divmod(len(trace.events), 3)
    assert rest == 0
    assert returned <= batches <= returned + 1
    assert [e.seq for e in trace.events] == list(range(1, 3 * batches + 1))
    assert trace.processes == (ProcessInfo(0, "a", False),)


def test_the_journal_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    living = Journal(tmp_path, header(1))
    living.record(received(1), 1)
    with pytest.raises(BadFile, match=r"not finished: .*still being written: 7-1-5\.journal"):
        read_trace(tmp_path)
    Journal(tmp_path, header(0)).close()
    assert convert_journals(tmp_path) == [living.path]
    assert read_trace(tmp_path).events == []
    living.record(received(1, first=2), 2)
    living.close()
    living.close()
    assert convert_journals(tmp_path) == []
    assert [e.seq for e in read_trace(tmp_path).events] == [1, 2]


def test_readers_may_come_at_the_same_time(tmp_path: Path) -> None:
    for pid in range(3):
        journal = Journal(tmp_path, header(pid))
        journal.record([msgspec.structs.replace(e, pid=pid) for e in received(5)], pid)
        left_behind(journal)
    with ThreadPoolExecutor(4) as readers:
        first, *others = readers.map(read_trace, [tmp_path] * 4)
    assert len(first.events) == 15
    assert all(other == first for other in others)
    assert not list((tmp_path / "journals").iterdir())


@pytest.mark.parametrize("published", range(5))
def test_a_reader_that_dies_leaves_the_work_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: int
) -> None:
    """Whatever it had moved into place, and whatever it had not."""
    for place in ("whole", "interrupted"):
        journal = Journal(tmp_path / place, HEADER)
        named = DataMessage(0, 1, item=5, name="five")
        journal.record([*received(2), Event(MULTICAST, 0, 0, 1, named)], 1)
        left_behind(journal)
    convert_journals(tmp_path / "whole")
    publish, calls = journal_conversion._publish, iter(range(published))

    def dying(*args: Any, **options: Any) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        publish(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(journal_conversion, "_publish", dying)
        with pytest.raises(KeyboardInterrupt):
            convert_journals(tmp_path / "interrupted")
    killed = tmp_path / "interrupted" / "journals" / "7-0-4"
    killed.mkdir()  # An exception clears it away, a signal does not.
    (killed / "multicast").write_bytes(b"half a fi")
    assert convert_journals(tmp_path / "interrupted") == []
    assert contents(tmp_path / "interrupted") == contents(tmp_path / "whole")


def test_without_pyarrow_closing_leaves_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        with Journal(tmp_path, HEADER) as journal:
            journal.record(received(2), 1)
    assert contents(tmp_path).keys() == {"journals/7-0-4.journal"}
    trace = read_trace(tmp_path)
    assert trace.processes == (ProcessInfo(0, "a", True),)
    assert len(trace.events) == 2


def test_it_never_writes_over_a_trace(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "t", HEADER)
    with pytest.raises(ConfigError, match="already holds a trace of this process"):
        Journal(tmp_path / "t", HEADER)
    with pytest.raises(ConfigError, match="already holds a trace"):
        TraceWriter(tmp_path / "t", RUN, NAMES)
    journal.record(received(1), 1)
    journal.close()
    with pytest.raises(ConfigError, match="already holds a trace of this process"):
        Journal(tmp_path / "t", HEADER)
    with TraceWriter(tmp_path / "u", RUN, NAMES) as writer:
        writer.close(complete=True)
    with pytest.raises(ConfigError, match="already holds a trace of this process"):
        Journal(tmp_path / "u", HEADER)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a journal"),
        (b"semcast\x02", "not a journal"),
        (b"semcast\x01", "without a valid"),
    ],
)
def test_what_is_not_a_journal(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "journals" / "1-0-1.journal"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(BadFile, match=reason):
        read_trace(tmp_path)
    assert path.exists()


def test_the_header_comes_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path, HEADER)
    seen, batches = read_journal(journal.path)
    assert (seen, list(batches)) == (HEADER, [])
