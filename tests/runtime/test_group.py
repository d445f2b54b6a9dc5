"""Live members in one event loop, over loopback: what is delivered, and what at the edges."""

import asyncio
import random
import socket

import pytest

import semcast
from semcast import Update
from semcast.runtime.membership import session
from semcast.runtime.storage import keyring
from semcast.runtime.storage.keyring import KeyRing, new_key
from semcast.runtime.transport import tcp as bulk
from semcast.terms.errors import LocalProtocolError
from semcast.terms.messages import Data, DataMessage
from semcast.traces.journal import Journal
from semcast.wire import encode
from semcast.wire.frames import DATAGRAM, FRAGMENT, GOODBYE, HELLO, KINDS, REPORT, ROSTER, member_id
from semcast.wire.sealing import Key, Sealer


def payloads(messages):
    return [message.payload for message in messages]


def address_of(group):
    """Where a member hears what is sent to it alone."""
    return group._driver._channel.transport._unicast.getsockname()


def mute(group):
    """The member neither sends nor hears: as good as crashed, and all else stays open."""
    group._driver._channel.transport.send_all = lambda *_: None
    group._driver._channel.transport.on_frame = lambda *_: None


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0)


async def test_everyone_delivers_everything_in_the_order_of_its_sender(meet, take):
    async with meet("abc") as groups:
        for number in range(50):
            for sender in groups:
                assert await sender.multicast(b"%d" % number) == number + 1
        for receiver in groups:
            found = await take(receiver, 150)
            for sender in groups:
                mine = [m for m in found if m.sender == sender.member]
                assert payloads(mine) == [b"%d" % number for number in range(50)]
                assert [m.seq for m in mine] == list(range(1, 51))
                assert {(m.item, m.skipped, m.kept) for m in mine} == {(None, 0, False)}


@pytest.mark.parametrize(
    ("protocol", "order"),
    [("s-rm", "fifo"), ("s-rm", "item"), ("s-rm", "causal"), ("s-sm", "item"), ("rm", "fifo")],
)
async def test_every_protocol_and_order_delivers(meet, take, protocol, order):
    async with meet("ab", protocol=protocol, order=order) as (a, b):
        await a.multicast_many([Update(b"%d" % n, item=f"i{n % 3}") for n in range(30)])
        for receiver in (a, b):
            found = await take(receiver, 30)
            for item in ("i0", "i1", "i2"):
                seen = [int(m.payload) for m in found if m.item == item]
                assert seen == sorted(seen)
            assert {m.item: m.payload for m in found} == {"i0": b"27", "i1": b"28", "i2": b"29"}


async def test_what_a_slow_member_skipped_is_told_to_it_and_about_it(meet, take):
    async with meet("ab", buffer=64) as (a, b):
        for number in range(3000):
            await a.multicast(b"%d" % number, item="x")
        found = await take(b, 3000)
        assert found[-1].payload == b"2999"
        assert sum(1 + m.skipped for m in found) == 3000
        assert b.snapshot().skipped == sum(m.skipped for m in found) > 2000
        await take(a, 3000)


async def test_nothing_supersedes_what_is_never_purged(meet, take):
    async with meet("ab", buffer=64) as (a, b):
        await a.multicast(b"kept", item="x", never_purge=True)
        for number in range(1000):
            await a.multicast(b"%d" % number, item="x")
        await a.tombstone("x", b"gone")
        for receiver in (a, b):
            found = await take(receiver, 1002)
            assert payloads(found)[0] == b"kept"
            assert payloads(found)[-1] == b"gone"
            assert [m.kept for m in found if m.kept] == [True, True]
            assert len(found) < 500


async def test_a_tombstone_supersedes_the_updates_of_its_item(meet, take):
    async with meet("ab", buffer=8) as (a, b):
        for _ in range(100):
            await a.multicast(b"live", item="x")
        await a.tombstone("x")
        await a.multicast(b"other", item="y")
        await take(a, 102)
        found = await take(b, 102)
        assert payloads(found)[-2:] == [b"", b"other"]
        assert found[-2].kept
        assert found[-2].item == "x"


async def test_the_sender_waits_only_for_what_may_not_be_purged(meet, take):
    async with meet("ab", buffer=4) as (a, b):
        numbers = [a.try_multicast(b"", never_purge=True) for _ in range(20)]
        accepted = [number for number in numbers if number is not None]
        assert accepted == list(range(1, len(accepted) + 1))
        assert numbers[-1] is None
        assert a.snapshot().is_blocked
        waiting = asyncio.ensure_future(a.multicast(b"later", never_purge=True))
        await asyncio.sleep(0)
        assert not waiting.done()
        readers = [asyncio.ensure_future(take(g, len(accepted) + 1)) for g in (a, b)]
        assert await waiting == len(accepted) + 1
        for found in await asyncio.gather(*readers):
            assert found[-1].payload == b"later"


@pytest.mark.parametrize("protocol", ["s-rm", "s-sm"])
async def test_without_echo_a_sender_need_not_read(meet, take, protocol):
    async with meet("ab", buffer=16, echo=False, protocol=protocol) as (a, b):
        updates = [Update(b"%d" % n, "x", never_purge=True) for n in range(500)]
        _, found = await asyncio.gather(a.multicast_many(updates), take(b, 500))
        assert payloads(found) == [update.payload for update in updates]
        await b.multicast(b"answer")
        (answer,) = await take(a, 1)
        assert (answer.sender, answer.payload, answer.skipped) == ("b", b"answer", 0)


async def test_many_senders_of_one_member_get_the_numbers_of_their_messages(meet, take):
    async with meet("ab") as (a, b):

        async def send(name):
            return {await a.multicast(name): name for _ in range(400)}

        sent = await asyncio.gather(send(b"x"), send(b"y"), take(a, 800), take(b, 800))
        assert {m.seq: m.payload for m in sent[3]} == sent[0] | sent[1]


async def test_at_the_bound_an_error_can_be_had_instead(meet, take):
    async with meet("ab", buffer=4, overflow="error") as (a, b):
        with pytest.raises(semcast.BufferFull, match="can be purged"):
            await a.multicast_many([Update(b"", never_purge=True)] * 20)
        sent = a.snapshot().sent
        assert 4 <= sent < 20
        assert a.try_multicast(b"", never_purge=True) is None
        for receiver in (a, b):
            await take(receiver, sent)
        await until(lambda: a.try_multicast(b"again") is not None)
        assert payloads(await take(b, 1)) == [b"again"]
        await take(a, 1)


async def test_a_batch_may_be_larger_than_the_buffer(meet, take):
    async with meet("ab", buffer=16) as (a, b):
        updates = [Update(b"%d" % n, never_purge=True) for n in range(1000)]
        done = await asyncio.gather(a.multicast_many(iter(updates)), take(a, 1000), take(b, 1000))
        assert payloads(done[1]) == payloads(done[2]) == [b"%d" % n for n in range(1000)]


async def test_an_item_may_be_a_number(meet, take):
    async with meet("ab") as (a, b):
        await a.multicast_many([Update(b"1", 7), Update(b"2", "7"), Update(b"3", -(1 << 63))])
        assert [m.item for m in await take(b, 3)] == [7, "7", -(1 << 63)]


@pytest.mark.parametrize("bad", [Update("text"), Update(b"", item=5.0), Update(b"", ""), None])
async def test_what_stands_before_an_impossible_message_is_sent(meet, take, bad):
    async with meet("ab") as (a, b):
        with pytest.raises(semcast.LocalProtocolError):
            await a.multicast_many([Update(b"1"), Update(b"2"), bad, Update(b"3")])
        assert payloads(await take(b, 2)) == [b"1", b"2"]
        assert a.snapshot().sent == 2


async def test_what_stands_before_a_message_too_large_is_sent_once(meet, take):
    async with meet("ab", message_max="4 KiB") as (a, b):
        updates = [Update(b"%d" % number) for number in range(300)]
        updates[10] = Update(bytes(5000))
        with pytest.raises(semcast.LocalProtocolError, match="maximum is 4096"):
            await a.multicast_many(updates)
        assert payloads(await take(b, 10)) == [b"%d" % number for number in range(10)]
        assert a.snapshot().sent == 10


async def test_a_message_may_be_too_large(meet, take):
    async with meet("ab", message_max="4 KiB") as (a, b):
        with pytest.raises(semcast.LocalProtocolError, match="maximum is 4096"):
            await a.multicast(bytes(5000))
        with pytest.raises(semcast.LocalProtocolError):
            await a.multicast(b"", item="x" * 5000)
        assert await a.multicast(b"small") == 1
        assert payloads(await take(b, 1)) == [b"small"]


@pytest.mark.parametrize("relation", ["list", "bitmap"])
async def test_messages_name_what_they_make_obsolete(meet, take, relation):
    async with meet("ab", relation=relation, buffer=8) as (a, b):
        last = await a.multicast(b"0", never_purge=True)
        for number in range(1, 500):
            named = [last] if number > 1 else []
            last = await a.multicast(b"%d" % number, obsoletes=named)
        found = await take(b, 500)
        assert payloads(found)[0] == b"0"
        assert payloads(found)[-1] == b"499"
        assert len(found) < 100
        with pytest.raises(semcast.LocalProtocolError):
            await a.multicast(b"", obsoletes=[last + 1])
        await take(a, 500)


class Slots:
    """A relation of the application: a message supersedes the one before in its slot."""

    def __init__(self):
        self.last = {}

    def obsoletes(self, seq, item, payload):
        before = self.last.get((item, payload[:1]))
        return [] if before is None else [before]

    def sent(self, seq, item, payload):
        self.last[item, payload[:1]] = seq


async def test_a_relation_may_be_the_applications_own(join, take):
    options = {"members": 2, "buffer": 8}
    a, b = await asyncio.gather(*(join(name, relation=Slots(), **options) for name in "ab"))
    updates = [Update(b"%d-%d" % (n % 2, n), item="x") for n in range(600)]
    _, _, found = await asyncio.gather(a.multicast_many(updates), take(a, 600), take(b, 600))
    assert {m.payload[:1]: m.payload for m in found} == {b"0": b"0-598", b"1": b"1-599"}
    await asyncio.gather(a.close(), b.close())


async def test_iteration_batches_and_receive_hand_over_the_same_stream(meet):
    async with meet("a") as (a,):
        await a.multicast_many([Update(b"%d" % n) for n in range(30)])
        found = []
        async for message in a:
            found.append(message)
            if len(found) == 5:
                break
        found += await a.receive(7)
        async for batch in a.batches(4):
            assert 1 <= len(batch) <= 4
            found += batch
            if len(found) >= 20:
                break
        while len(found) < 30:
            found += await a.receive()
        assert payloads(found) == [b"%d" % n for n in range(30)]
        with pytest.raises(semcast.LocalProtocolError, match="limit"):
            await a.receive(0)


async def test_a_cancelled_receive_loses_nothing(meet, take):
    async with meet("ab") as (a, b):
        waiting = asyncio.ensure_future(b.receive())
        await asyncio.sleep(0)
        with pytest.raises(semcast.LocalProtocolError, match="another task"):
            await b.receive()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await b.receive()
        await a.multicast(b"1")
        assert payloads(await take(b, 1)) == [b"1"]


async def test_a_cancelled_multicast_was_not_sent(meet, take):
    async with meet("ab", buffer=4) as (a, b):
        sent = 0
        while a.try_multicast(b"", never_purge=True):
            sent += 1
        waiting = asyncio.ensure_future(a.multicast(b"never", never_purge=True))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        for receiver in (a, b):
            await take(receiver, sent)
        await until(lambda: a.try_multicast(b"next", never_purge=True))
        assert payloads(await take(b, 1)) == [b"next"]


async def test_closing_sends_what_waits_and_twice_is_fine(join, take):
    a, b = await asyncio.gather(*(join(n, members=2, coalesce="1 s") for n in "ab"))
    await a.multicast(b"last words")
    await a.close()
    await a.close()
    assert a.is_closed
    assert payloads(await take(b, 1)) == [b"last words"]
    await b.close()


async def test_a_closed_group_says_so(meet, take):
    async with meet("ab") as (a, b):
        await a.multicast(b"1")
        await take(b, 1)
        waiting = asyncio.ensure_future(b.receive())
        await b.close()
        assert await waiting == []
        assert [message async for message in b] == []
        for call in (b.multicast(b""), b.multicast_many([Update(b"")])):
            with pytest.raises(semcast.LocalProtocolError, match="closed"):
                await call
        with pytest.raises(semcast.LocalProtocolError, match="closed"):
            b.try_multicast(b"")
        with pytest.raises(semcast.LocalProtocolError, match="closed"):
            b.forget("a")


async def test_a_closed_member_does_nothing_more(join):
    a, b = await asyncio.gather(*(join(name, members=2, linger=0) for name in "ab"))
    await a.multicast(b"not yet everywhere")
    await a.close()
    driver = a._driver
    driver.on_datagram(1, b"nonsense")
    driver.on_drained()
    assert driver._timer is None
    await b.close()


async def test_a_sender_that_waits_is_told_of_the_end(meet):
    async with meet("ab", buffer=2, linger=0) as (a, _):
        while a.try_multicast(b"", never_purge=True):
            pass
        waiting = asyncio.ensure_future(a.multicast(b"", never_purge=True))
        await asyncio.sleep(0)
        await a.close()
        with pytest.raises(semcast.LocalProtocolError, match="closed"):
            await waiting


async def test_an_exception_in_the_body_leaves_the_group(join, take):
    joined = asyncio.ensure_future(join("b", members=2).start())

    async def fail():
        async with join("a", members=2) as a:
            await a.multicast(b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    b = await joined
    assert payloads(await take(b, 1)) == [b"1"]
    await b.close()


async def test_a_cancelled_body_leaves_the_group(join, take):
    """As after an interrupt, which cancels what the loop runs."""
    inside = asyncio.Event()

    async def run():
        async with join("a", members=2) as a:
            await a.multicast(b"1")
            inside.set()
            await a.receive(1)
            await a.receive(1)

    running = asyncio.ensure_future(run())
    b = await join("b", members=2)
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert payloads(await take(b, 1)) == [b"1"]
    await until(lambda: b.snapshot().peers[0].is_forgotten)
    await b.close()


async def test_a_cancelled_close_gives_everything_back(join):
    a, b = await asyncio.gather(*(join(name, members=2, linger=60) for name in "ab"))
    mute(b)
    address = address_of(a)
    await a.multicast(b"nobody will have it")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await a.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(address)
    await b.close()


@pytest.mark.parametrize("names", ["ab", "abc"])
async def test_a_member_that_leaves_does_not_hold_the_others_up(meet, take, names):
    """Not even one that had not read what it had, though f may be 0."""
    async with meet(names, buffer=8, linger="400 ms") as (a, b, *others):
        readers = [asyncio.ensure_future(take(group, 300)) for group in (a, *others)]
        updates = [Update(b"", never_purge=True) for _ in range(300)]
        sending = asyncio.ensure_future(a.multicast_many(updates))
        await until(lambda: a.snapshot().is_blocked)
        await b.close()
        await sending
        await asyncio.gather(*readers)
        (left,) = [peer for peer in a.snapshot().peers if peer.name == "b"]
        assert left.is_forgotten


async def test_a_member_leaves_while_the_others_go_on(meet, take):
    """It waits in vain for half of `linger`; in the other half it comes to owe nothing."""
    async with meet("ab", linger="2 s") as (a, b):
        stop = asyncio.Event()

        async def send():
            sent = 0
            while not stop.is_set():
                await a.multicast(b"", never_purge=True)
                sent += 1
            return sent

        async def read(group):
            async for _ in group:
                pass

        readers = [asyncio.ensure_future(read(group)) for group in (a, b)]
        sending = asyncio.ensure_future(send())
        await until(lambda: b.snapshot().delivered > 100)
        await b.close()
        await readers[1]
        await until(lambda: a.snapshot().peers[0].is_forgotten)
        stop.set()
        await sending
        await a.close()
        await readers[0]


async def test_a_crashed_member_is_forgotten_and_the_rest_go_on(meet, take):
    async with meet("abc", buffer=8, linger="200 ms") as (a, b, c):
        mute(c)
        while a.try_multicast(b"", never_purge=True):
            pass
        sent = a.snapshot().sent
        await asyncio.gather(take(a, sent), take(b, sent))
        assert a.try_multicast(b"", never_purge=True) is None
        assert a.snapshot().slowest == a.snapshot().blocked_by == "c"
        a.forget("c")
        b.forget("c")
        await a.multicast(b"goes on", never_purge=True)
        assert payloads(await take(b, 1)) == [b"goes on"]
        with pytest.raises(semcast.LocalProtocolError, match="limit of f = 1"):
            a.forget("b")
        for unknown in ("d", "a"):
            with pytest.raises(semcast.LocalProtocolError, match="forget"):
                a.forget(unknown)


@pytest.mark.parametrize("mode", ["multicast", "peers"])
async def test_a_forgotten_member_is_told(meet, mode, monkeypatch):
    monkeypatch.setattr(session, "REPORT_PERIOD_S", 0.05)
    options = {}
    if mode == "peers":
        with socket.socket() as one, socket.socket() as two, socket.socket() as three:
            held = [one, two, three]
            for sock in held:
                sock.bind(("127.0.0.1", 0))
            ports = [sock.getsockname()[1] for sock in held]
        options["peers"] = [f"{n}=127.0.0.1:{p}" for n, p in zip("abc", ports, strict=True)]
    async with meet("abc", **options) as (a, b, c):
        waiting = asyncio.ensure_future(c.receive())
        a.forget("c")
        b.forget("c")
        with pytest.raises(semcast.ExcludedFromGroup):
            await waiting
        with pytest.raises(semcast.ExcludedFromGroup):
            await c.multicast(b"")
        assert await a.multicast(b"on") == 1


@pytest.mark.parametrize("options", [{"datagram": 1400}, {}], ids=["small", "large"])
async def test_large_messages_arrive(meet, take, options):
    rng = random.Random(1)
    bodies = [rng.randbytes(900_000) for _ in range(6)]
    async with meet("ab", **options) as (a, b):
        await a.multicast_many([Update(body) for body in bodies])
        found = await asyncio.gather(take(a, 6), take(b, 6))
        assert payloads(found[0]) == payloads(found[1]) == bodies


async def test_much_repair_goes_over_tcp(meet, take):
    async with meet("ab") as (a, b):
        transport, missed, carried = b._driver._channel.transport, [], []
        take_frame = b._driver._channel.tcp.on_frame
        b._driver._channel.tcp.on_frame = lambda frame, source: (
            carried.append(frame) or take_frame(frame, source)
        )
        connections = a._driver._channel.tcp
        await until(lambda: connections.is_ready(address_of(b)))  # Until then, datagrams do it.
        heard, transport.on_frame = transport.on_frame, lambda *given: missed.append(given)
        bodies = [bytes([n]) * 200_000 for n in range(10)]  # within the window
        await a.multicast_many([Update(body) for body in bodies])
        await until(lambda: len(missed) > 10)
        transport.on_frame = heard
        found = await asyncio.gather(take(a, 10), take(b, 10))
        assert payloads(found[1]) == bodies
        assert max(len(frame) for frame in carried) > bulk.UNAUTHENTICATED_BYTES_MAX


async def test_keys_are_exchanged_while_messages_flow(join, place, take):
    old, new = new_key(), new_key()
    path = place / "ring.toml"
    keyring.edit(path, lambda _: KeyRing((old,), old))
    options = {"members": 2, "key": path, "interface": "127.0.0.1"}
    a, b = await asyncio.gather(*(join(name, **options) for name in "ab"))
    stop = asyncio.Event()

    async def send():
        while not stop.is_set():
            await a.multicast(b"", never_purge=True)
            await asyncio.sleep(0)

    async def read(group):
        async for _ in group:
            pass

    tasks = [asyncio.ensure_future(work) for work in (send(), read(a), read(b))]
    changes = [
        lambda ring: ring.with_key(new),
        lambda ring: ring.with_active(new),
        lambda ring: ring.without_key(old),
    ]
    for change in changes:
        ring = keyring.edit(path, change)
        keys = {key.id for key in ring.keys}
        for transport in (a._driver._channel.transport, b._driver._channel.transport):
            await until(lambda t=transport, k=keys: set(t.opener._keys) == k)
            await until(lambda t=transport, r=ring: t.sealer._key == r.active.id)
    before = b.snapshot().delivered
    await until(lambda: b.snapshot().delivered > before + 100)
    assert not b.snapshot().discarded.get("key"), "each was carried to both before it was used"
    stop.set()
    await tasks[0]
    await asyncio.gather(a.close(), b.close())
    await asyncio.gather(*tasks)


def forgeries(name):
    """Frames that a neighbour without the key could make, of every kind."""
    rng = random.Random(2)
    believable = encode(Data((DataMessage(0, 10_000, 1, b"", False, (), b"forged", "x"),)))
    for number in range(2000):
        sealer = Sealer(name, member_id("ab"[number % 2]), rng.choice([1, 2**40]), new_key())
        for kind in (DATAGRAM, FRAGMENT, HELLO, ROSTER, REPORT, GOODBYE):
            yield sealer.seal(kind, believable)
        clear = Sealer(name, member_id("a"), rng.getrandbits(50), None)
        yield clear.seal(number % KINDS, believable)
        yield rng.randbytes(rng.choice([0, 1, 47, 48, 49, 1400]))
        if number == 100:
            return


async def test_garbage_and_forged_frames_change_nothing(join, quotes, place, take):
    path = place / "ring.toml"
    key = new_key()
    keyring.edit(path, lambda _: KeyRing((key,), key))
    options = {"members": 2, "key": path, "interface": "127.0.0.1"}
    a, b = await asyncio.gather(*(join(name, **options) for name in "ab"))
    identity = a._driver._channel.transport.sealer.identity
    frames = list(forgeries(quotes))
    false = new_key()
    twin = Sealer(
        quotes,
        member_id("a"),
        identity.incarnation,
        Key(key.id, false.cipher, false.secret),
        identity.salt,
    )
    frames += [twin.seal(kind, b"x" * 100) for kind in range(KINDS) for _ in range(20)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for number, frame in enumerate(frames):
            stranger.sendto(frame, address_of(b))
            if number % 50 == 0:
                await a.multicast(b"%d" % number, never_purge=True)
                assert payloads(await take(b, 1)) == [b"%d" % number]
    await until(lambda: sum(b.snapshot().discarded.values()) == len(frames))
    seen = b.snapshot()
    assert seen.discarded["forged"] == 20 * KINDS
    assert seen.discarded["key"] >= 300
    assert "namesake" not in seen.discarded, "whoever has no key has no name"
    assert seen.discarded["clear"] + seen.discarded["short"] > 100
    assert not seen.peers[0].is_forgotten
    assert seen.queued == 0
    await take(a, seen.delivered)
    await asyncio.gather(a.close(), b.close())


async def test_a_flood_in_clear_on_loopback_crashes_nobody(meet, take, quotes):
    """Without keys every local process is believed; still nothing that makes no sense is."""
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    rng = random.Random(3)
    async with meet("ab") as (a, b):
        identity = a._driver._channel.transport.sealer.identity
        liar = Sealer(quotes, member_id("a"), identity.incarnation, None, identity.salt)
        liar._counters = [1 << 20] * 2
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for number in range(600):
                body = rng.randbytes(rng.choice([0, 1, 5, 30, 200]))
                frame = liar.seal(number % KINDS, body)
                if number % KINDS not in (GOODBYE,):
                    stranger.sendto(frame, address_of(b))
                if number % 50 == 0:
                    await asyncio.sleep(0)
        await until(lambda: b.snapshot().discarded.get("malformed", 0) > 400)
        assert errors == []


async def test_a_full_disk_ends_the_recording_and_not_the_member(join, take, place, monkeypatch):
    def full(self, events, ts_ns):
        raise OSError(28, "No space left on device")

    def missing():
        raise semcast.ConfigError("not installed")

    monkeypatch.setattr("semcast.traces.journal.pyarrow", missing)  # It takes seconds to import.
    a, b = await asyncio.gather(join("a", members=2, trace=place / "trace"), join("b", members=2))
    monkeypatch.setattr(Journal, "record", full)
    await a.multicast_many([Update(b"%d" % n) for n in range(10)])
    found = await asyncio.gather(take(a, 10), take(b, 10))
    assert [payloads(taken) for taken in found] == [[b"%d" % n for n in range(10)]] * 2
    await asyncio.gather(a.close(), b.close())


async def test_a_member_that_fails_after_the_roster_was_decided_says_goodbye(join, take):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = f"127.0.0.1:{taken.getsockname()[1]}"
        a, failed = await asyncio.gather(
            join("a", members=2, buffer=8),
            join("b", members=2, metrics=metrics),
            return_exceptions=True,
        )
    assert isinstance(failed, semcast.ConfigError)
    reading = asyncio.ensure_future(take(a, 100))
    await a.multicast_many([Update(b"") for _ in range(100)])  # Nobody pins them.
    await reading
    await a.close()


async def test_a_tombstone_needs_items_and_a_relation_leaves_no_lists(join):
    a = await join("a", members=1, relation="list")
    with pytest.raises(LocalProtocolError, match="tombstone"):
        await a.tombstone("x")
    await a.close()
    b = await join("b", members=1, relation=Slots())
    with pytest.raises(LocalProtocolError, match="obsoletes"):
        await b.multicast(b"", item="x", obsoletes=[1])
    await b.close()


async def test_what_stands_before_an_error_of_the_application_is_sent(meet, take):
    def updates():
        yield Update(b"1")
        yield Update(b"2")
        raise KeyError("mine")

    async with meet("ab") as (a, b):
        with pytest.raises(KeyError):
            await a.multicast_many(updates())
        assert payloads(await take(b, 2)) == [b"1", b"2"]
