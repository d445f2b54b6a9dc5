"""The log of segments: what it keeps, what it cuts, what it reports, what it refuses."""

from collections.abc import Sequence
from random import Random

import pytest

from semcast.disk.entries import HEAD, MARK_BYTES, Batch, EntryKey, Hole, SegmentScan
from semcast.disk.log_header import HEADER, LogOwner, decode_header, segment_name
from semcast.disk.segment_log import SegmentLog, open_log, verify_log
from semcast.sim.files import SimFiles
from semcast.terms.errors import ConfigError, StorageError

OWNER = LogOwner("quotes", "a")
SALT = b"12345678"
KEY = EntryKey(SALT)


def reopened(files: SimFiles, segment_bytes: int = 1 << 20) -> SegmentLog:
    return open_log(files, OWNER, SALT, segment_bytes)


def commit(log: SegmentLog, *bodies: bytes) -> None:
    batch = log.next_batch()
    batch.add(bodies)
    log.commit(batch)


def bodies(log: SegmentLog) -> list[tuple[int, bytes]]:
    return [*log.bodies()]


def segment_bytes(*batches: Sequence[bytes], first: int = 1) -> bytes:
    data = b""
    for each in batches:
        batch = Batch(KEY, first)
        batch.add(each)
        data += batch.data
        first += len(each)
    return data


def scanned(data: bytes) -> tuple[list[bytes], SegmentScan]:
    scan = SegmentScan(data, KEY, 1)
    return [data[start:end] for _, start, end in scan], scan


# Entries


def test_entries_come_back_in_order_and_prove_what_was_durable_before() -> None:
    data = segment_bytes([b"a", b"", b"ccc"], [b"d"])
    texts, scan = scanned(data)
    assert texts == [b"a", b"", b"ccc", b"d"]
    assert (scan.last, scan.synced, scan.end, scan.holes) == (4, 3, len(data), [])


@pytest.mark.parametrize("at", range(HEAD.size + 5))
def test_a_bad_byte_anywhere_in_an_entry_costs_that_entry_alone(at: int) -> None:
    data = bytearray(segment_bytes([b"first", b"later", b"last!"]))
    size = HEAD.size + 5
    data[size + at] ^= 0x41
    texts, scan = scanned(bytes(data))
    assert texts == [b"first", b"last!"]
    assert scan.holes == [Hole(size, 2 * size, 2, 2)]


def test_an_entry_inside_a_damaged_record_is_not_taken_for_one() -> None:
    foreign = Batch(EntryKey(b"anothers"), 2)
    foreign.add([b"forged"])
    data = bytearray(segment_bytes([b"a", bytes(foreign.data), b"c"]))
    data[2 * HEAD.size + 1 + HEAD.size] ^= 1
    texts, _ = scanned(bytes(data))
    assert texts == [b"a", b"c"]


def test_an_entry_that_repeats_an_earlier_number_is_passed_over() -> None:
    data = segment_bytes([b"a", b"b"]) + segment_bytes([b"a"])
    texts, scan = scanned(data)
    assert (texts, scan.last, len(scan.holes)) == ([b"a", b"b"], 2, 1)


# Keeping


def test_what_was_committed_is_there_when_the_log_is_opened_again() -> None:
    files = SimFiles()
    log = reopened(files, segment_bytes=100)
    for number in range(1, 40):
        commit(log, b"%d" % number, b"-" * number)
    assert len(log.segments) > 5
    again = reopened(files)
    assert bodies(again) == bodies(log)
    assert [number for number, _ in bodies(again)] == list(range(1, 79))
    assert (again.last, again.damage) == (78, [])


def test_records_are_read_by_number_in_segments_old_and_new() -> None:
    files = SimFiles()
    log = reopened(files, segment_bytes=3 * MARK_BYTES)
    texts = [b"%d" % number * (number % 90) for number in range(1, 4001)]
    for start in range(0, 3000, 250):
        commit(log, *texts[start : start + 250])
    log = reopened(files, segment_bytes=3 * MARK_BYTES)
    commit(log, *texts[3000:3999])
    commit(log, b"large" * MARK_BYTES)
    assert log.read(range(1, 4000)) == texts[:3999]
    assert log.read([4000, 4001, 0, -1]) == [b"large" * MARK_BYTES, None, None, None]


def test_a_damaged_record_is_not_read_and_its_neighbours_are() -> None:
    files = SimFiles()
    log = reopened(files)
    commit(log, b"a", b"b", b"c")
    commit(log, b"d")
    files._files[segment_name(1)].data[HEAD.size + 1 + HEAD.size] ^= 1
    assert log.read([1, 2, 3, 4]) == [b"a", None, b"c", b"d"]


# Torn, damaged


def test_a_torn_end_is_cut_off_and_the_log_goes_on_there() -> None:
    for cut in range(1, 2 * (HEAD.size + 4)):
        files = SimFiles()
        log = reopened(files)
        commit(log, b"kept")
        batch = log.next_batch()
        batch.add([b"torn", b"torn"])
        log.write(batch)
        files.truncate(segment_name(1), HEAD.size + 4 + cut)
        log = reopened(files)
        whole = cut // (HEAD.size + 4)
        assert len(bodies(log)) == 1 + whole
        assert [each.is_torn for each in log.damage] == ([True] if cut % (HEAD.size + 4) else [])
        commit(log, b"after")
        again = reopened(files)
        assert bodies(again)[-1] == (2 + whole, b"after")
        assert again.damage == []


def test_what_follows_a_bad_entry_of_an_unfinished_write_is_cut_off_too() -> None:
    files = SimFiles()
    log = reopened(files)
    commit(log, b"a")
    batch = log.next_batch()
    batch.add([b"b", b"c", b"d"])
    log.write(batch)
    files._files[segment_name(1)].data[2 * HEAD.size + 1] ^= 1
    log = reopened(files)
    assert bodies(log) == [(1, b"a")]
    [torn] = log.damage
    assert (torn.is_torn, torn.first, torn.cut) == (True, 2, 2)
    assert "2 whole cut off" in str(torn)


def test_a_bad_record_in_the_middle_hides_nothing_and_is_reported() -> None:
    files = SimFiles()
    log = reopened(files)
    commit(log, b"a", b"b", b"c")
    commit(log, b"d")
    files._files[segment_name(1)].data[2 * HEAD.size + 1] ^= 1
    log = reopened(files)
    assert bodies(log) == [(1, b"a"), (3, b"c"), (4, b"d")]
    assert [(each.first, each.last, each.is_torn) for each in log.damage] == [(2, 2, False)]
    assert "records 2 to 2 cannot be read" in str(log.damage[0])
    assert bodies(log)
    assert len(log.damage) == 1


def test_after_a_close_even_the_last_batch_is_known_to_have_been_whole() -> None:
    files = SimFiles()
    log = reopened(files)
    commit(log, b"a", b"b", b"c")
    log.close()
    files._files[segment_name(1)].data[-1] ^= 1
    log = reopened(files)
    assert bodies(log) == [(1, b"a"), (2, b"b")]
    assert [(each.first, each.last, each.is_torn) for each in log.damage] == [(3, 3, False)]
    commit(log, b"d")
    log = reopened(files)
    assert bodies(log) == [(1, b"a"), (2, b"b"), (4, b"d")]
    assert [(each.first, each.last) for each in log.damage] == [(3, 3)]


def test_after_it_was_opened_the_last_batch_is_known_to_be_whole() -> None:
    files = SimFiles()
    commit(reopened(files), b"a", b"b", b"c")
    reopened(files)
    files._files[segment_name(1)].data[2 * HEAD.size + 1] ^= 1
    log = reopened(files)
    assert bodies(log) == [(1, b"a"), (3, b"c")]
    assert [(each.first, each.last, each.is_torn) for each in log.damage] == [(2, 2, False)]


def test_a_number_that_is_forgotten_is_never_given_again() -> None:
    files = SimFiles()
    log = reopened(files)
    commit(log, b"a")
    log.forget_before(2)
    files._files[segment_name(1)].data[-1] ^= 1
    log = reopened(files)
    assert (log.last, log.damage) == (1, [])
    commit(log, b"b")
    assert bodies(reopened(files)) == [(2, b"b")]


def test_a_segment_that_is_gone_is_reported() -> None:
    files = SimFiles()
    log = reopened(files, segment_bytes=1)
    for text in (b"a", b"b", b"c"):
        commit(log, text)
    log.close()
    files.remove(segment_name(2))
    log = reopened(files)
    assert bodies(log) == [(1, b"a"), (3, b"c")]
    assert [(each.first, each.last) for each in log.damage] == [(2, 2)]
    for first in (1, 3):
        files.remove(segment_name(first))
    log = reopened(files)
    assert bodies(log) == []
    assert [(each.first, each.last) for each in log.damage] == [(1, 3)]


# Forgetting


def test_segments_go_once_all_their_records_are_forgotten() -> None:
    files = SimFiles()
    log = reopened(files, segment_bytes=60)
    for number in range(1, 9):
        commit(log, b"%d" % number)
    before = len(log.segments)
    log.forget_before(6)
    assert len(log.segments) < before
    assert [number for number, _ in bodies(log)] == [6, 7, 8]
    assert log.read([5, 6]) == [None, b"6"]
    log = reopened(files)
    assert ([number for number, _ in bodies(log)], log.damage) == ([6, 7, 8], [])


def test_forgetting_all_leaves_an_empty_log_that_counts_on() -> None:
    files = SimFiles()
    log = reopened(files)
    commit(log, b"a", b"b")
    log.forget_before(3)
    log = reopened(files)
    assert (bodies(log), log.last) == ([], 2)
    commit(log, b"c")
    assert bodies(reopened(files)) == [(3, b"c")]


def test_a_deleted_segment_that_a_crash_brings_back_is_deleted_again() -> None:
    for seed in range(20):
        files = SimFiles()
        log = reopened(files, segment_bytes=1)
        for number in range(1, 6):
            commit(log, b"%d" % number)
        log.forget_before(4)
        files.cut_power(Random(seed))
        log = reopened(files, segment_bytes=1)
        assert bodies(log) == [(4, b"4"), (5, b"5")]
        assert files.names() == [segment_name(4), segment_name(5), HEADER]


def test_what_is_not_durable_is_not_forgotten_for() -> None:
    log = reopened(SimFiles())
    commit(log, b"a")
    with pytest.raises(ValueError, match="not durable"):
        log.forget_before(3)


# Refusing


def test_a_directory_of_somebody_else_is_refused() -> None:
    files = SimFiles()
    reopened(files)
    with pytest.raises(ConfigError, match="a log of group 'quotes', not of 'orders'"):
        open_log(files, LogOwner("orders", "a"), SALT)
    with pytest.raises(ConfigError, match="the log of 'a', not of 'b'"):
        open_log(files, LogOwner("quotes", "b"), SALT)


@pytest.mark.parametrize("found", [1, 3])
def test_another_format_is_refused(found: int) -> None:
    files = SimFiles()
    reopened(files)
    text = files.read(HEADER).replace(b'"format": 2', b'"format": %d' % found)
    files.replace(HEADER, text)
    with pytest.raises(ConfigError, match=f"the log has format {found}, and this version of Semc"):
        reopened(files)


def test_a_changed_bit_of_the_header_costs_no_record() -> None:
    """A changed salt had the last segment cut to nothing, a changed base had records forgotten."""
    files = SimFiles()
    log = reopened(files)
    commit(log, *(b"%d" % number for number in range(20)))
    log.forget_before(3)
    log.close()
    whole, segment, kept = files.read(HEADER), files.read(segment_name(1)), bodies(log)
    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            files.replace(HEADER, bytes(changed))
            try:
                log = reopened(files)
            except (ConfigError, StorageError):
                continue
            finally:
                assert files.read(segment_name(1)) == segment
            assert (bodies(log), log.damage) == (kept, [])  # It was a space between two fields.


@pytest.mark.parametrize("text", [b"", b"{}", b'{"format": 2}', b"\xff", b'{"format": "2"}'])
def test_a_damaged_header_is_refused(text: bytes) -> None:
    files = SimFiles()
    reopened(files)
    files.replace(HEADER, text)
    with pytest.raises(StorageError, match=r"header log\.json of the log is damaged"):
        reopened(files)


def test_files_without_a_header_are_refused() -> None:
    files = SimFiles()
    files.append("thesis.txt", b"mine")
    with pytest.raises(ConfigError, match=r"has files, such as 'thesis\.txt', but no log\.json"):
        reopened(files)


def test_the_header_says_whose_it_is() -> None:
    files = SimFiles()
    reopened(files)
    header = decode_header(files.read(HEADER))
    assert (header.format, header.group, header.owner, header.base) == (2, "quotes", "a", 1)


class FailingFiles(SimFiles):
    fails = ""

    def append(self, name: str, data: bytes | bytearray) -> None:
        if self.fails == "append":
            super().append(name, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        super().append(name, data)

    def sync(self, name: str) -> None:
        if self.fails == "sync":
            raise OSError(5, "Input/output error")
        super().sync(name)


@pytest.mark.parametrize("call", ["append", "sync"])
def test_after_a_failure_nothing_is_tried_again(call: str) -> None:
    files = FailingFiles()
    log = open_log(files, OWNER, SALT)
    commit(log, b"durable")
    files.fails = call
    with pytest.raises(OSError, match=r"No space|Input"):
        commit(log, b"lost")
    files.fails = ""
    header = files.read(HEADER)
    for attempt in (log.sync, lambda: log.forget_before(1), lambda: commit(log, b"more")):
        with pytest.raises(StorageError, match="the log has ended"):
            attempt()
    log.close()
    assert files.read(HEADER) == header
    assert bodies(reopened(files))[0] == (1, b"durable")


def test_verify_reads_everything_and_changes_nothing() -> None:
    files = SimFiles()
    log = reopened(files)
    commit(log, b"a", b"b", b"c")
    commit(log, b"d")
    files._files[segment_name(1)].data[2 * HEAD.size + 1] ^= 1
    files.append(segment_name(1), b"garbage")
    before = {name: files.read(name) for name in files.names()}
    log, count = verify_log(files)
    assert (count, sorted(each.is_torn for each in log.damage)) == (3, [False, True])
    assert before == {name: files.read(name) for name in files.names()}
    with pytest.raises(StorageError, match="there is no log"):
        verify_log(SimFiles())
