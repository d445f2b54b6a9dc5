"""From journals to Parquet, when a process ends or when the next reader comes.

Each life of a process becomes files of its own, written aside and moved into place; then its
journal is removed.  If a conversion is interrupted, the journal stays, and the next reader repeats
it with the same result.  A lock on the folder makes readers take turns; the lock that a living
process holds on its journal keeps them off it.

A trace needs no launcher.  Without one, the journals' headers describe the run, it is not
`complete`, and a process is `correct` if it closed its journal.  A launcher that knows more calls
`write_run`.
Distances (`dist`) are known where the process itself multicast the message, and null elsewhere.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from msgspec.structs import replace

from semcast.terms.events import (
    CRASH,
    DELIVER,
    EVENT_FIELDS,
    FIRST,
    LATER,
    MULTICAST,
    VIEWS,
    Event,
    in_journal,
)
from semcast.terms.ids import PID_MAX
from semcast.terms.messages import DataMessage
from semcast.terms.promises import QUORUM_SETS
from semcast.traces.distance_tracker import DistanceTracker
from semcast.traces.errors import BadFile
from semcast.traces.event_rows import ROW, EventRow, row_of
from semcast.traces.files import FOLDER_MODE, new_folder, open_file, refuse_links
from semcast.traces.journal_file import (
    SUFFIX,
    JournalBatch,
    JournalEvent,
    JournalHeader,
    JournalViewFields,
    read_journal,
)
from semcast.traces.pid_numbering import PidNumbering
from semcast.traces.schema import (
    EVENT_COLUMNS,
    EVENTS,
    ITEM_COLUMNS,
    ITEMS,
    JOURNALS,
    PROCESS_COLUMNS,
    PROCESSES,
    RUNS,
    RunInfo,
    arrow_schema,
)
from semcast.traces.tables import (
    event_table,
    event_writer,
    kind_folder,
    read_rows,
    write_runs,
    write_table,
)

_ROW_GROUP: Final = 65_536
_VALUES_MAX: Final = 1 << 22
_FIRST, _LATER, _VIEWS = (in_journal(part) for part in (FIRST, LATER, VIEWS))
_PROCESSES: Final = tuple(name for name, column in EVENT_FIELDS.items() if column.is_process)
_COVERS: Final = ROW.index("covers")
PID_DIGITS: Final = len(str(PID_MAX))


def run_id_of(group: str, names: Sequence[str], incarnations: Sequence[int]) -> int:
    """The number of a run that nobody launched, the same at every member."""
    text = "\0".join([group, *(f"{n}\0{i}" for n, i in zip(names, incarnations, strict=True))])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def convert_journals(directory: str | Path) -> list[Path]:
    """Make Parquet of the journals that processes left; those of living ones are returned.

    Every reader of a trace comes here first.  What leads out of the directory is a `BadFile`, and
    so is a journal that no process can have written; both stay as they are.
    """
    refuse_links(Path(directory))
    folder = Path(directory) / JOURNALS
    return [path for path in sorted(folder.glob(f"*{SUFFIX}")) if not _settle(path)]


def convert_journal(path: Path) -> bool:
    """Make Parquet of one journal, if it is still there; False if its process lives."""
    refuse_links(path.parent.parent)
    return _settle(path)


def _settle(path: Path) -> bool:
    with _directory_lock(path.parent):
        try:
            file = open_file(path)
        except FileNotFoundError:
            return True
        try:
            flock(file, LOCK_EX | LOCK_NB)
            _convert(path)
            path.unlink()
        except BlockingIOError:
            return False
        finally:
            os.close(file)
    return True


def write_run(
    directory: str | Path,
    run: RunInfo,
    names: Sequence[str] | Mapping[int, str],
    *,
    complete: bool,
    crashes: Mapping[int, int] | None = None,
) -> None:
    """What only who launched a run knows, said once its processes have ended.

    `names` are the processes' by pid, with views by the number each has for itself; `crashes` has
    the time in ns of each process that crashed or was killed; `complete`: the run was left to fall
    quiet.  What the members said of the run themselves is in `read_runs`, from which a launcher
    may start:

        [run] = read_runs(directory)
        write_run(directory, replace(run, name="demo"), names, complete=True)
    """
    path, run_id, crashes = Path(directory), run.run_id, crashes or {}
    convert_journals(path)
    new_folder(path)
    new_folder(path / JOURNALS)
    with _directory_lock(path / JOURNALS), _temporary_dir(path / JOURNALS / str(run_id)) as aside:
        numbering, named = None, names
        if isinstance(named, Mapping):
            numbering = PidNumbering(path / JOURNALS, run_id)
            numbering.assign((name, pid) for pid, name in named.items())
            numbering.save()
        else:
            named = dict(enumerate(named))
        for pid, name in named.items():
            row = (run_id, numbering.of(pid) if numbering else pid, name, pid not in crashes)
            write_table(aside / "new", PROCESS_COLUMNS, [row])
            _publish(aside / "new", path / PROCESSES / f"{run_id}-{pid}.parquet")
        for pid, ts_ns in crashes.items():
            number = numbering.of(pid) if numbering else pid
            _write_crash(path, aside / "new", run, (pid, number), ts_ns)
        write_runs(aside / "new", run, complete=complete)
        _publish(aside / "new", path / RUNS / f"{run_id}.parquet")


@contextmanager
def _directory_lock(folder: Path) -> Iterator[None]:
    """Only one process at a time changes what is beside the journals."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        flock(lock, LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def _temporary_dir(folder: Path) -> Iterator[Path]:
    """A new folder for files that are not yet what they will be."""
    rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        raise _in_the_way(folder) from None
    try:
        yield folder
    finally:
        rmtree(folder)


def _publish(new: Path, path: Path, *, unless_there: bool = False) -> None:
    try:
        new_folder(path.parent)
        if not (unless_there and path.exists()):
            new.replace(path)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise _in_the_way(path) from None


def _in_the_way(path: Path) -> BadFile:
    return BadFile(f"{path}: not what a trace has at this place; move it away")


def _convert(path: Path) -> None:
    """Write everything that a journal says."""
    header, batches = read_journal(path)
    root, run_id, stem = path.parent.parent, header.run_id, header.stem
    names: dict[int, str] = {}
    closed = False
    numbering = _numbering(path.parent, run_id) if header.has_views else None
    number = numbering.of(header.pid) if numbering else header.pid
    with _temporary_dir(path.parent / stem) as aside:
        with _EventFiles(aside, header, numbering) as files:
            for batch in batches:
                files.append(batch)
                names.update(batch.names)
                closed = batch.last
        run = _run_of(header, numbering)
        if numbering is not None:
            numbering.save()
        with suppress(FileExistsError):
            (root / EVENTS).mkdir(mode=FOLDER_MODE)
        for kind in files.kinds:
            _publish(aside / kind, kind_folder(root / EVENTS, kind) / f"{stem}.parquet")
        _add_names(root, aside / "new", header, names)
        process = (run_id, number, header.name, closed)
        write_table(aside / "new", PROCESS_COLUMNS, [process])
        target = root / PROCESSES / f"{run_id}-{header.pid}.parquet"
        _publish(aside / "new", target, unless_there=True)
        write_runs(aside / "new", run, complete=False)
        _publish(aside / "new", root / RUNS / f"{run_id}.parquet", unless_there=True)


def _numbering(folder: Path, run_id: int) -> PidNumbering:
    """The numbers of a run, those included whose journals wait here."""
    headers = [read_journal(path)[0] for path in folder.glob(f"{run_id}-*{SUFFIX}")]
    numbering = PidNumbering(folder, run_id)
    numbering.assign((header.name, header.pid) for header in headers)
    return numbering


def _run_of(header: JournalHeader, numbering: PidNumbering | None) -> RunInfo:
    parameters = header.parameters
    if numbering is None:
        parameters = {**parameters, "members": str(len(header.names))}
    elif quorums := parameters.get(QUORUM_SETS):
        numbered = [
            " ".join(_number_of(pid, numbering) for pid in quorum.split())
            for quorum in quorums.split(",")
        ]
        parameters = {**parameters, QUORUM_SETS: ", ".join(numbered)}
    return RunInfo(
        name=header.group,
        protocol=header.protocol,
        order=header.order,
        relation=header.relation,
        f=header.f,
        seed=0,
        run_id=header.run_id,
        parameters=parameters,
    )


def _number_of(pid: str, numbering: PidNumbering) -> str:
    """The number of a server in the trace; what no server can have as its number stays."""
    is_one = pid.isdecimal() and len(pid) <= PID_DIGITS
    return str(numbering.of(int(pid))) if is_one else pid


def _add_names(root: Path, new: Path, header: JournalHeader, names: Mapping[int, str]) -> None:
    """Name the items that no other process of the run has named."""
    known: set[int] = set()
    others = [
        path
        for path in (root / ITEMS).glob(f"{header.run_id}-*.parquet")
        if path.stem != header.stem
    ]
    for path in others:
        known.update(row["item"] for row in read_rows(path, {"item": ITEM_COLUMNS["item"]}))
    rows = [(header.run_id, i, name) for i, name in sorted(names.items()) if i not in known]
    if rows:
        write_table(new, ITEM_COLUMNS, rows)
        _publish(new, root / ITEMS / f"{header.stem}.parquet")


class _EventFiles:
    """The events of one journal, a file for each kind; holds at most a row group of each, and not
    more than `_VALUES_MAX` values in all lists."""

    def __init__(self, folder: Path, header: JournalHeader, numbering: PidNumbering | None) -> None:
        self.kinds: dict[str, Any] = {}
        self._numbering = numbering
        self._folder = folder
        self._header = header
        self._values = 0
        self._schema = arrow_schema(EVENT_COLUMNS)
        self._distances = DistanceTracker(header.relation)
        self._rows: dict[str, list[EventRow]] = {}
        self._open = ExitStack()
        self._n = 0

    def __enter__(self) -> "_EventFiles":
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            self._flush_all()

    def append(self, batch: JournalBatch) -> None:
        """The next events, of one time."""
        for event, inside in zip_longest(batch.events, batch.inside):
            self._n += 1
            kind = event.kind
            if kind not in self.kinds:
                self._start(kind)
            rows = self._rows[kind]
            whole = _event(event, self._header.pid, self._n, batch.ts_ns)
            if inside is not None and self._numbering is not None:
                _add_view(whole, inside, self._numbering)
            row = row_of(whole, self._distances, _payload(event))
            rows.append(row)
            self._values += len(row[_COVERS] or ()) + len(whole.members) + len(event.deps)
            self._values += len(whole.declared)
            if len(rows) == _ROW_GROUP:
                self._flush(kind)
            if self._values > _VALUES_MAX:  # The bits of a bitmap take far more room as numbers.
                self._flush_all()

    def _start(self, kind: str) -> None:
        self.kinds[kind] = self._open.enter_context(event_writer(self._folder / kind))
        self._rows[kind] = []

    def _flush_all(self) -> None:
        for kind in self.kinds:
            self._flush(kind)
        self._values = 0

    def _flush(self, kind: str) -> None:
        rows, header = self._rows[kind], self._header
        if rows:
            lives = None if header.has_views else header.incarnations
            table = event_table(header.run_id, rows, self._schema, lives)
            self.kinds[kind].write_table(table)
            rows.clear()


def _event(event: JournalEvent, pid: int, n: int, ts_ns: int) -> Event:
    message = None
    has_message = event.kind in (MULTICAST, DELIVER)
    if has_message and event.digest is not None:
        message = DataMessage(
            event.sender, event.seq, event.item, event.covers, event.keep, event.deps
        )
    made = Event(
        pid=pid,
        message=message,
        n=n,
        ts_ns=ts_ns,
        **{name: getattr(event, name) for name in _FIRST},
    )
    for name in _LATER:
        setattr(made, name, getattr(event, name))
    if not has_message and event.digest is not None:
        made.digest = int.from_bytes(event.digest, "big", signed=True)
    return made


def _payload(event: JournalEvent) -> tuple[int, int] | None:
    """Its size and digest."""
    if event.digest is None:
        return None
    return event.size, int.from_bytes(event.digest, "big", signed=True)


def _add_view(event: Event, inside: JournalViewFields, numbering: PidNumbering) -> None:
    """Add what the journal tells of the view, and number all processes as the trace does."""
    for name in _VIEWS:
        setattr(event, name, getattr(inside, name))
    for name in _PROCESSES:
        value = getattr(event, name)
        numbered = numbering.of(value) if isinstance(value, int) else map(numbering.of, value)
        setattr(event, name, numbered if isinstance(numbered, int) else tuple(numbered))
    if event.message is not None:
        event.message = replace(event.message, sender=event.sender)


def _write_crash(root: Path, new: Path, run: RunInfo, process: tuple[int, int], ts_ns: int) -> None:
    """The crash follows the last event that the process recorded before it."""
    pid, number = process  # in the names of files, and in rows
    inc, n = 1, 0
    ends_with = {name: EVENT_COLUMNS[name] for name in ("inc", "n", "ts_ns")}
    for path in (root / EVENTS).glob(f"*/{run.run_id}-{pid}-*.parquet"):
        if path.parent.name != f"kind={CRASH}":
            rows = read_rows(path, ends_with, list(ends_with))
            ends = [(row["inc"], row["n"]) for row in rows if row["ts_ns"] <= ts_ns]
            inc, n = max([(inc, n), *ends])
    row = row_of(Event(CRASH, number, n=n + 1, ts_ns=ts_ns, inc=inc), DistanceTracker(run.relation))
    with event_writer(new) as file:
        file.write_table(event_table(run.run_id, [row], arrow_schema(EVENT_COLUMNS)))
    _publish(new, kind_folder(root / EVENTS, CRASH) / f"{run.run_id}-{pid}-{inc}.parquet")
