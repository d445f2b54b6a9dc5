"""Repair over TCP, on loopback: what is carried, whom it cuts off, and what when it fails."""

import asyncio
import socket

import pytest

from semcast.runtime.transport import tcp as module
from semcast.runtime.transport.tcp import (
    LENGTH,
    UNAUTHENTICATED_BYTES_MAX,
    WAITING_BYTES_MAX,
    TcpTransport,
)

FRAME_BYTES_MAX = 1 << 20
HELLO = b"believe me"


class End:
    """A member's connections.  It believes frames that begin with the word."""

    def __init__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = self.listening.getsockname()
        self.frames = []
        self.batches = 0
        self.came = asyncio.Event()
        self.bulk = TcpTransport(self.listening, FRAME_BYTES_MAX, self.take, self.on_batch)
        self.bulk.first_frame = lambda: HELLO

    def take(self, frame, source):
        self.frames.append(frame)
        self.came.set()
        return frame.startswith(HELLO)

    def on_batch(self):
        self.batches += 1
        self.came.set()

    async def until(self, is_so):
        while not is_so(self):
            self.came.clear()
            await self.came.wait()

    async def reach(self, other):
        """Connect."""
        while not self.bulk.is_ready(other.address):
            await asyncio.gather(*self.bulk._opening.values())


@pytest.fixture
def ends():
    """`await ends()` makes two that listen; call it in a running loop."""
    made = []

    async def make():
        two = [End(), End()]
        made.extend(two)
        for end in two:
            await end.bulk.start()
        return two

    yield make
    for end in made:
        end.listening.close()


async def stranger(end):
    return await asyncio.open_connection(*end.address)


async def is_cut_off(reader):
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.usefixtures("either_loop")
async def test_frames_arrive_whole_and_in_order_whatever_their_size(ends):
    ada, bob = await ends()
    await ada.reach(bob)
    sizes = [0, 1, 70_000, FRAME_BYTES_MAX - len(HELLO)]
    for size in sizes:
        assert ada.bulk.send(bob.address, HELLO + bytes(size))
    await bob.until(lambda end: len(end.frames) == 1 + len(sizes))
    assert [len(frame) - len(HELLO) for frame in bob.frames] == [0, *sizes]
    assert 0 < bob.batches <= len(bob.frames)
    for end in (ada, bob):
        await end.bulk.close()


@pytest.mark.usefixtures("either_loop")
async def test_whoever_connects_introduces_itself_first(ends):
    """Only a small frame is read of a stranger, and the first repair may be a large one."""
    ada, bob = await ends()
    await ada.reach(bob)
    assert ada.bulk.send(bob.address, HELLO + bytes(2 * UNAUTHENTICATED_BYTES_MAX))
    await bob.until(lambda end: len(end.frames) == 2)
    assert bob.frames[0] == HELLO
    for end in (ada, bob):
        await end.bulk.close()


@pytest.mark.parametrize(
    "said",
    [
        LENGTH.pack(7) + b"garbage",
        LENGTH.pack(0),
        LENGTH.pack(UNAUTHENTICATED_BYTES_MAX + 1),
        b"\xff" * 64,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["garbage", "empty", "long", "huge", "http"],
)
async def test_a_stranger_that_is_not_believed_is_cut_off_at_once(ends, said, monkeypatch):
    monkeypatch.setattr(module, "UNAUTHENTICATED_S", 1000.0)
    ada, _ = await ends()
    reader, writer = await stranger(ada)
    writer.write(said)
    assert await is_cut_off(reader)
    writer.close()
    await ada.bulk.close()


async def test_a_stranger_that_says_nothing_is_cut_off(ends, monkeypatch):
    monkeypatch.setattr(module, "UNAUTHENTICATED_S", 0.05)
    ada, _ = await ends()
    reader, writer = await stranger(ada)
    writer.write(LENGTH.pack(100) + b"never the rest")
    assert await is_cut_off(reader)
    assert ada.frames == []
    writer.close()
    await ada.bulk.close()


async def test_who_was_believed_may_say_more_but_not_more_than_a_frame(ends):
    ada, _ = await ends()
    reader, writer = await stranger(ada)
    for frame in (
        HELLO,
        b"not believed, but from a friend",
        HELLO + bytes(UNAUTHENTICATED_BYTES_MAX),
    ):
        writer.write(LENGTH.pack(len(frame)) + frame)
    await ada.until(lambda end: len(end.frames) == 3)
    writer.write(LENGTH.pack(FRAME_BYTES_MAX + 1))
    assert await is_cut_off(reader)
    writer.close()
    await ada.bulk.close()


async def test_the_number_of_connections_is_bounded(ends, monkeypatch):
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(module, "UNAUTHENTICATED_S", 1000.0)
    ada, _ = await ends()
    kept = [await stranger(ada) for _ in range(2)]
    for _, writer in kept:
        writer.write(LENGTH.pack(len(HELLO)) + HELLO)
    await ada.until(lambda end: len(end.frames) == 2)
    reader, writer = await stranger(ada)
    assert await is_cut_off(reader)
    for _, opened in [*kept, (reader, writer)]:
        opened.close()
    await ada.bulk.close()


async def test_what_waits_is_bounded(ends):
    """A peer that does not read: then datagrams have to do it."""
    ada, bob = await ends()
    accepted = []
    bob.bulk._server.close()
    deaf = socket.create_server(("127.0.0.1", 0))
    deaf.setblocking(False)
    bob.address = deaf.getsockname()
    await ada.reach(bob)
    while ada.bulk.send(bob.address, bytes(FRAME_BYTES_MAX)):
        accepted.append(1)
    assert len(accepted) >= WAITING_BYTES_MAX // FRAME_BYTES_MAX - 1
    connection = ada.bulk._to[bob.address]
    assert connection.transport.get_write_buffer_size() <= WAITING_BYTES_MAX
    deaf.close()
    await ada.bulk.close()


async def test_a_refused_connection_is_not_tried_again_at_once(ends, monkeypatch):
    ada, bob = await ends()
    bob.bulk._server.close()
    await bob.bulk._server.wait_closed()
    assert not ada.bulk.is_ready(bob.address)
    await asyncio.gather(*ada.bulk._opening.values())
    assert not ada.bulk.is_ready(bob.address)
    assert not ada.bulk._opening
    assert not ada.bulk.send(bob.address, b"goes otherwise")
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    assert not ada.bulk.is_ready(bob.address)
    assert ada.bulk._opening
    await ada.bulk.close()


async def test_a_connection_that_cannot_be_begun_is_not_left_open(ends):
    a, b = await ends()
    a.bulk.first_frame = lambda: bytes(WAITING_BYTES_MAX + 1)
    assert not a.bulk.is_ready(b.address)
    await asyncio.gather(*a.bulk._opening.values())
    await asyncio.sleep(0)
    assert not a.bulk._connections
    assert not a.bulk.is_ready(b.address)
    assert not a.bulk._opening, "tried again at once"


async def test_a_lost_connection_is_made_again(ends):
    ada, bob = await ends()
    await ada.reach(bob)
    await bob.until(lambda end: end.frames)
    ada.bulk._to[bob.address].transport.abort()
    while bob.address in ada.bulk._to:
        await asyncio.sleep(0)
    await ada.reach(bob)
    assert ada.bulk.send(bob.address, HELLO + b"again")
    await bob.until(lambda end: end.frames[-1] == HELLO + b"again")
    for end in (ada, bob):
        await end.bulk.close()


async def test_closing_ends_what_is_being_opened(ends):
    ada, bob = await ends()
    assert not ada.bulk.is_ready(bob.address)
    (opening,) = ada.bulk._opening.values()
    await ada.bulk.close()
    assert opening.cancelled()
    await bob.bulk.close()


async def test_who_is_cancelled_while_it_begins_to_listen_leaves_nothing_in_the_event_loop():
    """Else the next socket with the number of this one would never be read."""
    end = End()
    starting = asyncio.create_task(end.bulk.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    number = end.listening.fileno()
    await end.bulk.close()
    end.listening.close()
    assert not asyncio.get_running_loop().remove_reader(number)
