"""What the records of a server's disk make of its next life, also when some cannot be read."""

from tests.service.store_world import DamagedRecords, StoreWorld

from semcast.service.commands import encode_request
from semcast.service.store_disk import StoredState
from semcast.service.store_messages import (
    AdoptedRecord,
    BatchRecord,
    ItemsRecord,
    SafeRecord,
    SnapshotDoneRecord,
    SnapshotRecord,
    StagedBatchRecord,
    StagingRecord,
    update_batch,
)
from semcast.service.store_state import StoreState
from semcast.terms.machine import LeaveGroup
from semcast.terms.service import DONE

SESSIONS = StoreState(9).encoded_sessions()
BODY = update_batch([(1, 1, 1, 0, encode_request(["set", b"k", b"v"]))])
FOUNDED = AdoptedRecord(1, 0, 0, False)
HANDED = [
    StagingRecord(False),
    ItemsRecord(False, [(b"k", b"v")]),
    SnapshotRecord(False, 2, 77, SESSIONS),
    AdoptedRecord(5, 2, 2, True),
]
OWN = [
    StagingRecord(True),
    ItemsRecord(True, [(b"k", b"v")]),
    SnapshotRecord(True, 2, 77, SESSIONS),
    StagedBatchRecord(True, 1, BODY),
    SnapshotDoneRecord(5, 2),
]


def batch(first):
    return BatchRecord(first, 1, BODY, first - 1)


def stored(*records):
    return StoredState(9, DamagedRecords(records))


def found(*records):
    """Whether there is a state, its level, the items in it, and the length of the log."""
    state = stored(*records)
    return state.has_state, state.level, len(state.state.items), state.log.length


LOST = False, 0, 0, 0


def test_a_complete_snapshot_behind_damaged_records_is_a_state():
    assert found(FOUNDED, None, batch(2), *HANDED, batch(3), batch(4)) == (True, 5, 1, 4)
    assert found(FOUNDED, batch(1), None, batch(3), *OWN, batch(4)) == (True, 5, 1, 4)
    assert found(None, batch(1), *HANDED, AdoptedRecord(9, 2, 2, False)) == (True, 9, 1, 2)


def test_what_an_own_snapshot_has_not_yet_is_taken_from_before_its_end():
    *begun, done = OWN
    records = (FOUNDED, None, batch(2), batch(3), *begun, batch(4), batch(5), done, batch(6))
    assert found(*records) == (True, 5, 1, 6)


def test_a_damaged_record_at_or_behind_the_snapshot_makes_the_disk_lost():
    for at in range(len(HANDED)):
        handed = [*HANDED[:at], None, *HANDED[at + 1 :]]
        assert found(FOUNDED, batch(1), batch(2), *handed, batch(3)) == LOST
    for at in range(len(OWN)):
        own = [*OWN[:at], None, *OWN[at + 1 :]]
        assert found(FOUNDED, batch(1), batch(2), batch(3), *own, batch(4)) == LOST
    assert found(FOUNDED, *HANDED, None, batch(4)) == LOST
    assert found(FOUNDED, *HANDED, batch(3), None) == LOST
    assert found(FOUNDED, batch(1), None, AdoptedRecord(7, 2, 1, False), batch(3)) == LOST


def test_a_store_that_began_again_without_any_state_keeps_what_came_then():
    began_again = AdoptedRecord(7, 0, 0, False)
    assert found(FOUNDED, batch(1), None, batch(3), began_again, batch(1)) == (True, 7, 0, 1)


def test_servers_that_recovered_from_damage_at_different_times_lose_nothing():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    for pid in (0, 1):
        w.crash(pid)
        at = next(i for i, record in enumerate(w.disks[pid]) if isinstance(record, BatchRecord))
        w.disks[pid][at] = None
        w.start(pid)
        w.run(1.0)
        assert w.items(pid) == {b"a": b"1"}
    w.crash(2)
    w.run(1.0)
    w.nodes[3].server = 0
    w.ask(3, "set", b"a", b"2")  # Server 2 misses it.
    w.run(0.5)
    assert w.answers[3] == [(DONE, True)] * 2
    for pid in (0, 1):
        w.crash(pid)
    for pid in range(3):
        w.start(pid)
    w.run(1.5)
    assert [w.items(pid) for pid in range(3)] == [{b"a": b"2"}] * 3


def test_a_server_that_restarts_alone_reads_nothing_older_than_before():
    w = StoreWorld(clients=2)
    for value in (b"1", b"2"):
        w.ask(3, "set", b"a", value)
        w.run(0.3)
    assert [type(w.disks[pid][-1]) for pid in range(3)] == [SafeRecord] * 3
    for pid in range(3):
        w.crash(pid)
    w.start(0)
    w.run(1.0)
    w.nodes[4].server = 0
    w.ask(4, "get", b"a")
    w.run(0.02)
    assert w.answers[4] == [(DONE, b"2")]


def test_a_server_that_leaves_writes_what_is_safe():
    w = StoreWorld()
    w.ask(3, "set", b"a", b"1")
    w.run(0.01)
    safe = w.nodes[0].replica.safe
    assert StoredState(9, DamagedRecords(w.disks[0])).safe < safe
    w.enter(0, "on_command", LeaveGroup())
    assert StoredState(9, DamagedRecords(w.disks[0])).safe == safe


def test_what_is_safe_is_not_written_while_updates_come():
    w = StoreWorld()
    for _ in range(40):
        w.ask(3, "incr", b"n", 1)
        w.run(0.01)
    assert SafeRecord not in {type(record) for record in w.disks[0]}


def test_a_new_life_reads_nothing_before_it_has_worked_in_a_view():
    w = StoreWorld(clients=2)
    w.ask(3, "set", b"a", b"1")
    w.run(0.3)
    w.crash(0)
    w.ask(3, "set", b"a", b"2")
    w.run(1.0)
    w.start(0)
    w.nodes[4].server = 0
    w.ask(4, "get", b"a")
    assert w.nodes[0].replica.has_state
    assert w.answers[4] == []
    w.run(1.0)
    assert [status for status, _ in w.answers[4]] == [DONE]


def on_disk(w, pid):
    """How many bytes of updates a server that restarts reads."""
    records = w.disks[pid]
    ends = [i for i, record in enumerate(records) if isinstance(record, SnapshotDoneRecord)]
    rest = records[ends[-1] if ends else 0 :]
    return sum(len(record.payload) for record in rest if isinstance(record, BatchRecord))


def test_a_snapshot_is_written_after_so_many_bytes_of_updates():
    w = StoreWorld(snapshot_bytes=20_000)
    for value in range(24):
        w.ask(3, "set", b"a", b"%02d" % value * 1_000)
        w.run(0.05)
        assert on_disk(w, 0) < 30_000
    w.crash(0)
    w.start(0)
    w.run(0.5)
    for value in range(24):  # What was written before the restart counts, too.
        w.ask(3, "set", b"a", b"%02d" % value * 1_000)
        w.run(0.05)
        assert on_disk(w, 0) < 30_000


def test_a_large_state_is_written_again_after_twice_its_bytes():
    w = StoreWorld(snapshot_bytes=20_000)
    counts = []
    for _ in range(4):
        for key in range(20):
            w.ask(3, "set", b"%d" % key, b"v" * 9_000)
            w.run(0.05)
        counts.append(sum(isinstance(record, SnapshotDoneRecord) for record in w.disks[0]))
    assert counts[0] >= 2
    assert 1 <= counts[3] - counts[0] <= 2
