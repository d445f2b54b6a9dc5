"""A lake: many traces and keyed files in one directory that reads like a single trace.

    LAKE/current -> snapshots/00000007       the one link that says what the lake holds
    LAKE/runs.parquet -> current/runs.parquet, and so for every table
    LAKE/snapshots/00000007/lake.json        its batches
    LAKE/snapshots/00000007/events/kind=KIND/batch=BATCH/*.parquet
    LAKE/staging                             what a writer prepares; nobody reads it

A snapshot is never changed.  A writer stages its files, makes the next snapshot of hard links to
them and to the files of the last one, and then replaces the link `current`, which is atomic: killed
anywhere, the lake is as before or as after, for every reader, and whoever writes next clears what
was left.  A reader that resolves `current` first (`read_trace` does) keeps its snapshot until
`vacuum`.  The files are synced before the link names them.  Rule: docs/decisions/0018-lake.md.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from shutil import rmtree
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile
from semcast.traces.files import (
    FILE_MODE,
    FOLDER_MODE,
    LAKE_TABLES,
    new_file,
    new_folder,
    refuse_links,
)
from semcast.traces.schema import (
    CURRENT,
    EVENTS,
    SNAPSHOTS,
)
from semcast.traces.tables import check_kinds

FORMAT: Final = 1
STAGING: Final = "staging"
_MANIFEST: Final = "lake.json"
_OURS: Final = {*LAKE_TABLES, CURRENT, f"{CURRENT}.new", SNAPSHOTS, STAGING}

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LakeBatch(msgspec.Struct, frozen=True):
    """What came in at once.  `id` follows from the content and the options alone."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,64}$")]
    source: str
    options: dict[str, str]
    files: _Count
    runs: _Count
    rows: _Count
    quarantined: _Count


class LakeSnapshot(msgspec.Struct, frozen=True):
    """What a lake holds, and held at no other number."""

    format: int
    number: _Count
    batches: list[LakeBatch] = []


class VacuumResult(NamedTuple):
    """What no snapshot that is read any more names."""

    files: int
    bytes: int


class Lake:
    """A directory.  Writers take turns; `step` is called between the steps of a commit with the
    name of the one that is done, for whoever wants to fail there."""

    def __init__(self, path: str | Path, step: Callable[[str], None] = lambda name: None) -> None:
        self.path = Path(path).absolute()
        self.step = step

    @property
    def root(self) -> Path:
        """The current snapshot."""
        return (self.path / CURRENT).resolve()

    def snapshot(self) -> LakeSnapshot:
        """What the lake holds."""
        refuse_links(self.path)
        manifest = self.root / _MANIFEST
        if not manifest.is_file():
            raise BadFile(f"{self.path}: not a lake; semcast lake ingest makes one")
        try:
            found = msgspec.json.decode(manifest.read_bytes(), type=LakeSnapshot)
        except msgspec.DecodeError as error:
            raise BadFile(f"{manifest}: damaged: {error}") from None
        if found.format != FORMAT:
            raise BadFile(f"{manifest}: a lake of format {found.format}, this is {FORMAT}")
        if self.root.name != _name(found.number):
            raise BadFile(f"{manifest}: damaged: it says that it is number {found.number}")
        check_kinds(self.root / EVENTS)
        return found

    def files(self) -> list[Path]:
        """Every file of the current snapshot, relative to it."""
        root = self.root
        return sorted(path.relative_to(root) for path in _files(root))

    @contextmanager
    def exclusive_write(self, *, create: bool = False) -> Iterator[Path]:
        """Write alone in this block; the path is an empty folder to prepare files in."""
        if create:
            self._refuse_others()
            new_folder(self.path)
        elif not (self.path / CURRENT).is_symlink():
            raise BadFile(f"{self.path}: not a lake; semcast lake ingest makes one")
        with self._lock():
            refuse_links(self.path)
            self._establish()
            try:
                yield self._new_staging()
            except Exception:
                rmtree(self.path / STAGING)
                raise
            rmtree(self.path / STAGING)

    def commit(
        self,
        batches: list[LakeBatch],
        added: Mapping[Path, Path],
        without: Collection[Path] = (),
    ) -> LakeSnapshot:
        """Make the next snapshot current: these batches, the files of the last one but for
        `without`, and those `added` (place in the snapshot → staged file)."""
        root = self.root
        following = LakeSnapshot(FORMAT, self.snapshot().number + 1, batches)
        new = self.path / STAGING / "snapshot"
        remaining = set(self.files()) - set(without)
        for table in LAKE_TABLES:
            (new / table).mkdir(parents=True)
        for place, file in {**{place: root / place for place in remaining}, **added}.items():
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            os.link(file, new / place)
        for file in added.values():
            file.chmod(FILE_MODE)  # Spark has written them for all to read.
            _sync(file)
        self.step("linked")
        self._publish(new, following)
        return following

    def vacuum(self) -> VacuumResult:
        """Delete the files and snapshots that the current one does not name."""
        with self.exclusive_write():
            current = self.root.name
            files, size = 0, 0
            for place in sorted((self.path / SNAPSHOTS).iterdir()):
                if place.name != current:
                    dropped = [path.stat() for path in _files(place)]
                    rmtree(place)
                    # A link fewer; the file is gone with the last one.
                    gone = [each for each in dropped if each.st_nlink == 1]
                    files += len(gone)
                    size += sum(each.st_size for each in gone)
            return VacuumResult(files, size)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = os.open(self.path, os.O_RDONLY)
        try:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"lake: somebody else writes to {self.path}; try again") from None
            yield
        finally:
            os.close(lock)

    def _refuse_others(self) -> None:
        """Nothing is laid into a directory that holds something else."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"lake: {self.path} is a file, must be a directory")
        others = {each.name for each in self.path.iterdir()} if self.path.is_dir() else set()
        is_new = not (self.path / CURRENT).is_symlink()
        if is_new and not others <= _OURS:
            raise ConfigError(f"lake: {self.path} holds something else, must be new or empty")
        if is_new and any((self.path / table).exists() for table in LAKE_TABLES):
            raise ConfigError(f"lake: {self.path} holds a trace, must be new or empty")

    def _establish(self) -> None:
        """An empty lake, unless there is one."""
        if not (self.path / CURRENT).is_symlink():
            new = self._new_staging() / "snapshot"
            for table in LAKE_TABLES:
                (new / table).mkdir(parents=True)
            self._publish(new, LakeSnapshot(FORMAT, 0))
        for table in LAKE_TABLES:
            with suppress(FileExistsError):
                (self.path / table).symlink_to(Path(CURRENT, table))

    def _new_staging(self) -> Path:
        staging = self.path / STAGING
        rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=FOLDER_MODE)
        return staging

    def _publish(self, new: Path, snapshot: LakeSnapshot) -> None:
        new_file(new / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(snapshot)))
        for path in (new / _MANIFEST, *(each for each in new.rglob("*") if each.is_dir()), new):
            _sync(path)
        place = Path(SNAPSHOTS, _name(snapshot.number))
        (self.path / SNAPSHOTS).mkdir(exist_ok=True)
        rmtree(self.path / place, ignore_errors=True)  # of a writer that was killed right here
        new.rename(self.path / place)
        _sync(self.path / SNAPSHOTS)
        self.step("named")
        link = self.path / f"{CURRENT}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(place)
        link.replace(self.path / CURRENT)
        _sync(self.path)
        self.step("switched")


def _name(number: int) -> str:
    return f"{number:08}"


def _files(snapshot: Path) -> Iterator[Path]:
    """Tables are folders whose names end like those of files."""
    return (path for path in snapshot.rglob("*.parquet") if path.is_file())


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
