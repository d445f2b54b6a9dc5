"""Live servers of a replicated service and their clients, in one event loop."""

import asyncio
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

import semcast
from semcast.runtime.membership import directory as directories
from semcast.runtime.storage import keyring
from semcast.runtime.storage.keyring import KeyRing, new_key


class Bank:
    """Accounts are items; nobody may owe anything."""

    def execute(self, request):
        account, amount = request
        balance = self.items.get(account, 0) + amount
        if balance < 0:
            self.items["debtor"] = account
            raise ValueError(f"{account} has only {balance - amount}")
        self.items[account] = balance
        return balance


@pytest.fixture
def bank(place):
    """`await bank("a")`: one server; `bank.client()`: a client."""
    return Servers(f"bank-{secrets.token_hex(8)}")


class Servers:
    def __init__(self, group):
        self.group = group

    def __call__(self, name, members=3, **options):
        known = {"control": False, "join_timeout": 60, "linger": 2, "timeout": 0.3}
        options = {**known, "members": members, **options}
        if options["members"] is None:
            del options["members"]
        return semcast.replicate(Bank(), group=self.group, name=name, **options)

    async def start(self, names, **options):
        return await asyncio.gather(*(self(name, len(names), **options) for name in names))

    def client(self, **options):
        return semcast.Client(self.group, **options)


async def close(*servers):
    await asyncio.gather(*(server.close() for server in servers))


def kill(server):
    """The process ends: nothing more leaves it, and nothing reaches it."""
    server._driver.end(semcast.SemcastError("killed"))


async def until(server, condition):
    async for change in server.changes():
        if condition(change):
            return change
    raise AssertionError("the server was closed")


async def test_who_asks_while_others_wait_gives_up_as_long_after_asking(bank):
    async with bank.client(give_up=0.3) as client:
        begun = monotonic()
        asking = (client.request(["ada", number]) for number in range(10))
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert monotonic() - begun < 2  # One after the other they would give up after 3 s.
    assert [type(each) for each in found] == [semcast.RequestUnknown] * 10


async def test_a_request_that_is_cancelled_does_not_hold_up_the_next_one(bank):
    async with bank.client() as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.request(["ada", 5]), 0.2)
        servers = await bank.start("abc")
        async with asyncio.timeout(20):
            assert await client.request(["bob", 7]) == 7
    await close(*servers)


async def test_a_script_asks_without_async(bank):
    servers = await bank.start("abc")
    await asyncio.to_thread(ask_from_a_script, bank.group)
    await close(*servers)


def ask_from_a_script(group):
    with semcast.sync.Client(group, give_up=20) as client:
        assert client.request(["ada", 5]) == 5
        with pytest.raises(semcast.RequestFailed, match="ada has only 5"):
            client.request(["ada", -6])
        with ThreadPoolExecutor(4) as threads:  # Threads may share it.
            found = threads.map(lambda _: client.request(["ada", 1]), range(8))
            assert sorted(found) == list(range(6, 14))
    client.close()
    with pytest.raises(semcast.SemcastError, match="closed"):
        client.request(["ada", 5])
    with pytest.raises(semcast.ConfigError, match="buffer: not for a client"):
        semcast.sync.Client(group, buffer=3)


async def test_a_request_is_answered_and_every_server_has_it(bank):
    servers = await bank.start("abc")
    async with bank.client() as client:
        assert await client.request(["ada", 5]) == 5
        assert await client.request(["ada", -2]) == 3
    assert [server.version for server in servers] == [3, 3, 3]  # with the opening
    assert [server.state.role for server in servers] == ["primary", "backup", "backup"]
    assert {server.state.primary for server in servers} == {"a"}
    await close(*servers)


async def test_one_server_answers_by_itself(bank):
    servers = await bank.start("a")
    async with bank.client() as client:
        assert await client.request(["ada", 5]) == 5
    await close(*servers)


async def test_an_error_of_the_service_is_raised_and_changes_nothing(bank):
    servers = await bank.start("ab")
    async with bank.client() as client:
        with pytest.raises(semcast.RequestFailed, match="ValueError: ada has only 0"):
            await client.request(["ada", -1])
        with pytest.raises(semcast.RequestFailed, match="TypeError"):
            await client.request(7)
        assert await client.request(["debtor", 1]) == 1
    await close(*servers)


async def test_an_item_that_no_group_carries_ends_no_server(bank):
    servers = await bank.start("ab")
    async with bank.client() as client:
        for name in ("x" * 2000, "\n" * 1025):
            with pytest.raises(semcast.RequestFailed, match="maximum is 1024"):
                await client.request([name, 1])
        with pytest.raises(semcast.RequestFailed, match="the name of an item is empty"):
            await client.request(["", 1])
        assert await client.request(["ada", 1]) == 1
    await close(*servers)


async def test_requests_of_many_clients_take_effect_once_each(bank):
    servers = await bank.start("abc")

    async def deposit():
        async with bank.client() as client:
            return [await client.request(["ada", 1]) for _ in range(20)]

    balances = await asyncio.gather(*(deposit() for _ in range(5)))
    assert sorted(balance for found in balances for balance in found) == list(range(1, 101))
    await close(*servers)


async def test_when_the_primary_dies_another_takes_over_and_nothing_is_lost(bank):
    a, b, c = await bank.start("abc")
    async with bank.client() as client:
        for amount in range(1, 11):
            assert await client.request(["ada", 1]) == amount
        kill(a)
        assert await client.request(["ada", 1]) == 11
        assert (b.state.role, b.state.primary) == ("primary", "b")
        assert c.state.role == "backup"
        # Who comes back starts from the state of the others.
        async with bank("a") as back:
            assert back.version == b.version
            assert await client.request(["ada", 1]) == 12
    await close(a, b, c)


async def test_of_two_servers_one_alone_answers_nobody(bank):
    a, b = await bank.start("ab")
    async with bank.client(give_up=0.5) as client:
        assert await client.request(["ada", 1]) == 1
        kill(a)
        assert (await until(b, lambda change: change.role != "backup")).role == "minority"
        with pytest.raises(semcast.RequestUnknown, match=r"no server .* within 0.5 s"):
            await client.request(["ada", 1])
    await close(a, b)


async def test_a_cancelled_request_does_not_answer_the_next_one(bank):
    async with bank.client() as client:
        first = asyncio.ensure_future(client.request(["ada", 1]))
        await asyncio.sleep(0)  # It asks; nobody is there.
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.ensure_future(client.request(["bob", 100]))
        servers = await bank.start("a")
        assert await second == 100
    await close(*servers)


async def test_a_server_that_leaves_hands_over(bank):
    a, b, c = await bank.start("abc")
    async with bank.client() as client:
        assert await client.request(["ada", 1]) == 1
        await a.close()
        assert await client.request(["ada", 1]) == 2
        assert [change async for change in a.changes()][1:] == []
    await close(b, c)


async def test_clients_are_no_members(bank):
    servers = await bank.start("ab")
    async with bank.client() as one, bank.client() as other:
        await one.request(["ada", 1])
        await other.request(["ada", 1])
        assert all(server.state.view.members == ("a", "b") for server in servers)
        assert [peer.name for peer in servers[0].snapshot().peers] == ["b"]
    await close(*servers)


async def test_only_the_clients_that_were_heard_last_are_known(bank, monkeypatch):
    monkeypatch.setattr(directories, "GUESTS_MAX", 2)
    servers = await bank.start("a")
    for _ in range(5):
        async with bank.client() as client:
            await client.request(["ada", 1])
    assert len(servers[0]._driver._channel._directory.guests) == 2
    await close(*servers)


async def test_with_addresses_instead_of_multicast(bank):
    found = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for each in found:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in found]
    for each in found:
        each.close()
    peers = [f"{name}=127.0.0.1:{port}" for name, port in zip("ab", ports, strict=True)]
    servers = await bank.start("ab", peers=peers)
    async with bank.client(peers=peers) as client:
        assert await client.request(["ada", 5]) == 5
    await close(*servers)


async def test_without_the_key_nobody_is_heard(bank, place):
    ring = place / "ring.toml"
    key = new_key()
    keyring.edit(ring, lambda _: KeyRing((key,), key))
    servers = await bank.start("a", key=ring, interface="127.0.0.1")
    async with bank.client(key=ring, interface="127.0.0.1") as client:
        assert await client.request(["ada", 5]) == 5
    async with bank.client(key=False, give_up=0.3) as client:
        with pytest.raises(semcast.RequestUnknown):
            await client.request(["ada", 5])
    assert servers[0].version == 2
    await close(*servers)


async def test_a_member_with_other_settings_is_no_server(bank):
    (a,) = await bank.start("a")
    joining = semcast.join(
        *(bank.group,), name="x", protocol="s-vsm", relation="update-fin", join_timeout=8
    )
    with pytest.raises(semcast.JoinTimeout, match="different settings: a"):
        await joining
    await a.close()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: semcast.replicate(Bank(), group="b", protocol="vs"), "protocol: semcast.repl"),
        (lambda: semcast.replicate(object(), group="b"), "object has no method execute"),
        (lambda: semcast.replicate(Bank(), group="b", relation="item"), "relation: primary-backup"),
        (lambda: semcast.replicate(Bank(), group="b", bufer=3), "did you mean buffer"),
        (lambda: semcast.join("b", protocol="primary-backup"), "is for servers"),
        (lambda: semcast.replicate(Bank(), group="b", overflow="error"), "overflow: error is for"),
        (lambda: semcast.Client("b", buffer=3), "buffer: not for a client, which takes peers"),
        (lambda: semcast.Client("b", give_up=0), "give_up: 0 is not above 0"),
    ],
)
def test_what_cannot_be_is_refused_at_the_call(call, text, place):
    with pytest.raises(semcast.ConfigError, match=text):
        call()


def test_a_server_that_a_full_buffer_would_end_is_refused(place, monkeypatch):
    with pytest.raises(semcast.ConfigError, match="overflow: error is for members that send"):
        semcast.serve("a", peers="a=127.0.0.1:7101", data=None, overflow="error")
    for overflow in ("block", "exclude"):
        semcast.replicate(Bank(), group="b", overflow=overflow)
    monkeypatch.setenv("SEMCAST_OVERFLOW", "error")
    with pytest.raises(semcast.ConfigError, match="OVERFLOW: error is for members that send"):
        semcast.replicate(Bank(), group="b")
    semcast.Client("b")
    semcast.join("b", protocol="s-vsm")


async def test_what_a_client_cannot_ask(bank):
    client = bank.client()
    with pytest.raises(semcast.LocalProtocolError, match="open the client first"):
        await client.request(1)
    async with client:
        with pytest.raises(semcast.LocalProtocolError, match="more than message_max"):
            await client.request("x" * (2 << 20))
        with pytest.raises(TypeError):
            await client.request(object())
    await client.close()
