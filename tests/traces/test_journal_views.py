"""Journals of processes that come and go: everybody gets one number, in every life."""

import pytest
from msgspec.structs import replace

from semcast.terms.events import CRASH, DELIVER, INSTALL, MULTICAST, PURGE, SUSPECT, Event
from semcast.terms.messages import DataMessage
from semcast.traces.journal import Journal
from semcast.traces.journal_conversion import write_run
from semcast.traces.journal_file import JournalHeader
from semcast.traces.parquet import read_runs, read_trace
from semcast.traces.schema import ProcessInfo

ADA, BOB, CY = 1_999_999_999, 5, 700_000_000  # what they number themselves


def header(pid: int, name: str, inc: int) -> JournalHeader:
    return JournalHeader(
        run_id=7,
        pid=pid,
        inc=inc,
        names=(name,),
        incarnations=(),
        group="orders",
        protocol="s-vsm",
        order="total",
        relation="item",
        f=0,
    )


def sent(pid: int, inc: int, seq: int, view: int) -> Event:
    message = DataMessage(pid, seq, item=3, payload=b"1", name="x")
    return Event(MULTICAST, pid, pid, seq, message, inc=inc, sender_inc=inc, view=view)


def test_events_say_in_which_life_and_view_they_happened(tmp_path):
    with Journal(tmp_path, header(BOB, "bob", 30)) as journal:
        installed = Event(INSTALL, BOB, inc=30, view=2, members=(ADA, BOB))
        journal.record([installed, sent(BOB, 30, 1, 2)], 1_000)
        message = DataMessage(ADA, 4, item=3, payload=b"2")
        delivered = Event(DELIVER, BOB, ADA, 4, message, inc=30, sender_inc=20, view=2, position=9)
        purged = Event(
            PURGE, BOB, BOB, 1, by_seq=4, inc=30, sender_inc=30, by_sender=ADA, by_inc=20, view=2
        )
        journal.record([delivered, purged, Event(SUSPECT, BOB, peer=ADA, inc=30, view=2)], 2_000)
        journal.record([Event(INSTALL, BOB, inc=31, view=5, members=(BOB,))], 3_000)
    assert list((tmp_path / "journals").glob("*.journal")), "the next reader has those of all"
    with Journal(tmp_path, header(ADA, "ada", 20)) as journal:
        journal.record([sent(ADA, 20, 4, 2)], 500)

    trace = read_trace(tmp_path)
    assert trace.processes == (ProcessInfo(0, "ada", True), ProcessInfo(1, "bob", True))
    _, installed, first, delivered, purged, suspected, again = trace.events
    assert (installed.pid, installed.inc, installed.view, installed.members) == (1, 30, 2, (0, 1))
    assert (first.sender, first.sender_inc, first.message.sender, first.seq) == (1, 30, 1, 1)
    assert (delivered.sender, delivered.sender_inc, delivered.position) == (0, 20, 9)
    assert (purged.by_sender, purged.by_inc, purged.by_seq) == (0, 20, 4)
    assert (suspected.peer, suspected.view) == (0, 2)
    assert (again.inc, again.view, again.members) == (31, 5, (1,))
    assert [event.n for event in trace.events if event.pid == 1] == [1, 2, 3, 4, 5, 6]


def test_who_comes_later_fits_in(tmp_path):
    with Journal(tmp_path, header(BOB, "bob", 30)) as journal:
        journal.record([Event(INSTALL, BOB, inc=30, view=1, members=(BOB, CY))], 1_000)
    assert read_trace(tmp_path).events[0].members == (0, 1)
    with Journal(tmp_path, header(ADA, "ada", 20)) as journal:
        journal.record([Event(INSTALL, ADA, inc=20, view=2, members=(BOB, CY, ADA))], 2_000)
    assert [event.members for event in read_trace(tmp_path).events] == [(0, 1), (0, 1, 2)]
    assert [p.name for p in read_trace(tmp_path).processes] == ["bob", "ada"]


def test_a_crash_follows_what_its_life_recorded(tmp_path):
    killed = Journal(tmp_path, header(BOB, "bob", 30))
    killed.record([sent(BOB, 30, 1, 1), sent(BOB, 30, 2, 1)], 1_000)
    killed._release()
    with Journal(tmp_path, header(BOB, "bob", 31)) as journal:
        journal.record([sent(BOB, 31, 1, 3)], 5_000)
    with Journal(tmp_path, header(ADA, "ada", 20)) as journal:
        journal.record([sent(ADA, 20, 1, 1)], 1_500)
    [run] = read_runs(tmp_path)
    write_run(tmp_path, run, {BOB: "bob", ADA: "ada"}, complete=True, crashes={BOB: 2_000})
    trace = read_trace(tmp_path)
    assert trace.run.complete
    assert trace.processes == (ProcessInfo(0, "ada", True), ProcessInfo(1, "bob", False))
    [crash] = [event for event in trace.events if event.kind == CRASH]
    assert (crash.pid, crash.inc, crash.n, crash.ts_ns) == (1, 30, 3, 2_000)


@pytest.mark.parametrize("wrong", ["x", "9" * 5_000, "-1"])
def test_quorums_have_the_numbers_of_the_trace_and_what_is_no_number_stays(tmp_path, wrong):
    """A journal may come from an untrusted source."""
    quorums = {"quorum_sets": f"{BOB} {ADA}, {BOB} {wrong}"}
    with Journal(tmp_path, replace(header(BOB, "bob", 30), parameters=quorums)) as journal:
        journal.record([sent(BOB, 30, 1, 1)], 1_000)
    [run] = read_runs(tmp_path)
    assert run.parameters["quorum_sets"] == f"0 1, 0 {wrong}"
