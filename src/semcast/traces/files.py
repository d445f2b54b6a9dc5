"""Files and folders of a trace, a lake or a sweep: private, and read without following links out.

Such a directory may come from an untrusted source.  Before anything in it is read or written,
entries that could lead out of it are refused with an error that names them: symbolic links, and
everything that is neither a file nor a directory.
The directory itself may be reached through a link, because the user named it.  The links that a
lake is made of are allowed, if they say exactly what a lake writes.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final

from semcast.traces.errors import BadFile
from semcast.traces.schema import (
    CURRENT,
    EVENTS,
    ITEMS,
    PROCESSES,
    QUARANTINE,
    RUNS,
    SNAPSHOTS,
)

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
UNFINISHED: Final = ".unfinished-"  # begins the name of a file until it is whole

_SNAPSHOT: Final = re.compile(rf"{SNAPSHOTS}/[0-9]{{8,18}}")
LAKE_TABLES: Final = (RUNS, PROCESSES, ITEMS, EVENTS, QUARANTINE)


def new_file(path: Path) -> Path:
    """Create an empty file that only its owner can read, in place of what has that name."""
    path.unlink(missing_ok=True)  # Of a link this removes the link, not what it leads to.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(file, FILE_MODE)  # Whatever the umask is.
    finally:
        os.close(file)
    return path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A hidden file beside `path` to write to, which takes its place whole or not at all.  Only its
    owner can read it."""
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        yield new_file(unfinished)
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            unfinished.unlink()
        raise
    _fsync_directory(path.parent)


def _fsync_directory(folder: Path) -> None:
    """A name is on the disk only when its directory is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_folder(path: Path) -> None:
    """Create a folder that only its owner can enter, and its parents as usual; or leave it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)


def open_file(path: Path) -> int:
    """A descriptor to read a file with; a link or a pipe is a `BadFile`."""
    try:
        # Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        if path.is_symlink():
            raise _link(path) from None
        raise
    if not S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise BadFile(f"{path}: not a file")
    return file


def refuse_links(root: Path) -> None:
    """Raise `BadFile` if anything below a directory leads out of it; none at all is fine."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        # Others may be at work here and remove what they no longer need.
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = folder / entry.name
                if entry.is_symlink():
                    if folder != root or not _is_of_a_lake(path):
                        raise _link(path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif not entry.is_file(follow_symlinks=False) and path.exists():
                    raise BadFile(f"{path}: neither a file nor a directory; move it away")


def _is_of_a_lake(link: Path) -> bool:
    target = os.readlink(link)
    if link.name in (CURRENT, f"{CURRENT}.new"):
        return _SNAPSHOT.fullmatch(target) is not None
    return link.name in LAKE_TABLES and target == f"{CURRENT}/{link.name}"


def _link(path: Path) -> BadFile:
    return BadFile(
        f"{path}: a symbolic link, which is not followed; put what it leads to in its place"
    )
