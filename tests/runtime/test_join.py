"""How a group comes together between live members, and what is said when it does not."""

import asyncio
import re
import socket

import msgspec
import pytest

import semcast
from semcast.runtime.application.join import open_group
from semcast.runtime.membership import gathering, session
from semcast.runtime.membership.fixed_session import FixedSession
from semcast.runtime.membership.gathering import HELLO_BYTES, Hello
from semcast.runtime.storage import keyring
from semcast.runtime.storage.keyring import KeyRing, new_key
from semcast.wire.frames import HELLO, member_id
from semcast.wire.sealing import Sealer

SOON_S = 2.0


def free_port(host="127.0.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def peers_at(host, names):
    shown = f"[{host}]" if ":" in host else host
    return [f"{name}={shown}:{free_port(host)}" for name in names]


@pytest.fixture
def ring(place):
    """`ring("one", key, …)`: the path of a file with these keys, the first one in use."""

    def make(name, *keys):
        path = place / f"{name}.toml"
        kept = KeyRing(keys, keys[0])
        return path if keyring.edit(path, lambda _: kept) else None

    return make


async def until(is_so, session):
    """Wait for something about the gathering of a session that is being opened."""
    while not hasattr(session, "gathering") or not is_so():
        await asyncio.sleep(0)


async def outcome(*joins):
    """What each of them came to: a group, which is closed again, or an error."""
    results = await asyncio.gather(*joins, return_exceptions=True)
    for result in results:
        if isinstance(result, semcast.Group):
            await result.close()
    return results


async def test_members_find_each_other(meet):
    async with meet("cab") as groups:
        assert [group.member for group in groups] == ["c", "a", "b"]
        assert {group.members for group in groups} == {("a", "b", "c")}
        assert repr(groups[1]).endswith("member='a', members=['a', 'b', 'c'])")


@pytest.mark.parametrize("protocol", ["s-rm", "s-vsm"])
async def test_a_long_wait_for_others_says_who_is_here(protocol, join, monkeypatch, caplog):
    monkeypatch.setattr(session, "WAIT_LOGGED_S", 0.3)
    waiting = [join(name, members=3, protocol=protocol, join_timeout=1.0) for name in "ab"]
    for result in await outcome(*waiting):
        assert isinstance(result, semcast.JoinTimeout)
    lines = [line.partition("; ")[2] for line in caplog.messages if "at most 1 s" in line]
    assert len(lines) == 2
    for line in lines:  # On a busy machine they may not have met yet.
        assert re.fullmatch(r"1 of 3 are here \([ab]\)|2 of 3 are here \((a, b|b, a)\)", line)


async def test_a_group_of_one_is_there_at_once(meet, take):
    async with meet("a") as (group,):
        await group.multicast(b"1", item="x")
        assert [message.payload for message in await take(group, 1)] == [b"1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_peers_reach_each_other_without_multicast(meet, take, host):
    options = {"peers": peers_at(host, "abc"), "ip": 6 if ":" in host else 4}
    async with meet("abc", **options) as groups:
        await groups[0].multicast(b"1", item="x")
        await groups[1].multicast(b"2", item="x")
        for group in groups:
            found = await take(group, 2)
            assert {(message.sender, message.payload) for message in found} == {
                ("a", b"1"),
                ("b", b"2"),
            }


async def test_who_fell_silent_before_there_was_a_group_is_not_waited_for(join, monkeypatch):
    """Whoever is stopped and started again has another name, unless it was given one."""
    monkeypatch.setattr(gathering, "CANDIDATE_TIMEOUT_S", 0.5)
    gone = asyncio.ensure_future(join("a", members=3).start())
    session = FixedSession(join("b", members=3)._options)
    waiting = asyncio.ensure_future(open_group(session))
    await until(lambda: any(c.is_confirmed for c in session.gathering.candidates.values()), session)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    more = [join("c", members=3), join("d", members=3)]
    groups = await asyncio.gather(waiting, *more)
    assert {group.members for group in groups} == {("b", "c", "d")}
    await asyncio.gather(*(group.close() for group in groups))


async def test_nobody_there_is_said_in_time(join):
    with pytest.raises(semcast.JoinTimeout) as told:
        await join("a", members=2, join_timeout="100 ms")
    assert str(told.value) == (
        "join: timed out after 0.1 s with 1 of 2 members (a); if other members run, "
        "multicast may be filtered: run semcast doctor, or use peers"
    )


async def test_missing_peers_are_named(join):
    peers = peers_at("127.0.0.1", "abc")
    results = await outcome(*(join(n, peers=peers, join_timeout=SOON_S) for n in "ab"))
    for result in results:
        assert isinstance(result, semcast.JoinTimeout)
        assert "2 of 3" in str(result)
        assert str(result).endswith("missing: c")


async def test_other_settings_are_named(join):
    one = join("a", members=2, join_timeout=SOON_S)
    other = join("b", members=2, order="item", join_timeout=SOON_S)
    for result, name in zip(await outcome(one, other), "ba", strict=True):
        assert isinstance(result, semcast.JoinTimeout)
        assert f"different settings: {name}" in str(result)


async def test_bounds_may_differ(join):
    one = join("a", members=2, buffer=10, buffer_bytes="2 MiB", datagram=1400)
    other = join("b", members=2, buffer=20, period="5 ms")
    assert all(isinstance(result, semcast.Group) for result in await outcome(one, other))


async def test_one_too_many_is_told_that_the_group_is_complete(meet, join):
    async with meet("ab"):
        with pytest.raises(semcast.GroupComplete, match="2 members, and 'c' is not"):
            await join("c", members=2)


async def test_a_member_that_left_is_not_taken_back(meet, join):
    async with meet("abc") as (a, _, _):
        await a.close()
        with pytest.raises(semcast.GroupComplete, match="nobody in or back"):
            await join("a", members=3)


async def test_the_same_name_twice_is_said(join):
    results = await outcome(*(join("a", members=2, join_timeout=SOON_S) for _ in range(2)))
    for result in results:
        assert isinstance(result, semcast.JoinTimeout)
        assert "somebody else has this member's name" in str(result)


async def test_no_key_keeps_a_member_on_loopback(join):
    for options in ({"interface": "0.0.0.0"}, {"bind": "0.0.0.0:0"}):
        with pytest.raises(semcast.ConfigError, match="traffic to other machines needs a key"):
            await join("a", members=1, **options)
    peers = [f"a=127.0.0.1:{free_port()}", "b=192.0.2.1:7002"]
    with pytest.raises(
        semcast.ConfigError, match=r"b is at 192\.0\.2\.1, and traffic to other machines"
    ):
        await join("a", peers=peers)


async def test_a_trace_that_cannot_be_written_is_said(join, place):
    (place / "file").touch()
    with pytest.raises(semcast.ConfigError, match="trace: cannot write"):
        await join("a", members=1, trace=place / "file" / "inside")


async def test_a_ring_without_a_key_is_no_ring(join, place):
    with pytest.raises(semcast.ConfigError, match="holds no key"):
        await join("a", members=1, key=place / "missing.toml")


async def test_members_with_a_key_find_each_other(meet, ring, take):
    path = ring("one", new_key(), new_key("chacha20-poly1305"))
    async with meet("ab", key=path, interface="127.0.0.1") as (a, b):
        assert a.snapshot().is_sealed
        await a.multicast(b"secret")
        assert (await take(b, 1))[0].payload == b"secret"


async def test_a_wrong_key_is_said(join, ring):
    options = {"members": 2, "interface": "127.0.0.1", "join_timeout": SOON_S}
    one = join("a", key=ring("one", new_key()), **options)
    other = join("b", key=ring("other", new_key()), **options)
    for result in await outcome(one, other):
        assert isinstance(result, semcast.JoinTimeout)
        assert "somebody seals with a key that is not in this ring" in str(result)


async def test_no_key_among_keys_is_said(join, ring):
    options = {"members": 2, "interface": "127.0.0.1", "join_timeout": SOON_S}
    one = join("a", key=ring("one", new_key()), **options)
    other = join("b", key=False, **options)
    results = await outcome(one, other)
    assert "unsealed" in str(results[0]), "it heard frames in clear"
    assert "not in this ring" in str(results[1]), "it heard sealed ones"


async def test_two_keys_are_accepted_while_one_replaces_the_other(join, ring):
    old, new = new_key(), new_key()
    options = {"members": 2, "interface": "127.0.0.1"}
    one = join("a", key=ring("one", old, new), **options)
    other = join("b", key=ring("other", new, old), **options)
    assert all(isinstance(result, semcast.Group) for result in await outcome(one, other))


async def test_a_key_that_comes_while_a_member_waits_is_used(join, ring):
    wrong, right = new_key(), new_key()
    path = ring("one", wrong)
    options = {"members": 2, "interface": "127.0.0.1"}
    waiting = asyncio.ensure_future(join("a", key=path, **options).start())
    other = asyncio.ensure_future(join("b", key=ring("other", right), **options).start())
    await asyncio.sleep(0)
    keyring.edit(path, lambda held: held.with_key(right).with_active(right))
    groups = await asyncio.gather(waiting, other)
    await asyncio.gather(*(group.close() for group in groups))


async def test_another_version_of_the_protocol_is_said(join, quotes):
    port = free_port()
    frame = bytearray(Sealer(quotes, member_id("b"), 1, None).seal(HELLO, bytes(HELLO_BYTES)))
    frame[2] += 1
    waiting = asyncio.ensure_future(
        outcome(join("a", members=2, bind=f"127.0.0.1:{port}", join_timeout=SOON_S))
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        while not waiting.done():
            stranger.sendto(frame, ("127.0.0.1", port))
            await asyncio.wait([waiting], timeout=0.05)
    (result,) = await waiting
    assert "somebody runs a newer version of semcast; upgrade this process" in str(result)


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
async def test_a_taken_port_is_said(join, kind):
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(semcast.ConfigError, match=f"port: {port} on .* is in use"):
            await join("a", members=1, bind=f"127.0.0.1:{port}")


def test_impossible_settings_are_said_before_anything_is_opened(place):
    for group, options, told in [
        ("g" * 65, {"members": 1}, "group: name too long"),
        ("", {"members": 1}, "group: name is empty"),
        ("g", {"members": 1, "name": "n" * 65}, "name: name too long"),
        ("g", {}, "members or peers"),
        ("g", {"members": 0}, "members"),
        ("g", {"peers": ["a=127.0.0.1:7000"]}, "cannot tell which entry"),
        ("g", {"members": 1, "order": "total"}, "order"),
        ("g", {"members": 1, "overflow": "exclude"}, "overflow"),
    ]:
        with pytest.raises(semcast.ConfigError, match=told):
            semcast.join(group, **options)


async def test_an_unknown_host_is_said(join):
    peers = ["a=127.0.0.1:7001", "b=no-such-host.invalid:7002"]
    with pytest.raises(semcast.ConfigError, match=r"no-such-host\.invalid"):
        await join("a", peers=peers)


async def test_a_cancelled_join_leaves_nothing_open(join):
    port = free_port()
    for _ in range(2):
        joining = asyncio.ensure_future(join("a", members=2, bind=f"127.0.0.1:{port}").start())
        await asyncio.wait([joining], timeout=0.05)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining


async def test_garbage_and_false_hellos_do_not_disturb_the_gathering(join, quotes):
    """Hellos of a member that never answers: it is not counted as one."""
    port = free_port()
    session = FixedSession(join("b", members=2, bind=f"127.0.0.1:{port}")._options)
    one = asyncio.ensure_future(open_group(session))
    await until(lambda: True, session)
    ghost = Sealer(quotes, member_id("a"), 1, None)
    digest = session.gathering.digest
    hello = msgspec.msgpack.encode(Hello("a", digest, 5, 5, bytes(HELLO_BYTES)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for frame in (b"", b"SC", bytes(1000), ghost.seal(HELLO, b""), ghost.seal(HELLO, hello)):
            stranger.sendto(frame, ("127.0.0.1", port))
        groups = await asyncio.gather(one, join("c", members=2))
    assert {group.members for group in groups} == {("b", "c")}
    assert sum(groups[0].snapshot().discarded.values()) >= 4
    await asyncio.gather(*(group.close() for group in groups))
