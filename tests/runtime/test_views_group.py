"""Live groups whose membership changes: founding, joining, leaving, crashes, coming back."""

import asyncio
import json
import socket

import pytest

import semcast
from semcast.runtime.membership.view_session import ViewSession

ORDERS = [
    ("s-vsm", "fifo"),
    ("s-vsm", "item"),
    ("s-vsm", "causal"),
    ("s-vsm", "total"),
    ("vsm", "fifo"),
    ("vsm", "total"),
    ("vs", "total"),
]


@pytest.mark.parametrize(("protocol", "order"), ORDERS)
async def test_every_protocol_and_order_delivers(meet, take, protocol, order):
    async with meet("abc", protocol=protocol, order=order) as groups:
        for number in range(20):
            for sender in groups:
                await sender.multicast(b"%d" % number, item=f"{sender.member} {number}")
        found = [await take(receiver, 60) for receiver in groups]
        for taken in found:
            for sender in "abc":
                numbers = [int(m.payload) for m in taken if m.sender == sender]
                assert numbers == list(range(20))
        if order == "total":
            assert found[0] == found[1] == found[2]
            assert [m.position for m in found[0]] == sorted(m.position for m in found[0])


async def test_founders_begin_with_one_view_of_all(meet):
    async with meet("abc", protocol="s-vsm") as groups:
        for group in groups:
            assert group.view == semcast.View(1, ("a", "b", "c"), is_primary=True)
            assert group.members == ("a", "b", "c")


async def test_a_founder_that_is_cancelled_releases_those_that_have_promised_to_follow_it(
    join, monkeypatch
):
    is_deaf, promised = True, asyncio.Event()
    on_ballot = ViewSession._on_ballot

    def listen(session, opened):
        if not (is_deaf and session.options.name == "c"):
            on_ballot(session, opened)
        if session.options.name == "b":
            promised.set()

    monkeypatch.setattr(ViewSession, "_on_ballot", listen)
    about = {"members": 3, "protocol": "s-vsm", "join_timeout": 10}
    a, b, c = (asyncio.ensure_future(join(name, **about).start()) for name in "abc")
    await promised.wait()  # by a proposal that c does not answer
    a.cancel()
    with pytest.raises(asyncio.CancelledError):
        await a
    is_deaf = False
    groups = await asyncio.gather(join("a", **about), b, c)
    assert [group.members for group in groups] == [("a", "b", "c")] * 3
    await asyncio.gather(*(group.close() for group in groups))


async def test_numbers_that_multicast_returns_are_those_of_messages(meet, take):
    async with meet("abc", protocol="s-vsm", order="total") as groups:
        for sender in groups:
            sent = [await sender.multicast(b"") for _ in range(10)]
            taken = await take(sender, 10)
            assert [m.seq for m in taken if m.sender == sender.member] == sent
            for other in groups:
                if other is not sender:
                    await take(other, 10)


async def test_a_fixed_group_is_one_view_for_ever(meet):
    async with meet("ab") as (a, b):
        assert a.view == semcast.View(1, ("a", "b"), is_primary=True)
        await b.multicast(b"1")
        assert (await anext(a.events())).payload == b"1"


async def test_a_joiner_starts_from_the_state_at_its_first_view_while_the_group_goes_on(crowd):
    async with crowd() as here:
        (a, one), (_b, other) = await here.found("ab")
        is_sending = True

        async def send() -> int:
            number = 0
            while is_sending:
                number += 1
                await a.multicast(b"%d" % number, item=f"item {number % 100}")
                await asyncio.sleep(0.001)
            return number

        sending = asyncio.create_task(send())
        await one.until(lambda: len(one.values) == 100)
        _c, late = await here.add("c", members=2)
        assert (await late.until_members("a", "b", "c")).joined == ("a", "b", "c")
        assert len(json.loads(late.restored[0])) == 100, "it did not start from nothing"
        assert (await other.until_members("a", "b", "c")).joined == ("c",)
        await late.until(lambda: late.values != json.loads(late.restored[0]))
        is_sending = False
        last = await sending
        for table in (one, other, late):
            await table.until(lambda table=table: table.values[f"item {last % 100}"] == str(last))
        assert one.values == other.values == late.values


async def test_who_leaves_is_told_to_the_others_and_what_it_sent_is_not_lost(crowd):
    async with crowd() as here:
        (_a, one), (b, _), (_c, other) = await here.found("abc")
        for number in range(500):
            await b.multicast(b"%d" % number, item=f"item {number}")
        await b.close()
        for table in (one, other):
            assert (await table.until_members("a", "c")).left == ("b",)
            assert len(table.values) == 500


async def test_the_last_one_may_leave_too(crowd):
    async with crowd() as here:
        [(a, _)] = await here.found("a")
        await a.close()
        with pytest.raises(semcast.LocalProtocolError, match="closed"):
            await a.multicast(b"late")


async def test_survivors_of_a_crash_go_on(crowd):
    async with crowd() as here:
        (a, one), (_b, other), (c, _) = await here.found("abc")
        here.crash(c)
        for table in (one, other):
            assert (await table.until_members("a", "b")).left == ("c",)
        await a.multicast(b"1", item="x")
        await other.until(lambda: other.values.get("x") == "1")


async def test_who_was_silent_too_long_is_told_and_comes_back_as_a_new_life(crowd, caplog):
    async with crowd() as here:
        (a, one), (_b, other), (c, late) = await here.found("abc")
        first = c._driver.machine.life
        here.mute(c)
        await one.until_members("a", "b")
        await a.multicast(b"missed", item="x")
        here.unmute(c)
        assert (await late.until_status("excluded")).view.is_primary is False
        warnings = [line for line in caplog.messages if "excluded c" in line]
        assert [line.partition("; ")[2] for line in warnings] == [
            "it rejoins; check that it is not stopped or overloaded, or use a longer timeout"
        ], "it is logged once, however soon the member is back"
        await late.until(
            lambda: late.changes[-1].view.id > 2 and late.changes[-1].status == "member"
        )
        assert set(c.members) == {"a", "b", "c"}
        assert c._driver.machine.life.inc > first.inc
        assert late.values["x"] == "missed", "it was in the state that it came back with"
        await c.multicast(b"back", item="y")
        for table in (one, other):
            await table.until(lambda table=table: table.values.get("y") == "back")


async def test_what_is_multicast_meanwhile_waits_for_the_new_life(crowd):
    async with crowd() as here:
        (_a, one), (_b, _), (c, _) = await here.found("abc")
        here.mute(c)
        await one.until_members("a", "b")
        sending = asyncio.create_task(send_until(c, lambda: c.view.id > 2))
        here.unmute(c)
        sent = await sending
        await one.until(lambda: one.values.get("c") == str(sent))


async def send_until(group, is_so) -> int:
    number = 0
    while not is_so():
        number += 1
        await group.multicast(b"%d" % number, item="c")
        await asyncio.sleep(0.001)
    await group.multicast(b"%d" % (number + 1), item="c")
    return number + 1


async def test_without_rejoin_the_excluded_is_told_by_an_error(crowd):
    async with crowd() as here:
        (_a, one), (_b, _) = await here.found("ab")
        c, late = await here.add("c", members=2, rejoin=False)
        await one.until_members("a", "b", "c")
        await late.until_members("a", "b", "c")
        here.mute(c)
        await one.until(lambda: one.changes[-1].left == ("c",))
        here.unmute(c)
        with pytest.raises(semcast.ExcludedFromGroup, match="the group excluded c"):
            await send_until(c, lambda: False)


async def test_a_minority_waits_says_so_and_goes_on_where_it_was(crowd):
    async with crowd() as here:
        (a, one), (b, _), (c, _) = await here.found("abc")
        here.mute(b)
        here.mute(c)
        told = await one.until_status("minority")
        assert told.view == semcast.View(1, ("a", "b", "c"), is_primary=False)
        assert a.try_multicast(b"1", item="x") is None
        waiting = asyncio.create_task(a.multicast(b"2", item="x"))
        here.unmute(b)
        here.unmute(c)
        await waiting
        await one.until(lambda: one.changes[-1].status == "member" and one.values.get("x") == "2")
        assert a.view.is_primary


async def test_a_minority_that_may_not_wait_is_told_who_is_there_and_how_many_it_takes(crowd):
    async with crowd() as here:
        (a, one), (b, _), (c, _) = await here.found("abc", overflow="error")
        here.mute(b)
        here.mute(c)
        await one.until_status("minority")
        wanted = r"this member reaches 1 of the 3 members of view 1 \(a\) and needs 2"
        with pytest.raises(semcast.NoQuorum, match=wanted):
            await a.multicast(b"1")
        here.unmute(b)
        here.unmute(c)
        await one.until(lambda: one.changes[-1].status == "member")
        await a.multicast(b"1", item="x")


async def test_a_member_that_restarts_comes_back_by_the_same_command(crowd):
    async with crowd() as here:
        (a, one), (_b, _), (c, _) = await here.found("abc")
        await a.multicast(b"1", item="x")
        here.crash(c)
        again, late = await here.add("c", members=3)
        await late.until_members("a", "b", "c")
        assert late.values == {"x": "1"}
        await one.until(lambda: one.changes[-1].view.id > 1 and "c" in one.changes[-1].joined)
        assert again._driver.machine.life.inc > c._driver.machine.life.inc


async def test_components_go_on_apart_and_merge(crowd):
    async with crowd() as here:
        (a, one), (b, other) = await here.found("ab", protocol="vs")
        await one.until_members("a", "b")
        here.mute(b)
        await one.until(lambda: one.changes[-1].view.members == ("a",))
        await other.until(lambda: other.changes[-1].view.members == ("b",))
        assert not a.view.is_primary
        await a.multicast(b"1", item="a")
        await b.multicast(b"1", item="b")
        await one.until(lambda: one.values == {"a": "1"})
        await other.until(lambda: other.values == {"b": "1"})
        here.unmute(b)
        await one.until(lambda: set(one.changes[-1].view.members) == {"a", "b"})
        await b.multicast(b"2", item="b")
        await one.until(lambda: one.values == {"a": "1", "b": "2"})


async def test_confirmations_follow_what_everyone_delivered(meet):
    async with meet("ab", protocol="vs") as (a, b):
        await a.multicast(b"1")
        events, reading = a.events(), asyncio.create_task(b.receive())
        position = 0
        async for event in events:
            if isinstance(event, semcast.Message):
                position = event.position
            elif isinstance(event, semcast.Confirmed) and event.position == position:
                assert event.view == a.view.id
                break
        await reading


async def test_a_group_of_views_forgets_nobody_by_hand(meet):
    async with meet("ab", protocol="s-vsm") as (a, _):
        with pytest.raises(semcast.LocalProtocolError, match="not available with views"):
            a.forget("b")


async def test_peers_do_where_there_is_no_multicast(crowd, free_ports):
    peers = [f"{name}=127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)]
    async with crowd() as here:
        (a, one), (_b, other), (c, late) = await here.found("abc", peers=peers)
        here.mute(c)
        await one.until_members("a", "b")
        await a.multicast(b"missed", item="x")
        here.unmute(c)
        await late.until(lambda: late.values.get("x") == "missed")
        await c.multicast(b"back", item="y")
        await other.until(lambda: other.values.get("y") == "back")


async def test_who_sends_while_it_handles_a_message_does_not_wait_for_itself(meet):
    """The view changes while much waits for an application that answers every message."""
    async with meet("abc", protocol="s-vsm", buffer=2000) as (a, b, c):
        count = 400

        async def answer() -> None:
            answered = 0
            async for message in b:
                if message.sender == "a":
                    answered += 1
                    await asyncio.sleep(0.002)
                    await b.multicast(message.payload, item=f"answer {answered}")
                if answered == count:
                    return

        answering = asyncio.create_task(answer())
        reading = [asyncio.create_task(take_everything(group)) for group in (a, c)]
        await a.multicast_many(semcast.Update(b"", f"item {n}") for n in range(count))
        await c.close()
        await answering
        assert b.view.id == 2
        await a.close()
        await asyncio.gather(*reading)


async def take_everything(group: semcast.Group) -> None:
    async for _ in group:
        pass


async def test_a_founder_that_cannot_go_on_leaves(crowd, join):
    """Its silence would hold the others up for as long as they take to suspect it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = f"127.0.0.1:{taken.getsockname()[1]}"
        async with crowd() as here:
            options = {"members": 3, "timeout": "60 s"}
            (_, table), _, failed = await asyncio.gather(
                here.add("a", **options),
                here.add("b", **options),
                join("c", protocol="s-vsm", metrics=metrics, **options),
                return_exceptions=True,
            )
            assert isinstance(failed, semcast.ConfigError)
            await table.until_members("a", "b")
