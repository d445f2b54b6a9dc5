"""Members of different versions: they speak what all of them can, or say by name who cannot."""

import asyncio
import logging
import socket
import subprocess
import sys

import msgspec
import pytest

import semcast
from semcast.runtime.membership.gathering import (
    CANDIDATES_MAX,
    Hello,
    RosterAgreement,
    RosterEntry,
    encode_hello,
    read_greeting,
)
from semcast.runtime.membership.versions import RECENT_S, Versions
from semcast.wire import frames
from semcast.wire.frames import DATAGRAM, HELLO, Claim, FrameHeader, group_id, member_id, pack
from semcast.wire.sealing import Sealer

SOON_S = 2.0


def hello(name, *versions):
    return Hello(name, 7, 1, 0, versions=versions)


def test_a_hello_announces_what_the_process_speaks(monkeypatch):
    assert read_greeting(encode_hello(Hello("a", 7, 1, 0))).versions == (1, 1)
    monkeypatch.setattr(frames, "HIGHEST", 2)
    assert read_greeting(encode_hello(Hello("a", 7, 1, 0))).versions == (1, 2)


def test_all_in_the_view_must_have_announced_it(monkeypatch):
    monkeypatch.setattr(frames, "HIGHEST", 3)
    versions = Versions()
    assert versions.speakable([], 0.0) == 3, "alone"
    assert versions.speakable([1], 0.0) == 1, "whoever said nothing speaks the lowest"
    assert versions.on_hello(1, hello("a", 1, 3), 0.0)
    assert versions.on_hello(2, hello("b", 1, 2), 0.0)
    assert versions.speakable([1, 2], 9.0) == 2
    assert versions.speakable([1], 9.0) == 3
    assert versions.on_hello(2, hello("b", 1, 3), 9.0)
    assert versions.speakable([1, 2], 9.0) == 3, "it was upgraded"


def test_who_is_about_to_join_must_understand_it(monkeypatch):
    monkeypatch.setattr(frames, "HIGHEST", 2)
    versions = Versions()
    versions.on_hello(1, hello("a", 1, 2), 0.0)
    versions.on_hello(2, hello("b", 1, 1), 5.0)
    assert versions.speakable([1], 5.0 + RECENT_S / 2) == 1
    assert versions.speakable([1], 5.0 + RECENT_S) == 2


def test_who_cannot_be_understood_is_named_once(caplog):
    versions = Versions()
    versions.know(["c"])
    for _ in range(3):
        assert not versions.on_hello(2, hello("b", 2, 3), 0.0)
        assert not versions.on_hello(4, hello("d", 0, 0), 0.0)
        versions.on_claim(Claim(9, 1, member_id("c")))
        versions.on_claim(Claim(9, 1, 12345))
    assert versions.speakable([], 0.0) == 1, "it does not hold the others up"
    told = [
        "b runs a newer version of semcast; upgrade this process",
        "d runs an older version of semcast; upgrade that process",
        "c runs a newer version of semcast; upgrade this process",
        "somebody runs a newer version of semcast; upgrade this process",
    ]
    assert [record.message for record in caplog.records] == told
    assert str(versions) == "".join(f"; {each}" for each in told)
    assert versions.on_hello(2, hello("b", 1, 2), 0.0)
    assert "b runs" not in str(versions)


def test_claims_and_hellos_take_little_memory(caplog):
    caplog.set_level(logging.ERROR)
    versions = Versions()
    for number in range(2 * CANDIDATES_MAX):
        versions.on_claim(Claim(9, 1, number))
        versions.on_hello(number, hello(f"{number}", 1, 1), 0.0)
    assert len(versions._warned) == 1
    assert len(versions._names) == len(versions._heard) == CANDIDATES_MAX


class Chance:
    def getrandbits(self, _bits):
        return 5


def test_a_roster_says_what_each_member_speaks():
    """So all know it from one source, whichever hellos they heard."""
    own = RosterEntry("a", 1, "127.0.0.1", 1, 3, (1, 2))
    gathering = RosterAgreement(own, 2, 7, Chance(), None)
    said = msgspec.msgpack.encode(Hello("b", 7, 9, gathering.nonce, bytes(200), versions=(1, 4)))
    gathering.on_hello(member_id("b"), 2, said, ("127.0.0.1", 2), 0.0, salt=6)
    gathering.on_time(1.0)
    assert gathering.proposal == (own, RosterEntry("b", 2, "127.0.0.1", 2, 6, (1, 4)))


def test_those_who_cannot_understand_each_other_are_no_group():
    gathering = RosterAgreement(
        RosterEntry("a", 1, "127.0.0.1", 1, 3, (1, 2)), 2, 7, Chance(), None
    )
    said = msgspec.msgpack.encode(Hello("b", 7, 9, gathering.nonce, bytes(200), versions=(3, 4)))
    gathering.on_hello(member_id("b"), 2, said, ("127.0.0.1", 2), 0.0)
    gathering.on_time(1.0)
    assert gathering.proposal == ()


def version_of(group):
    return group._driver._channel.transport.sealer.version


MEMBER = """
import asyncio, logging, sys
from semcast.wire import frames

name, protocol, highest = sys.argv[1:]
frames.HIGHEST = int(highest)
import semcast

async def main():
    joining = semcast.join(name, name="z", members=3, protocol=protocol, control=False, linger=10)
    async with joining as group:
        await group.multicast(b"hi", item="z", never_purge=True)
        async for message in group:
            if message.sender == "a":
                break
        print(group._driver._channel.transport.sealer.version, message.payload.decode(), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


async def start(group, protocol, highest):
    """A process that speaks up to this version; it ends when its input does."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", MEMBER, group, protocol, str(highest)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("protocol", ["s-rm", "s-vsm"])
async def test_a_mixed_group_speaks_what_all_of_them_can(join, quotes, protocol):
    """One process speaks up to 2, the others 1."""
    newer = await start(quotes, protocol, highest=2)
    try:
        groups = await asyncio.gather(*(join(name, members=3, protocol=protocol) for name in "ab"))
        await groups[0].multicast(b"hello", item="a", never_purge=True)
        assert (await newer.stdout.readline()).split() == [b"1", b"hello"]
        found = []
        while "z" not in found:
            found += [message.sender for message in await groups[1].receive()]
        assert {version_of(group) for group in groups} == {1}
    finally:
        newer.stdin.close()
        await newer.wait()
    await asyncio.gather(*(group.close() for group in groups))


@pytest.mark.parametrize("protocol", ["s-rm", "s-vsm"])
async def test_a_group_of_newer_members_speaks_the_newer_version(join, monkeypatch, protocol):
    monkeypatch.setattr(frames, "HIGHEST", 2)
    groups = await asyncio.gather(*(join(name, members=2, protocol=protocol) for name in "ab"))
    await groups[0].multicast(b"1", never_purge=True)
    for group in groups:
        assert [message.payload for message in await group.receive()] == [b"1"]
        assert version_of(group) == 2
    await asyncio.gather(*(group.close() for group in groups))


async def test_an_older_process_joins_and_the_view_speaks_its_version(crowd, quotes, monkeypatch):
    monkeypatch.setattr(frames, "HIGHEST", 2)
    async with crowd() as here:
        (a, one), (b, _) = await here.found("ab")
        assert version_of(a) == version_of(b) == 2
        older = await start(quotes, "s-vsm", highest=1)
        await one.until_members("a", "b", "z")
        await a.multicast(b"hello", item="a", never_purge=True)
        assert (await older.stdout.readline()).split() == [b"1", b"hello"]
        assert version_of(a) == version_of(b) == 1
        older.stdin.close()
        await older.wait()
        await one.until(lambda: one.changes[-1].left == ("z",))
        while version_of(a) != 2:
            await asyncio.sleep(0.05)


async def refused(joining) -> str:
    with pytest.raises(semcast.JoinTimeout) as error:
        await joining
    return str(error.value)


async def besiege(frame, port, joining) -> str:
    """Why a process does not get in that hears only this frame."""
    waiting = asyncio.ensure_future(refused(joining))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        while not waiting.done():
            stranger.sendto(frame, ("127.0.0.1", port))
            await asyncio.wait([waiting], timeout=0.05)
    return await waiting


@pytest.mark.parametrize("protocol", ["s-rm", "s-vsm"])
async def test_a_frame_of_version_nine_is_refused_by_the_name_of_a_peer(
    join, quotes, free_ports, protocol
):
    peers = [f"{name}=127.0.0.1:{port}" for name, port in zip("ab", free_ports(2), strict=True)]
    port = int(peers[0].rsplit(":")[-1])
    frame = pack(FrameHeader(DATAGRAM, 0, 0, group_id(quotes), member_id("b"), 1, 1, 1), 9)
    joining = join("a", peers=peers, protocol=protocol, join_timeout=SOON_S)
    told = await besiege(frame, port, joining)
    assert "; b runs a newer version of semcast; upgrade this process" in told


@pytest.mark.parametrize("protocol", ["s-rm", "s-vsm"])
async def test_a_process_that_speaks_only_later_versions_is_refused_by_name(
    join, quotes, free_ports, protocol, caplog
):
    """Its hello can be read for good, so its name is known without any list of peers."""
    [port] = free_ports(1)
    sealer = Sealer(quotes, member_id("b"), 1, None)
    said = msgspec.msgpack.encode(Hello("b", 7, 9, 0, bytes(200), versions=(2, 3)))
    waiting = join("a", members=2, protocol=protocol, bind=f"127.0.0.1:{port}", join_timeout=SOON_S)
    told = await besiege(sealer.seal(HELLO, said), port, waiting)
    expected = "b runs a newer version of semcast; upgrade this process"
    assert f"; {expected}" in told
    assert [each.message for each in caplog.records].count(expected) == 1
