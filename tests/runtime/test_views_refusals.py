"""Who does not belong into a group with views is told why, and the group goes on as it was."""

import asyncio
import socket
import time

import pytest

import semcast
from semcast.runtime.membership import incarnations as lives
from semcast.runtime.membership import introductions
from semcast.runtime.membership.gathering import HELLO_BYTES
from semcast.runtime.storage import keyring
from semcast.runtime.storage.keyring import new_key
from semcast.terms.views import Heartbeat
from semcast.wire import encode
from semcast.wire.frames import DATAGRAM, HELLO, member_id
from semcast.wire.sealing import Sealer

SOON_S = 2.0
LOOPBACK = {"interface": "127.0.0.1"}


async def refused(crowd_here, name, **options) -> str:
    """Why somebody did not get in."""
    with pytest.raises(semcast.JoinTimeout) as error:
        await crowd_here.add(name, join_timeout=SOON_S, **options)
    return str(error.value)


async def goes_on(a, table) -> None:
    """The group is as it was, and works."""
    assert (a.view.id, set(a.members)) == (1, {"a", "b"})
    await a.multicast(b"still", item="here")
    await table.until(lambda: table.values.get("here") == "still")
    assert [change.view.id for change in table.changes] == [1]


@pytest.mark.parametrize(
    "options",
    [{"order": "total"}, {"protocol": "vsm"}],
    ids=str,
)
async def test_other_settings_are_said(crowd, options):
    async with crowd() as here:
        (a, _), (_, other) = await here.found("ab")
        told = await refused(here, "c", **options)
        assert "reachable: c; " in told
        assert "different settings: a, b" in told
        await goes_on(a, other)


async def test_a_wrong_key_is_said(crowd, place):
    for name in ("one", "other"):
        keyring.edit(place / name, lambda ring: ring.with_key(new_key()))
    async with crowd() as here:
        (a, _), (_, other) = await here.found("ab", key=place / "one", **LOOPBACK)
        told = await refused(here, "c", key=place / "other", **LOOPBACK)
        assert "somebody seals with a key that is not in this ring" in told
        assert a.snapshot().discarded["key"] > 0
        await goes_on(a, other)


async def test_another_version_is_said(crowd, quotes):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.1", 0))
        frame = bytearray(Sealer(quotes, member_id("z"), 1, None).seal(HELLO, bytes(HELLO_BYTES)))
        frame[2] += 1
        async with crowd() as here:
            (a, _), (_, other) = await here.found("ab")
            stranger.sendto(frame, a._driver._channel.transport._unicast.getsockname())
            while not a.snapshot().discarded.get("version"):
                await asyncio.sleep(0)
            await goes_on(a, other)


async def test_another_group_is_not_heard(crowd, quotes, place):
    async with crowd() as here:
        (a, _), (_, other) = await here.found("ab")
        elsewhere = await semcast.join(
            f"{quotes}-2", name="c", protocol="s-vsm", members=1, control=False
        )
        assert elsewhere.members == ("c",)
        await elsewhere.close()
        await goes_on(a, other)


async def test_a_namesake_says_nothing_and_is_told(crowd):
    async with crowd() as here:
        (a, _), (_, other) = await here.found("ab")
        told = await refused(here, "a")
        assert "somebody else has this member's name" in told
        await goes_on(a, other)


async def test_a_name_is_free_again_when_its_member_is_gone(crowd):
    async with crowd() as here:
        (_, one), (b, _) = await here.found("ab")
        waiting = asyncio.create_task(here.add("b", members=2))
        await b.close()
        again, _ = await waiting
        await one.until(lambda: one.changes[-1].joined == ("b",))
        assert again.members == ("a", "b")


async def test_who_was_stopped_and_replaced_is_told(crowd):
    """Somebody else has its name by the time it goes on; two would never get along."""
    async with crowd() as here:
        (a, one), (b, _), (_c, _) = await here.found("abc")
        here.mute(b)
        await one.until_members("a", "c")
        again, _ = await here.add("b", members=3)
        here.unmute(b)
        with pytest.raises(
            semcast.ExcludedFromGroup, match="another process has joined the group with the name b"
        ):
            await keep_sending(b)
        assert set(again.members) == set(a.members) == {"a", "b", "c"}


async def test_clocks_do_not_matter(crowd, monkeypatch):
    """A member whose wall clock is decades back or ahead joins, sends, crashes and comes back."""
    real_ns = time.time_ns
    async with crowd() as here:
        (_a, _), (_, other) = await here.found("ab")
        for years in (-40, 30):
            shift_ns = years * 365 * 86_400 * 10**9
            monkeypatch.setattr(lives, "time_ns", lambda shift=shift_ns: real_ns() + shift)
            c, _ = await here.add("c", members=2)
            await c.multicast(b"%d" % years, item="clock")
            await other.until(lambda told=str(years): other.values.get("clock") == told)
            here.crash(c)
            await other.until(lambda: other.changes[-1].left == ("c",))
        monkeypatch.setattr(lives, "time_ns", real_ns)
        await here.add("c", members=2)
        await other.until(lambda: other.changes[-1].joined == ("c",))


async def test_nobody_founded_it_is_said(crowd):
    async with crowd() as here:
        told = await refused(here, "a")
        assert "reachable: a; no such group is running; found one with members or peers" in told


async def test_too_few_founders_are_counted(crowd):
    async with crowd() as here:
        one, other = await asyncio.gather(
            refused(here, "a", members=3), refused(here, "b", members=3)
        )
        assert "reachable: a, b; founding the group needs 3 members" in one
        assert "reachable: b, a; founding the group needs 3 members" in other


async def test_founders_that_are_missing_are_named(crowd, free_ports):
    peers = [f"{name}=127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)]
    async with crowd() as here:
        told = await refused(here, "a", peers=peers)
        assert "founding the group needs 3 members, missing: b, c" in told


async def test_a_quorum_that_can_never_form_is_told_with_who_is_there_and_needed(crowd):
    async with crowd() as here:
        (_a, one), (b, _), (c, _) = await here.found("abc")
        here.crash(b)
        here.crash(c)
        await one.until_status("minority")
        told = await refused(here, "d", members=3)
        assert "the group's view 1 has a, b, c" in told
        assert "it needs 2 of them to continue and only reaches a" in told


async def test_names_that_get_one_number_are_told_apart(crowd, monkeypatch):
    """31 bits are enough for names, almost always."""
    numbers = {"c": lives.pid_of_name("a")}
    real = introductions.pid_of_name
    monkeypatch.setattr(introductions, "pid_of_name", lambda name: numbers.get(name) or real(name))
    async with crowd() as here:
        (a, _), (_, other) = await here.found("ab")
        assert "the name's hash collides with that of: a" in await refused(here, "c")
        await goes_on(a, other)


async def test_nonsense_from_a_member_is_counted_and_does_no_harm(crowd):
    async with crowd() as here:
        (a, _), (b, other) = await here.found("ab")
        for body in (b"", b"\xc1", bytes(100), encode(Heartbeat(-1, -1))):
            b._driver._channel.transport.send(DATAGRAM, body, (None,))
        while a.snapshot().discarded.get("malformed", 0) < 4:
            await asyncio.sleep(0)
        await goes_on(a, other)


async def test_who_is_too_slow_is_put_out_if_that_was_chosen(crowd, join):
    """It takes nothing, so what it is sent fills the buffers of all."""
    async with crowd() as here:
        (a, one), (_b, _) = await here.found("ab", overflow="exclude", buffer=50)
        c = await join("c", protocol="s-vsm", overflow="exclude", buffer=50, rejoin=False)
        await one.until_members("a", "b", "c")
        sending = asyncio.create_task(keep_sending(a))
        await one.until(lambda: one.changes[-1].left == ("c",))
        sending.cancel()
        with pytest.raises(semcast.ExcludedFromGroup, match="too slow"):
            async for _ in c:
                pass
        await c.close()


async def test_a_state_that_does_not_come_is_said(crowd, join):
    """The one to give it reads nothing."""
    async with crowd() as here:
        a = await join("a", protocol="s-vsm", members=1, snapshot=bytes)
        told = await refused(here, "b", members=1)
        assert "received no state from a, whose application must keep reading messages" in told
        await a.close()


async def keep_sending(group) -> None:
    number = 0
    while True:
        number += 1
        await group.multicast(b"", item=f"item {number}")
        await asyncio.sleep(0)
