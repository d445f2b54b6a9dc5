"""The control socket: what lets the user of a live member look at it from outside.

Each member listens on a Unix socket of its own, in a directory that only its user may enter.  A
client writes lines; each is answered by one line of JSON: `snapshot` by a `Snapshot`, anything
else by an object with `error`.  Looking never disturbs the member, which answers from memory and
never waits: a client that asks on without reading is cut off, and so is one that says too much at
once; none is heard more than a few dozen times a second; one too many makes the oldest go.

`survey` asks every member of this machine at once.  It removes the file of a process that was
killed: nobody listens there, and the process is gone.
"""

import asyncio
import os
import re
import socket
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple, cast

import msgspec

from semcast.runtime.operations.snapshot import Snapshot
from semcast.terms.errors import ConfigError, unknown_value
from semcast.wire.frames import group_id, member_id

SNAPSHOT: Final = "snapshot"
REQUEST_BYTES_MAX: Final = 256
ANSWER_BYTES_MAX: Final = 1 << 24  # of the largest group
CLIENTS_MAX: Final = 16
REQUEST_INTERVAL_S: Final = 0.02

# The group, the member and the process; hashed, since a socket's path holds 103 bytes on some
# systems and 107 on others, and names may contain anything.
_FILE: Final = re.compile(r"([0-9a-f]{16})-[0-9a-f]{16}-([1-9][0-9]{0,8})")
_FILE_BYTES_MAX: Final = 43
_PATH_BYTES_MAX: Final = 103


class ControlServer:
    """Answers for one member, from `start` to `close`; `take` is called on the loop."""

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self.path: Path | None = None
        self._take = take
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Transport, None] = {}  # the oldest first

    async def start(self, group: str, name: str) -> None:
        """Listen; `ConfigError` if the directory is not this user's alone."""
        place = directory()
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        _refuse_unless_private(place)
        self.path = place / f"{group_id(group):016x}-{member_id(name):016x}-{os.getpid()}"
        loop = asyncio.get_running_loop()
        # A file of that name was left by a process that had our number; it gives way.
        self._server = await loop.create_unix_server(
            lambda: _Client(self._answer, self._clients), str(self.path), start_serving=False
        )
        await self._server.start_serving()  # If this is cancelled, `close` ends it.

    async def close(self) -> None:
        """Cut the clients off and remove the file; twice is fine."""
        if self._server is None or self.path is None:
            return
        server, self._server = self._server, None
        server.close()
        self.path.unlink(missing_ok=True)
        for transport in list(self._clients):
            transport.abort()
        await server.wait_closed()

    def _answer(self, request: str) -> bytes:
        if request == SNAPSHOT:
            return msgspec.json.encode(self._take()) + b"\n"
        error = str(unknown_value("request", request, [SNAPSHOT]))
        return msgspec.json.encode({"error": error}) + b"\n"


class _Client(asyncio.Protocol):
    """One connection to a server.  What waits to be written is the answer to what came at once,
    and that is bounded."""

    def __init__(
        self, answer: Callable[[str], bytes], clients: dict[asyncio.Transport, None]
    ) -> None:
        self._answer = answer
        self._clients = clients
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._clients) == CLIENTS_MAX:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.abort()
        self._clients[self._transport] = None

    def data_received(self, data: bytes) -> None:
        has_read = not self._transport.get_write_buffer_size()
        if not has_read or len(self._unread) + len(data) > REQUEST_BYTES_MAX:
            self._transport.abort()
            return
        *requests, self._unread = (self._unread + data).split(b"\n")
        for request in requests:
            self._transport.write(self._answer(request.decode(errors="replace").strip()))
        self._transport.pause_reading()
        asyncio.get_running_loop().call_later(REQUEST_INTERVAL_S, self._listen)

    def connection_lost(self, error: Exception | None) -> None:
        self._clients.pop(self._transport, None)

    def _listen(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()


class Survey(NamedTuple):
    """The live members of this machine, and the processes of those that did not answer in time:
    stopped, stuck, or of another version."""

    snapshots: list[Snapshot]
    silent: list[int]


def directory() -> Path:
    """Where this user's members have their sockets, whether or not it exists."""
    given = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    place = given / "semcast"
    fits = len(os.fsencode(place)) + 1 + _FILE_BYTES_MAX <= _PATH_BYTES_MAX
    if (
        given.is_absolute()
        and fits
        and os.path.isdir(given)
        and given.stat().st_uid == os.geteuid()
    ):
        return place
    return Path(f"/tmp/semcast-{os.geteuid()}")


def discover(group: str | None) -> list[Path]:
    """The sockets of the members of a group, or of every group, on this machine."""
    place = directory()
    try:
        _refuse_unless_private(place)
        names = sorted(os.listdir(place))
    except FileNotFoundError:
        return []
    found = [(name, _FILE.fullmatch(name)) for name in names]
    wanted = None if group is None else f"{group_id(group):016x}"
    return [place / name for name, parts in found if parts and wanted in (None, parts[1])]


def read_all(group: str | None, timeout_s: float) -> list[Snapshot]:
    """A snapshot of every local member that answers in time, by group and rank."""
    return survey(group, timeout_s).snapshots


def survey(group: str | None, timeout_s: float) -> Survey:
    """Ask every local member at once; waits no longer than that in all."""
    deadline = monotonic() + timeout_s
    snapshots: list[Snapshot] = []
    silent: list[int] = []
    with ExitStack() as opened:  # Ctrl-C may come at any moment.
        asked = [(path, _ask(path, timeout_s, opened)) for path in discover(group)]
        for path, connection in asked:
            if connection is None:
                continue
            try:
                snapshots.append(_read_answer(connection, deadline))
            except (OSError, msgspec.DecodeError):
                if path.exists():  # It did not just leave.
                    silent.append(_pid(path))
    snapshots.sort(key=lambda snapshot: (snapshot.group, snapshot.rank, snapshot.pid))
    return Survey(snapshots, sorted(set(silent)))


def _ask(path: Path, timeout_s: float, opened: ExitStack) -> socket.socket | None:
    """A connection on which the question was put, or None if nobody listens."""
    connection = opened.enter_context(socket.socket(socket.AF_UNIX))
    connection.settimeout(timeout_s)
    try:
        connection.connect(str(path))
        connection.sendall(f"{SNAPSHOT}\n".encode())
    except (FileNotFoundError, ConnectionRefusedError):
        if not _is_running(_pid(path)):
            path.unlink(missing_ok=True)
        return None
    except OSError:
        pass  # It is there, and too busy to listen: the answer will not come either.
    return connection


def _read_answer(connection: socket.socket, deadline: float) -> Snapshot:
    answer = bytearray()
    while not answer.endswith(b"\n"):
        connection.settimeout(max(deadline - monotonic(), 0.001))
        part = connection.recv(1 << 16)
        if not part or len(answer) > ANSWER_BYTES_MAX:
            raise ConnectionError("no answer")
        answer += part
    return msgspec.json.decode(answer, type=Snapshot)


def _pid(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _refuse_unless_private(place: Path) -> None:
    """Somebody else's directory could hold sockets that only pretend to be members."""
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigError(f"{place}: not a directory that belongs to this user; remove it")
    if found.st_mode & 0o077:
        raise ConfigError(f"{place}: accessible to other users; run chmod 700 {place}")
