"""Stable storage of a live machine: real files, one thread, and disks that fail on purpose."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.disk.log_header import HEADER, LogOwner
from semcast.disk.segment_log import verify_log
from semcast.runtime.storage import durable_log
from semcast.runtime.storage.directory_files import DirectoryFiles
from semcast.runtime.storage.durable_log import DurableLog
from semcast.sim.files import SimFiles
from semcast.terms.errors import ConfigError, StorageError
from semcast.terms.records import ReadRequest, ReadResult

OWNER = LogOwner("quotes", "a")


class Note(msgspec.Struct, frozen=True, array_like=True, tag=1):
    text: str


class User:
    """A driver that only takes notes."""

    def __init__(self) -> None:
        self.tickets: list[int] = []
        self.errors: list[Exception] = []
        self.results: list[ReadResult] = []
        self.changed = asyncio.Event()

    def on_persisted(self, ticket: int) -> None:
        self.tickets.append(ticket)
        self.changed.set()

    def on_read(self, result: ReadResult) -> None:
        self.results.append(result)
        self.changed.set()

    def on_disk_failed(self, error: Exception) -> None:
        self.errors.append(error)
        self.changed.set()

    async def until(self, ticket: int) -> None:
        async with asyncio.timeout(10):
            while not (self.tickets and self.tickets[-1] >= ticket):
                self.changed.clear()
                await self.changed.wait()


class SlowFiles(SimFiles):
    """A sync lasts until the test lets it end; it may fail then."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = Event(), Event()
        self.may_end.set()
        self.error: OSError | None = None
        self.room = 1 << 20

    def append(self, name: str, data: bytes | bytearray) -> None:
        super().append(name, data[: self.room])
        if len(data) > self.room:
            raise OSError(28, "No space left on device")

    def sync(self, name: str) -> None:
        self.begun.set()
        assert self.may_end.wait(10)
        if self.error is not None:
            raise self.error
        super().sync(name)


def notes(*tickets: int) -> Sequence[tuple[int, Note]]:
    return [(ticket, Note(str(ticket))) for ticket in tickets]


async def opened(path: Path, files: Any = None, **options: Any) -> tuple[DurableLog, User]:
    log, user = await DurableLog.open(path, OWNER, Note, files=files, **options), User()
    log.connect(user)
    return log, user


async def test_records_are_durable_and_found_by_the_next_life(tmp_path):
    log, user = await opened(tmp_path / "new" / "a")
    log.append(notes(1, 2, 3))
    assert user.tickets == []  # never from inside
    await user.until(3)
    log.append(notes(4))
    await log.close()
    assert user.tickets == [3, 4]
    log, _ = await opened(tmp_path / "new" / "a")
    assert [note.text for note in log.records] == ["1", "2", "3", "4"]
    assert [number for number, _ in log.records.numbered()] == [1, 2, 3, 4]
    assert (log.records.last, log.records.missing) == (4, [])
    await log.close()
    assert (tmp_path / "new" / "a").stat().st_mode & 0o777 == 0o700


async def test_records_gather_while_a_sync_runs_and_share_the_next(tmp_path):
    files = SlowFiles()
    log, user = await opened(tmp_path, files)
    files.may_end.clear()
    log.append(notes(1))
    assert await asyncio.to_thread(files.begun.wait, 10)
    for ticket in range(2, 102):
        log.append(notes(ticket))
    assert user.tickets == []
    files.may_end.set()
    await user.until(101)
    assert (user.tickets, log.syncs) == ([1, 101], 2)
    await log.close()


@pytest.mark.parametrize("why", ["sync", "full"])
async def test_a_failure_is_told_once_and_ends_the_log(tmp_path, why, caplog):
    files = SlowFiles()
    log, user = await opened(tmp_path, files)
    log.append(notes(1))
    await user.until(1)
    if why == "sync":
        files.error = OSError(5, "Input/output error")
    else:
        files.room = 10
    log.append(notes(2))
    await user.changed.wait()
    await log.flush()
    files.error, files.room = None, 1 << 20
    log.append(notes(3))  # as if nothing had happened: refused
    log.forget_before(2)
    await log.close()
    assert user.tickets == [1]
    [told] = map(str, user.errors)
    advice = "; free some space there, then start this process again"
    reason = "Input/output error" if why == "sync" else "No space left on device"
    advised = f"{tmp_path}{'' if why == 'sync' else advice}"
    assert told == f"stable storage failed: {reason} in {advised}"
    log, _ = await opened(tmp_path, files)
    assert [note.text for note in log.records] in (["1"], ["1", "2"])
    await log.close()


async def test_what_comes_after_a_failure_and_before_it_is_told_is_not_written(tmp_path):
    files = SlowFiles()
    log, user = await opened(tmp_path, files)
    files.may_end.clear()
    files.error = OSError(5, "Input/output error")
    log.append(notes(1))
    log.append(notes(2))
    files.may_end.set()
    await log.flush()
    assert (user.tickets, len(user.errors), files.syncs) == ([], 1, 0)
    await log.close()


async def test_tickets_of_a_machine_that_was_replaced_are_not_told(tmp_path):
    files = SlowFiles()
    log, old = await opened(tmp_path, files)
    files.may_end.clear()
    log.append(notes(7))
    new = User()
    log.connect(new)
    log.append(notes(1))
    files.may_end.set()
    await new.until(1)
    assert (old.tickets, new.tickets) == ([], [1])
    assert [note.text for note in log.records] == ["7", "1"]
    await log.close()


async def test_forgetting_deletes_segments_once_the_record_is_durable(tmp_path):
    log, user = await opened(tmp_path, segment_bytes=1)
    for ticket in range(1, 6):
        log.append(notes(ticket))
        await user.until(ticket)
    log.append(notes(6))
    log.forget_before(6)
    await user.until(6)
    await log.close()
    assert sorted(path.name for path in tmp_path.glob("*.segment")) == [f"{6:020d}.segment"]
    log, _ = await opened(tmp_path)
    assert [*log.records.numbered()] == [(6, Note("6"))]
    await log.close()


async def test_records_are_read_between_two_syncs(tmp_path):
    log, user = await opened(tmp_path, segment_bytes=100)
    for first in range(1, 40, 4):
        log.append(notes(*range(first, first + 4)))
        await user.until(first + 3)
    log.forget_before(3)
    log.append(notes(41))
    log.read([ReadRequest((1, 3, 40, 99), "some"), ReadRequest((17,), "one")])
    assert user.results == []  # never from inside
    async with asyncio.timeout(10):
        while len(user.results) < 2 or user.tickets[-1] < 41:
            user.changed.clear()
            await user.changed.wait()
    assert user.results == [
        ReadResult({3: Note("3"), 40: Note("40")}, "some"),
        ReadResult({17: Note("17")}, "one"),
    ]
    await log.close()


async def test_a_machine_that_is_replaced_gets_no_answer(tmp_path):
    log, user = await opened(tmp_path)
    log.append(notes(1))
    await user.until(1)
    log.read([ReadRequest((1,), "first"), ReadRequest((1,), "second")])
    other = User()
    log.connect(other)
    log.append(notes(2))
    await other.until(2)
    assert (user.results, other.results) == ([], [])
    await log.close()


async def test_a_directory_in_use_or_of_somebody_else_is_refused(tmp_path):
    log, _ = await opened(tmp_path)
    with pytest.raises(ConfigError, match="is in use by another process"):
        await opened(tmp_path)
    await log.close()
    with pytest.raises(ConfigError, match="a log of group 'quotes', not of 'orders'"):
        await DurableLog.open(tmp_path, LogOwner("orders", "a"), Note)
    log, _ = await opened(tmp_path)  # A refusal keeps no lock.
    await log.close()


async def test_the_names_of_new_directories_are_durable(tmp_path, monkeypatch):
    synced = set()

    def fsync(file):
        synced.add(os.fstat(file).st_ino)
        sync(file)

    sync = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)
    place = tmp_path / "stores" / "quotes" / "a"
    log, _ = await opened(place)
    await log.close()
    assert {each.stat().st_ino for each in (tmp_path, *place.parents[:2], place)} <= synced
    synced.clear()
    with DirectoryFiles(place):
        assert not synced  # There is a log, so its names were durable before.


async def test_who_is_cancelled_while_a_log_is_opened_gives_the_directory_back(
    tmp_path, monkeypatch
):
    begun, may_go_on = Event(), Event()

    class SlowDirectory(DirectoryFiles):
        def __init__(self, path):
            begun.set()
            assert may_go_on.wait(10)
            super().__init__(path)

    monkeypatch.setattr(durable_log, "DirectoryFiles", SlowDirectory)
    opening = asyncio.create_task(opened(tmp_path))
    assert await asyncio.to_thread(begun.wait, 10)
    opening.cancel()
    await asyncio.sleep(0.01)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    log, _ = await opened(tmp_path)
    await log.close()


async def test_who_is_cancelled_while_a_log_is_closed_gives_the_directory_back(
    tmp_path, monkeypatch
):
    begun, may_go_on = Event(), Event()

    def fsync(file):
        begun.set()
        assert may_go_on.wait(10)
        sync(file)

    log, _ = await opened(tmp_path)
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)
    log.append(notes(1))
    closing = asyncio.create_task(log.close())
    assert await asyncio.to_thread(begun.wait, 10)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(ConfigError, match="in use by another process"):
        await opened(tmp_path)
    may_go_on.set()
    async with asyncio.timeout(10):
        while True:
            with suppress(ConfigError):
                log, _ = await opened(tmp_path)
                break
            await asyncio.sleep(0.01)
    assert log.records.last == 1
    await log.close()


def test_a_program_that_ends_while_a_log_is_opened_gives_the_directory_back(tmp_path, monkeypatch):
    """At its end `asyncio.run` cancels all tasks at once."""
    begun, may_go_on = Event(), Event()

    class SlowDirectory(DirectoryFiles):
        def __init__(self, path):
            begun.set()
            assert may_go_on.wait(10)
            super().__init__(path)

    async def end_early():
        opening = asyncio.create_task(opened(tmp_path))
        assert await asyncio.to_thread(begun.wait, 10)
        asyncio.get_running_loop().call_later(0.05, may_go_on.set)
        return opening

    async def open_again():
        log, _ = await opened(tmp_path)
        await log.close()

    monkeypatch.setattr(durable_log, "DirectoryFiles", SlowDirectory)
    assert asyncio.run(end_early()).cancelled()
    asyncio.run(open_again())


async def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"data: cannot use .*: Not a directory"):
        await opened(tmp_path / "file" / "a")


async def test_a_record_of_another_version_is_refused_not_skipped(tmp_path):
    log, user = await opened(tmp_path)
    log.append([(1, ("no", "note"))])
    await user.until(1)
    with pytest.raises(StorageError, match="cannot decode record 1 of the log, which is undamaged"):
        list(log.records)
    await log.close()


async def test_damage_is_reported_and_hides_nothing(tmp_path, caplog):
    log, user = await opened(tmp_path)
    for ticket in (1, 2, 3):
        log.append(notes(ticket))
        await user.until(ticket)
    await log.close()
    [segment] = tmp_path.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    log = await DurableLog.open(tmp_path, OWNER, Note)
    assert [note.text for note in log.records] == ["1", "3"]
    assert log.records.missing == [(2, 2)]
    log.connect(User())
    assert "records 2 to 2 cannot be read" in caplog.text
    await log.close()


class CutFiles(SimFiles):
    """The power goes out at an operation: from then on every one fails, until it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def _use(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(5, "Input/output error")

    def append(self, name: str, data: bytes | bytearray) -> None:
        self._use()
        super().append(name, data)
        self._use()

    def sync(self, name: str) -> None:
        self._use()
        super().sync(name)

    def sync_names(self) -> None:
        self._use()
        super().sync_names()

    def replace(self, name: str, data: bytes) -> None:
        self._use()
        super().replace(name, data)


async def live_through(steps: list[tuple[str, int]], seed: int) -> None:
    """Append, wait, cut the power; what was reported is there afterwards, and nothing else."""
    files, rng, fresh, said = CutFiles(), Random(seed), count(), dict[int, str]()
    log, user = await opened(Path("unused"), files, segment_bytes=200)
    for step, argument in [*steps, ("restart", 0)]:
        if step == "append":
            for _ in range(argument):
                number = log.records.last + 1 if not said else max(said) + 1
                said[number] = str(next(fresh))
                log.append([(number, Note(said[number]))])
        elif step == "turn":
            await asyncio.sleep(0)
        elif step == "wait":
            await log.flush()
        elif step == "cut":
            files.left = argument
        if step != "restart" and not user.errors:
            continue
        await log.close()
        reported = max(user.tickets, default=0)
        files.left = None
        files.cut_power(rng)
        log, user = await opened(Path("unused"), files, segment_bytes=200)
        found = {number: note.text for number, note in log.records.numbered()}
        assert [*found] == [*range(1, len(found) + 1)]
        assert found.items() <= said.items()
        assert len(found) >= reported
        said = found
        user.tickets.append(len(found))
    await log.close()


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 5)),
            st.tuples(st.sampled_from(("turn", "wait", "wait", "restart")), st.just(0)),
            st.tuples(st.just("cut"), st.integers(0, 8)),
        ),
        max_size=20,
    ),
    seed=st.integers(0, 2**32),
)
def test_what_was_reported_survives_any_power_cut(steps, seed):
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(live_through(steps, seed))
    finally:
        logging.disable(logging.NOTSET)


CHILD = """
import asyncio, sys
from pathlib import Path
from semcast.disk.log_header import LogOwner
from semcast.runtime.storage.durable_log import DurableLog

class User:
    def on_persisted(self, ticket):
        print(ticket, flush=True)

async def main():
    log = await DurableLog.open(Path(sys.argv[1]), LogOwner("quotes", "a"), int, segment_bytes=5000)
    log.connect(User())
    ticket = log.records.last
    while True:
        for _ in range(20):
            ticket += 1
            log.append([(ticket, ticket)])
        await asyncio.sleep(0)

asyncio.run(main())
"""


def test_what_was_reported_survives_kill_9(tmp_path):
    reported = 0
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, env=os.environ
        ) as child:
            assert child.stdout is not None
            start = reported
            for line in child.stdout:
                reported = int(line)
                if reported > start + 200:
                    break
            child.kill()
        with DirectoryFiles(tmp_path) as files:
            log, records = verify_log(files)
            assert not [each for each in log.damage if not each.is_torn]
            assert records == log.last >= reported
            assert all(number == msgspec.msgpack.decode(body) for number, body in log.bodies())


def test_files_of_a_directory_do_what_the_log_asks(tmp_path):
    with DirectoryFiles(tmp_path) as files:
        files.append("x", b"abc")
        files.append("x", b"def")
        assert (files.read("x"), files.read("x", 2), files.read("x", 2, 3)) == (
            *(b"abcdef", b"cdef"),
            b"cde",
        )
        assert (files.read("x", 9), files.read("x", 0, 0), files.size("x")) == (b"", b"", 6)
        files.truncate("x", 4)
        files.sync("x")
        files.append("y", b"1")
        files.append("x", b"!")
        assert files.read("x") == b"abcd!"
        files.replace(HEADER, b"{}")
        files.replace(HEADER, b"[]")
        assert files.read(HEADER) == b"[]"
        files.remove("y")
        assert files.names() == ["lock", HEADER, "x"]
