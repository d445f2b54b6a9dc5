"""Where runs of peers take place: directories, free ports and servers, all gone afterwards."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from peers_order.jgroups import free_group, java_compiler

from semcast.bench.systems import BenchEnvironment
from semcast.terms.errors import SemcastError

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "out" / "peers"
HOST = "127.0.0.1"
PATIENCE_S = 10.0
POLL_S = 0.02

# A server ends with whoever launched it, however that one ended: its end of the pipe closes.
GUARD = 'exec 3<&0; "$@" </dev/null >/dev/null & echo $!; cat <&3 >/dev/null; kill $!; wait'

Place = AbstractContextManager[BenchEnvironment]


class GroundError(SemcastError):
    """A server did not start, or a program could not be compiled."""


def free_port() -> int:
    """Of the loopback interface, a moment ago."""
    with socket.create_server((HOST, 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def executable(name: str) -> str | None:
    """Where a server is: beside this Python, or wherever programs are."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.is_file() else shutil.which(name)


@contextmanager
def server(command: Sequence[str], port: int) -> Iterator[int]:
    """Runs until the end of the block; its process id."""
    guard = subprocess.Popen(
        ["sh", "-c", GUARD, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,  # Ctrl-C is for the launcher.
    )
    assert guard.stdin is not None
    assert guard.stdout is not None
    try:
        pid = int(guard.stdout.readline())
        _await_port(port, command[0])
        yield pid
    finally:
        guard.stdin.close()
        guard.wait()
        guard.stdout.close()


def _await_port(port: int, name: str) -> None:
    deadline = monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection((HOST, port)).close()
            return
        except OSError as error:
            if monotonic() > deadline:
                raise GroundError(f"{name} did not listen within {PATIENCE_S:g} s") from error
            sleep(POLL_S)


@contextmanager
def folder() -> Iterator[BenchEnvironment]:
    """A socket of the file system."""
    with TemporaryDirectory() as place:
        yield BenchEnvironment({"address": f"ipc://{place}/socket"})


@contextmanager
def port() -> Iterator[BenchEnvironment]:
    """A port that one of the workers opens."""
    yield BenchEnvironment({"port": free_port()})


def make(source: Path, target: Path, *command: str) -> None:
    """Compile, unless that was done since the source changed."""
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if subprocess.run(command, check=False).returncode:
        raise GroundError(f"{source.name}: {command[0]} could not compile it")


@contextmanager
def jgroups() -> Iterator[BenchEnvironment]:
    """Compiled Java, a multicast port, and where to tell who was first."""
    source, classes = HERE / "Piped.java", OUT / "Piped.class"
    make(source, classes, *java_compiler(source, OUT))
    with TemporaryDirectory() as place:
        yield BenchEnvironment({"classes": str(OUT), "port": free_group(), "folder": place})


@contextmanager
def limit() -> Iterator[BenchEnvironment]:
    """Compiled C."""
    source, program = HERE / "limit.c", OUT / "limit"
    make(source, program, "cc", "-O2", "-o", str(program), str(source))
    yield BenchEnvironment({"program": str(program)})


def serving(command: Callable[[int, str], Sequence[str]]) -> Callable[[], Place]:
    """A server with a port and a directory of its own."""

    @contextmanager
    def ground() -> Iterator[BenchEnvironment]:
        port = free_port()
        with TemporaryDirectory() as place, server(command(port, place), port) as pid:
            yield BenchEnvironment({"port": port}, [pid])

    return ground


def nats(port: int, place: str) -> Sequence[str]:
    """With JetStream, in memory as far as streams say so."""
    words = ("--addr", HOST, "--port", str(port), "--log", f"{place}/log")
    return (executable("nats-server") or "nats-server", *words, "--jetstream", "--store_dir", place)


def redis(port: int, place: str) -> Sequence[str]:
    """Nothing is written to disk."""
    words = ("--bind", HOST, "--port", str(port), "--dir", place, "--save", "")
    return (executable("redis-server") or "redis-server", *words)
