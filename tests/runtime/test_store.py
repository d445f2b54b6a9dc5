"""Live servers of the replicated store and their clients, in one event loop."""

import asyncio
import contextlib
import gc
import secrets
import socket
import threading
import weakref

import pytest

import semcast
from semcast.fleet.trace_verdict import judge
from semcast.runtime.application import client_link
from semcast.runtime.membership import service_session
from semcast.service.store_disk import StoredState


@pytest.fixture
def store(place):
    return Servers(place)


class Servers:
    """`await store.start("abc")`, `store.client()`."""

    def __init__(self, place):
        self.place, self.group = place, f"store-{secrets.token_hex(8)}"
        found = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "abc"]
        for each in found:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in found]
        for each in found:
            each.close()
        self.peers = [f"{name}=127.0.0.1:{port}" for name, port in zip("abc", ports, strict=True)]

    def server(self, name, **options):
        known = {"data": self.place / name, "control": False, "timeout": 0.3, "linger": 2}
        return semcast.serve(name, peers=self.peers, group=self.group, **(known | options))

    async def start(self, names, **options):
        return await asyncio.gather(*(self.server(name, **options) for name in names))

    def client(self, **options):
        return semcast.open_store(self.peers, group=self.group, **({"give_up": 30} | options))


async def close(*servers):
    await asyncio.gather(*(server.close() for server in servers))


def kill(server):
    """The process ends: nothing more leaves it, and nothing reaches it."""
    server._driver.end(semcast.SemcastError("killed"))


async def until(server, role):
    async for change in server.changes():
        if change.role == role:
            return


@pytest.mark.parametrize("confirm", ["quorum", "all"])
@pytest.mark.parametrize("reads", ["local", "rotate"])
async def test_what_one_client_writes_another_reads(store, reads, confirm):
    servers = await store.start("abc", reads=reads, confirm=confirm)
    async with store.client() as one, store.client() as other:
        await one.set("ACME", "101.25")
        assert await one.get("ACME") == b"101.25"
        assert await other.incr("visits", 2) == 2
        assert await one.incr("visits") == 3
        assert await one.delete("ACME")
        assert not await one.delete("ACME")
        assert await one.get("ACME") is None
    await close(*servers)


async def test_clients_of_one_process_share_a_socket_and_go_on_without_each_other(store):
    servers = await store.start("abc", data=None)
    clients = [await store.client().open() for _ in range(20)]
    await asyncio.gather(*(client.incr("n") for client in clients))
    transports = {client._link.resources.transport for client in clients}
    (transport,) = transports
    before = transport.datagrams_out
    found = await asyncio.gather(*(client.incr("n") for client in clients))
    assert sorted(found) == list(range(21, 41))
    assert transport.datagrams_out - before < 10
    await asyncio.gather(*(client.close() for client in clients[:-1]))
    with pytest.raises(semcast.LocalProtocolError, match="closed"):
        await clients[0].incr("n")
    assert await clients[-1].incr("n") == 41
    await clients[-1].close()
    async with store.client() as later, store.client(message_max="2 MiB") as other:
        assert later._link.resources.transport not in transports
        assert later._link is not other._link  # Its options are others.
        assert await later.incr("n") + await other.incr("n") == 42 + 43
    await close(*servers)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_clients_that_nobody_closed_go_with_their_event_loop(store):
    async def open_one():
        await store.client().open()
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(open_one()) for _ in range(3)]
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


async def test_a_client_that_two_tasks_open_ends_when_it_is_closed(store):
    client = store.client()
    await asyncio.gather(client.open(), client.open())
    link = client._link
    await client.close()
    async with store.client() as later:
        assert later._link is not link


async def test_a_client_that_cannot_open_leaves_nothing_to_the_next(store, monkeypatch):
    servers = await store.start("abc", data=None)
    opening = client_link.find_peers
    entered, failing = asyncio.Event(), asyncio.Event()

    async def fail(options, *, sealed):
        entered.set()
        await failing.wait()
        raise semcast.ConfigError("no such host")

    monkeypatch.setattr(client_link, "find_peers", fail)
    first, second = store.client(), store.client()
    one = asyncio.create_task(first.open())
    await entered.wait()
    other = asyncio.create_task(second.open())
    await asyncio.sleep(0)
    monkeypatch.setattr(client_link, "find_peers", opening)
    failing.set()
    with pytest.raises(semcast.ConfigError, match="no such host"):
        await one
    await other
    assert await second.incr("n") == 1
    async with first:
        assert await first.incr("n") == 2
    await second.close()
    await close(*servers)


async def test_tasks_share_a_client_and_every_update_counts_once(store):
    servers = await store.start("abc", data=None)
    async with store.client() as client:  # The first updates may be refused, and are tried again.
        found = await asyncio.gather(*(client.incr("n") for _ in range(200)))
        assert sorted(found) == list(range(1, 201))
        found = await asyncio.gather(*(client.incr("n") for _ in range(200)))
        assert found == list(range(201, 401))  # in the order of the calls
    await close(*servers)


async def test_a_watcher_sees_the_newest_value(store):
    servers = await store.start("abc", data=None)
    async with store.client() as writer, store.client() as watcher:
        values = watcher.watch("x")
        assert await anext(values) is None
        await writer.set("x", "1")
        assert await anext(values) == b"1"
        for number in range(2, 20):
            await writer.set("x", str(number))
        seen = 1
        while seen < 19:
            value = int(await anext(values))
            assert value > seen
            seen = value
        await values.aclose()
    await close(*servers)


async def test_a_client_goes_on_when_it_gives_up_a_watch(store):
    servers = await store.start("abc", data=None)
    async with store.client() as client:
        await client.set("x", "1")
        values = client.watch("x")
        assert await anext(values) == b"1"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(values), 0.3)
        assert await client.get("x") == b"1"
        await client.set("x", "2")
        assert await client.get("x") == b"2"
    await close(*servers)


async def test_what_was_written_survives_when_all_servers_restart(store):
    servers = await store.start("abc")
    async with store.client() as client:
        for number in range(50):
            await client.set(f"key{number}", str(number))
        for server in servers:
            kill(server)
        await close(*servers)
        servers = await store.start("abc")
        for number in range(50):
            assert await client.get(f"key{number}") == str(number).encode()
        assert await client.incr("n") == 1
    await close(*servers)


async def test_the_others_go_on_and_one_that_returns_has_everything(store):
    a, b, c = await store.start("abc")
    async with store.client() as client:
        await client.set("x", "1")
        kill(a)
        await a.close()
        for number in range(20):
            await client.set("x", str(number))
        a = await store.server("a")
        await until(a, "primary")
        kill(b)
        assert await client.incr("n") == 1
        assert await client.get("x") == b"19"
    await close(a, b, c)


async def test_a_large_disk_is_read_beside_the_event_loop(store, monkeypatch):
    servers = await store.start("abc")
    async with store.client() as client:
        await client.set("x", "1")
    await close(*servers)
    goes_on = threading.Event()

    class SlowRecords(StoredState):
        def __init__(self, *args):
            assert goes_on.wait(60)
            super().__init__(*args)

    monkeypatch.setattr(service_session, "StoredState", SlowRecords)
    opening = asyncio.gather(*(store.server(name) for name in "abc"))
    for _ in range(20):  # The loop turns while the disks are being read.
        await asyncio.sleep(0.01)
    assert not opening.done()
    goes_on.set()
    servers = await opening
    async with store.client() as client:
        await client.set("y", "2")
        assert await client.get("x") == b"1"
    await close(*servers)


async def test_a_server_alone_reads_and_does_not_update(store):
    a, b, c = await store.start("abc")
    async with store.client(give_up=2) as client:
        await client.set("x", "1")
        kill(a)
        kill(b)
        await until(c, "minority")
        assert await client.get("x") == b"1"
        with pytest.raises(semcast.NoQuorum, match="the update was not made"):
            await client.set("x", "2")
        assert await client.get("x") == b"1"
    await close(a, b, c)


async def test_an_update_that_is_said_not_to_be_made_is_not_made_later(store):
    servers = await store.start("abc")
    for server in servers[1:]:
        kill(server)
    await until(servers[0], "minority")
    async with store.client(give_up=2) as client:
        asking = asyncio.create_task(client.incr("n", 100))
        while client._link.port.clients.sent < 3:  # It was refused, and tried again.
            await asyncio.sleep(0.01)
        kill(servers[0])
        with pytest.raises(semcast.NoQuorum, match="the update was not made"):
            await asking
        await close(*servers)
        servers = await store.start("abc")
        found = b"none yet"
        while found == b"none yet":  # Requests of one client are answered in their order.
            with contextlib.suppress(semcast.RequestUnknown):
                found = await client.get("n")
        assert found is None
    await close(*servers)


async def test_a_command_that_cannot_be_carried_out_changes_nothing(store):
    servers = await store.start("abc", data=None)
    async with store.client() as client:
        await client.set("x", "text")
        with pytest.raises(semcast.RequestFailed, match="not an integer"):
            await client.incr("x")
        with pytest.raises(semcast.RequestFailed, match="more than 1024 bytes"):
            await client.get("k" * 1025)
        assert await client.get("x") == b"text"
    await close(*servers)


async def test_nobody_answers(store):
    async with store.client(give_up=0.3) as client:
        with pytest.raises(semcast.RequestUnknown, match=r"no server .* within 0.3 s"):
            await client.get("x")


async def test_a_directory_of_another_server_is_refused(store):
    servers = await store.start("abc")
    await close(*servers)
    with pytest.raises(semcast.ConfigError, match="holds the log of 'b', not of 'a'"):
        await store.server("a", data=store.place / "b")


async def test_two_servers_with_one_directory(store):
    a, *others = await store.start("abc")
    with pytest.raises(semcast.ConfigError, match="another process"):
        await store.server("a")
    await close(a, *others)


async def test_updates_go_on_with_one_of_the_quorums_that_were_given(store, tmp_path):
    more = {"quorums": "a, b+c+a", "trace": tmp_path / "trace", "timeout": 0.2}
    a, b, c = await store.start("abc", **more)
    async with store.client(give_up=2) as client:
        await client.set("x", "1")
        kill(b)
        kill(c)
        assert await client.incr("n") == 1  # a alone is a quorum.
        await close(b, c)
        b, c = await store.start("bc", **(more | {"quorums": [["c", "b", "a"], ["a"]]}))
        kill(a)
        await until(b, "minority")  # b and c are the majority, and no quorum.
    async with store.client(give_up=2) as client:
        with pytest.raises(semcast.NoQuorum, match="no quorum; the update was not made"):
            await client.set("x", "2")
    await close(a, b, c)
    verdict = await asyncio.to_thread(judge, tmp_path / "trace")
    assert verdict.passed, verdict.properties
    assert verdict.properties["primary_order"].status == "pass"


@pytest.mark.parametrize(
    ("quorums", "text"),
    [
        ("", "none given"),
        ([], "none given"),
        ("a+b,c", "a\\+b and c have no server in common"),
        ("a+b,a+x", "unknown server 'x'; the servers are a, b, c"),
        ("a+ ,b", "unknown server ''"),
        ("a" * 100, f"unknown server '{'a' * 60}';"),
        ([["a", "b"], []], "one of them has no server"),
        (3, "cannot read '3'"),
        ([3], "cannot read"),
    ],
)
def test_quorums_that_cannot_be_are_refused(quorums, text, store):
    with pytest.raises(semcast.ConfigError, match=f"^quorums: .*{text}"):
        store.server("a", quorums=quorums)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: semcast.serve("a", peers="", data=None), "peers: give the names"),
        (lambda: semcast.serve("x", peers="a=127.0.0.1:1", data=None), "x is not in peers"),
        (lambda: semcast.serve("a", peers="a=127.0.0.1:1", data=None, order="fifo"), "order: sem"),
        (lambda: semcast.serve("a", peers="a=127.0.0.1:1", data=None, reads="far"), "reads: unkno"),
        (lambda: semcast.open_store(""), "peers: give the names"),
        (lambda: semcast.open_store("a=127.0.0.1:1", buffer=3), "buffer: not for a client"),
        (lambda: semcast.join("s", protocol="replicated-data"), "is for servers"),
    ],
)
def test_what_cannot_be_is_refused_at_the_call(call, text, place):
    with pytest.raises(semcast.ConfigError, match=text):
        call()


async def test_a_script_uses_the_store_without_async(store):
    servers = await store.start("abc")
    assert await asyncio.to_thread(use_from_a_script, store) == [b"101.25", 2, b"103"]
    await close(*servers)


def use_from_a_script(store):
    with semcast.sync.open_store(store.peers, group=store.group, give_up=30) as client:
        client.set("ACME", "101.25")
        first = next(client.watch("ACME"))
        counted = client.incr("visits", 2)
        assert client.delete("ACME")
        assert client.get("ACME") is None
        client.set("ACME", "103")
        found = [first, counted, client.get("ACME")]
    client.close()
    with pytest.raises(semcast.SemcastError, match="closed"):
        client.get("ACME")
    with pytest.raises(semcast.ConfigError, match="peers: give"):
        semcast.sync.open_store([])
    return found
