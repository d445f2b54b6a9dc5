"""State for those who join: at the right moment, in pieces, whatever breaks meanwhile."""

import asyncio

import pytest

import semcast
from semcast.core.views.state_transfer import StateTransfer
from semcast.runtime.transport.tcp import TcpTransport
from semcast.terms.views import StateChunk

LARGE = bytes(range(256)) * (3 << 12)  # 3 MiB


async def iterate(group: semcast.Group) -> None:
    async for _ in group:
        pass


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The offsets of the pieces that were sent, and how."""
    sent: list[tuple[int, str]] = []
    from semcast.runtime.channel import MemberChannel

    send_tcp = MemberChannel._send_tcp

    def note_tcp(self, address, datagram):
        went = send_tcp(self, address, datagram)
        if isinstance(datagram.datagram, StateChunk):
            sent.append((datagram.datagram.offset, "tcp" if went else "udp"))
        return went

    monkeypatch.setattr(MemberChannel, "_send_tcp", note_tcp)
    return sent


async def join_with_large_state(join, *, donors: str = "ab", **options):
    """A group with a state to give, and one who joins it; all of them and what the last one got."""
    known = {"protocol": "s-vsm", "members": len(donors), **options}
    groups = await asyncio.gather(*(join(name, snapshot=lambda: LARGE, **known) for name in donors))
    reading = [asyncio.create_task(iterate(group)) for group in groups]
    got: list[bytes] = []
    late = await join("z", restore=got.append, **known)
    reading.append(asyncio.create_task(iterate(late)))
    while not got:
        await asyncio.sleep(0)
    return groups, late, got, reading


async def close(groups, reading) -> None:
    await asyncio.gather(*(group.close() for group in groups))
    await asyncio.gather(*reading)


async def test_a_large_state_comes_in_pieces_over_tcp(join, chunks):
    groups, late, got, reading = await join_with_large_state(join)
    assert got == [LARGE]
    ways = [way for _, way in chunks]
    assert ways[-1] == "tcp"
    assert ways.count("tcp") > len(LARGE) // (128 << 10), "datagrams only until TCP stood"
    assert late.members == ("a", "b", "z")
    await close([*groups, late], reading)


async def test_a_state_whose_connection_breaks_goes_on_where_it_was(join, chunks, monkeypatch):
    write, broken = TcpTransport.send, []

    def send_and_break(self, address, frame):
        if len(frame) > 1 << 15 and len(chunks) in (8, 20):
            broken.append(len(chunks))
            connection = self._to[address]
            connection.transport.abort()
            chunks.append((-1, "lost"))
            return True  # It believes that it went.
        return write(self, address, frame)

    monkeypatch.setattr(TcpTransport, "send", send_and_break)
    groups, late, got, reading = await join_with_large_state(join)
    assert broken
    assert got == [LARGE]
    offsets = [offset for offset, _ in chunks if offset >= 0]
    assert offsets.count(0) == 1, "it did not begin again"
    await close([*groups, late], reading)


async def test_without_tcp_datagrams_do_it(join, monkeypatch):
    monkeypatch.setattr(TcpTransport, "is_ready", lambda *_: False)
    groups, late, got, reading = await join_with_large_state(join)
    assert got == [LARGE]
    await close([*groups, late], reading)


async def test_when_the_donor_dies_another_gives_its_state(crowd, monkeypatch):
    asked = asyncio.Event()
    on_want = StateTransfer.on_state_request

    def never_answer(self, source, want, out):
        asked.set()
        if asked_of:
            on_want(self, source, want, out)

    asked_of: list[str] = []
    monkeypatch.setattr(StateTransfer, "on_state_request", never_answer)
    async with crowd() as here:
        (a, one), (_b, _), (_c, other) = await here.found("abc")
        await a.multicast(b"1", item="x")
        await other.until(lambda: other.values == {"x": "1"})
        assert one.values == {"x": "1"}
        joining = asyncio.create_task(here.add("d", members=3))
        await asked.wait()
        here.crash(a)
        asked_of.append("the next one")
        d, late = await joining
        await late.until(lambda: late.values == {"x": "1"})
        await other.until(lambda: set(other.changes[-1].view.members) == {"b", "c", "d"})
        assert set(d.members) == {"b", "c", "d"}


async def test_the_group_goes_on_while_a_joiner_waits_for_its_state(crowd, monkeypatch):
    wanted, held = [], True
    on_want = StateTransfer.on_state_request

    def delay(self, source, want, out):
        wanted.append(want.offset)
        if not held:
            on_want(self, source, want, out)

    monkeypatch.setattr(StateTransfer, "on_state_request", delay)
    async with crowd() as here:
        (a, one), (_b, other) = await here.found("ab")
        joining = asyncio.create_task(here.add("c", members=2))
        await one.until_members("a", "b", "c")
        for number in range(200):
            await a.multicast(b"%d" % number, item=f"item {number}")
        await other.until(lambda: len(other.values) == 200)
        assert not joining.done()
        held = False
        _, late = await joining
        assert late.restored == [b"{}"], "as it was when the joiner's first view began"
        await late.until(lambda: late.values == one.values)


async def test_a_joiner_gets_nothing_where_nobody_has_a_state(join):
    groups = await asyncio.gather(*(join(n, protocol="s-vsm", members=2) for n in "ab"))
    reading = [asyncio.create_task(iterate(group)) for group in groups]
    got: list[bytes] = []
    late = await join("c", protocol="s-vsm", members=2, restore=got.append)
    reading.append(asyncio.create_task(iterate(late)))
    while not got:
        await asyncio.sleep(0)
    assert got == [b""]
    await close([*groups, late], reading)


async def test_what_snapshot_raises_comes_out_of_the_iteration_and_it_is_asked_again(join):
    asked: list[str] = []

    def snapshot() -> bytes:
        asked.append("")
        if len(asked) == 1:
            raise OSError("no room")
        return b"state"

    a = await join("a", protocol="s-vsm", members=1, snapshot=snapshot)
    got: list[bytes] = []
    joining = asyncio.create_task(
        join("b", protocol="s-vsm", members=1, restore=got.append).start()
    )
    with pytest.raises(OSError, match="no room"):
        await iterate(a)
    reading = [asyncio.create_task(iterate(a))]
    b = await joining
    reading.append(asyncio.create_task(iterate(b)))
    while not got:
        await asyncio.sleep(0)
    assert got == [b"state"]
    await close([a, b], reading)


async def test_a_state_that_is_no_bytes_is_refused(join):
    a = await join("a", protocol="s-vsm", members=1, snapshot=lambda: "text")
    joining = asyncio.create_task(join("b", protocol="s-vsm", members=1).start())
    with pytest.raises(semcast.LocalProtocolError, match="snapshot: must return bytes, not str"):
        await iterate(a)
    joining.cancel()
    await asyncio.wait([joining])
    await a.close()


def test_a_fixed_group_has_nobody_to_give_a_state_to(place):
    with pytest.raises(semcast.ConfigError, match="has a fixed membership"):
        semcast.join("g", members=2, snapshot=bytes)
