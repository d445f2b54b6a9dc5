"""Journals and traces of somebody else, driven by arbitrary bytes: `fuzz.py --files` and
`tests/traces/test_fuzz.py`.

Each target takes one input, makes files of it in a folder of their own, and reads them.  It raises
if a promise was broken: only `BadFile` may escape, what is refused stays as it was, and no file
outside the trace is made or changed.
"""

import atexit
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from zlib import crc32

import msgspec
from fuzz_targets import Script

from semcast.terms.events import DELIVER, KINDS, MULTICAST, Event
from semcast.terms.messages import DataMessage
from semcast.traces.errors import BadFile
from semcast.traces.journal_file import FRAME, MAGIC, read_journal
from semcast.traces.parquet import TraceWriter, read_runs, read_trace
from semcast.traces.schema import RunInfo

MINE = "mine"  # a file beside the trace that nobody but its owner may touch
PATHS = (f"../{MINE}", f"../../{MINE}", f"../../../{MINE}", "..", ".", "", "a/b", "deliver/../x")
NAMES = ("7-0-4", "7-1-5", "7-0-4", "..", ".", "", "x")
NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 1 << 16, 1 << 20, (1 << 20) + 9, 1 << 24),
    *((1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
    *(-1, -2, -(1 << 31), -(1 << 63)),
)
HEADER: dict[str, Any] = {
    "run_id": 7,
    "pid": 0,
    "names": ["a", "b"],
    "incarnations": [4, 5],
    "group": "g",
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "item",
    "f": 0,
    "parameters": {},
    "inc": 0,
}
RELATIONS = ("item", "bitmap", "list", "update-fin", "all", "none", "newest")
EDITS_MAX = 8
PARTS = {"journals", "events", "runs.parquet", "processes.parquet", "items.parquet"}


def journals(data: bytes) -> None:
    """The reader of journals, whose frames are right or mangled."""
    with TemporaryDirectory() as folder:
        path = _write_journal(Path(folder), Script(data))
        try:
            header, batches = read_journal(path)
            for batch in batches:
                assert all(event.kind in KINDS for event in batch.events)
            assert path.name == f"{header.stem}.journal"
        except BadFile as error:
            _check_message(error)


def settling(data: bytes) -> None:
    """Everything from journals to events read back."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "deep" / "trace"
        script = Script(data)
        for _ in range(1 + script.byte() % 2):
            _write_journal(trace / "journals", script)
        if script.byte() & 1:
            (trace / "journals" / "7.pids").write_bytes(script.bytes())
        _read(trace)


def tables(data: bytes) -> None:
    """The readers of Parquet, on a trace of which some bytes were changed."""
    script = Script(data)
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "deep" / "trace"
        copytree(_good_trace(), trace)
        files = sorted(path for path in trace.rglob("*") if path.is_file())
        for _ in range(1 + script.byte() % EDITS_MAX):
            _mangle(files[script.byte() % len(files)], script)
        _read(trace)


TARGETS = (journals, settling, tables)


def one_input(data: bytes) -> None:
    """The first byte names the target, the rest is its script."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def seeds() -> Iterator[bytes]:
    """Inputs that go deep: every kind, every field of a header and of an event."""
    for number in (0, 1):
        first = b"" if number == 0 else b"\0"
        for views in (0, 128):
            for relation in range(len(RELATIONS)):
                yield bytes((number, *first, views | relation, 0, 0, 0)) + bytes(range(60))
            for field in range(2, 40):
                yield bytes((number, *first, views, field, field, field, 0, 2)) + bytes(60)
    for place in range(0, 250, 5):
        yield bytes((2, 0, place % 5, 1, place, 255, place))


def _write_journal(folder: Path, script: Script) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shape = script.byte()
    header = dict(HEADER, relation=RELATIONS[(shape & 127) % len(RELATIONS)])
    has_views = bool(shape & 128)
    if has_views:
        header |= {"names": ["a"], "incarnations": [], "inc": 4}
    if (choice := script.byte()) & 1:
        header[sorted(HEADER)[(choice >> 1) % len(HEADER)]] = _value(script)
    bodies = [header, *(_batch(script, has_views=has_views) for _ in script.several(3))]
    content = MAGIC
    for body in bodies:
        encoded = msgspec.msgpack.encode(body)
        content += FRAME.pack(len(encoded), crc32(encoded)) + encoded
    name = NAMES[max(0, script.byte() - 200) % len(NAMES)]
    path = folder / f"{name}.journal"
    path.write_bytes(content + bytes(script.byte() & 31))
    if script.byte() & 4:
        _mangle(path, script)
    return path


def _batch(script: Script, *, has_views: bool) -> Any:
    events = [_event(script) for _ in script.several(4)]
    inside: list[Any] = [_inside(script) for _ in events] if has_views else []
    batch: list[Any] = [script.byte(), events, [[5, "five"]], bool(script.byte() & 1), inside]
    if (choice := script.byte()) & 16:
        batch[choice % len(batch)] = _value(script)
    return batch


def _event(script: Script) -> list[Any]:
    kind = sorted(KINDS)[script.byte() % len(KINDS)]
    sender = 0 if kind == MULTICAST else script.byte() & 1
    event: list[Any] = [kind, sender, 1 + script.byte(), script.byte() & 3, "", -1, 0]
    if script.byte() & 1:
        covers: Any = script.bytes() if script.byte() & 1 else [1 + script.byte()]
        event += [5, covers, bool(script.byte() & 1), [[0, 1]], 3, bytes(8)]
    return _changed(event, script)


def _inside(script: Script) -> list[Any]:
    return _changed([4, 4, -1, 1, 2, script.byte(), [0, 1]], script)


def _changed(row: list[Any], script: Script) -> list[Any]:
    """Sometimes with one value that it cannot have."""
    if (choice := script.byte()) & 64:
        row[choice % len(row)] = _value(script)
    return row


def _value(script: Script) -> Any:
    choice = script.byte()
    if choice & 3 == 0:
        return PATHS[(choice >> 2) % len(PATHS)]
    if choice & 3 == 1:
        return NUMBERS[(choice >> 2) % len(NUMBERS)]
    if choice & 3 == 2:
        return [NUMBERS[(choice >> 2) % len(NUMBERS)]]
    return (None, b"", bytes(8), {}, [], [[0, -1]], True, 0.5)[(choice >> 2) % 8]


def _mangle(file: Path, script: Script) -> None:
    """Change a byte anywhere, or cut the rest off."""
    content = bytearray(file.read_bytes())
    if not content:
        return
    place = (script.byte() << 8 | script.byte()) % len(content)
    if (value := script.byte()) == 0:
        del content[place:]
    else:
        content[place] ^= value
    file.write_bytes(content)


@cache
def _good_trace() -> Path:
    folder = mkdtemp()
    atexit.register(rmtree, folder)
    run = RunInfo(name="x", protocol="s-rm", order="fifo", relation="bitmap", f=0, seed=1, run_id=7)
    with TraceWriter(Path(folder) / "trace", run, ["a"], items={5: "five"}) as writer:
        for n in range(1, 4):
            message = DataMessage(0, n, 5, b"\1", after=((0, 1),), payload=b"x")
            writer.append([Event(MULTICAST, 0, 0, n, message, n=2 * n, ts_ns=n)])
            writer.append([Event(DELIVER, 0, 0, n, message, n=2 * n + 1, ts_ns=n)])
        writer.close(complete=True)
    return Path(folder) / "trace"


def _read(trace: Path) -> None:
    """Read a trace in every way that needs no Spark."""
    for place in trace.parents[:2]:
        (place / MINE).write_bytes(b"mine")
    outside, journals = _outside(trace), _journals(trace)
    for read in (read_runs, read_trace):
        try:
            read(trace)
        except BadFile as error:
            _check_message(error)
    assert _outside(trace) == outside, "something outside the trace was changed"
    assert {path.name for path in trace.iterdir()} <= PARTS
    left = _journals(trace)
    assert left.items() <= journals.items(), "a journal was changed"
    for name in journals.keys() - left.keys():  # Only what became Parquet may go.
        process = name.rpartition("-")[0]
        assert (trace / "processes.parquet" / f"{process}.parquet").is_file()


def _outside(trace: Path) -> dict[Path, bytes | None]:
    """The files, and the folders, beside the trace."""
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in trace.parents[1].rglob("*")
        if not path.is_relative_to(trace)
    }


def _journals(trace: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in trace.glob("journals/*.journal")}


def _check_message(error: BadFile) -> None:
    assert "\n" not in str(error), "not one line"
    assert len(str(error)) < 2000, "a long story"
