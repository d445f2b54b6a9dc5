"""A family that nobody wrote for: registered by a test, joined by the same line as any other."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

import semcast
from semcast.families import Family, register, unregister
from semcast.kernel import run_of
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import Machine, Status
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import Delivery
from semcast.wire import Codec


@dataclass(frozen=True, kw_only=True)
class ShoutRecipe:
    members: int


class Shout(msgspec.Struct, frozen=True, array_like=True, tag=126):
    messages: tuple[DataMessage, ...]


class Shouter(Machine):
    """Sends each message once, and delivers what it has not heard before."""

    def __init__(self, recipe, life, rng, now, records):
        self.rank, self.deadline, self.last = life.pid, float("inf"), 0
        self.heard = [0] * recipe.members

    @property
    def sent(self):
        return self.last

    def submit(self, updates, now, out):
        messages = tuple(
            DataMessage(self.rank, self.last + place, payload=each.payload)
            for place, each in enumerate(updates, 1)
        )
        self.last += len(messages)
        out.send.append((EVERYONE, Shout(messages)))
        out.outputs.append(Delivery(run_of([*messages])))
        return len(messages)

    def on_datagrams(self, source, datagrams, now, out):
        messages = [each for datagram in datagrams for each in datagram.messages]
        fresh = [each for each in messages if each.seq > self.heard[source]]
        if fresh:
            self.heard[source] = fresh[-1].seq
            out.outputs.append(Delivery(run_of([*fresh])))

    def status(self, now):
        return Status(sent=self.last)


TOY = Family(
    name="toy",
    protocols=("shout",),
    orders=("fifo",),
    recipe=ShoutRecipe,
    machine=Shouter,
    codec=Codec(Shout, {}),
    promises=lambda protocol, order: frozenset({"integrity"}),
    group_type="fixed",
)


@pytest.fixture
def toy() -> Iterator[None]:
    register(TOY)
    yield
    unregister(TOY)


async def test_a_toy_family_is_joined_live(toy, quotes):
    def join(name):
        return semcast.join(quotes, protocol="shout", members=2, name=name, key=False)

    a, b = await asyncio.gather(join("a"), join("b"))
    for number in range(50):
        await a.multicast(b"%d" % number)
    for group in (a, b):
        taken: list[semcast.Message] = []
        while len(taken) < 50:
            taken += await group.receive()
        assert [int(message.payload) for message in taken] == list(range(50))
        assert {message.sender for message in taken} == {"a"}
    assert (a.snapshot().sent, b.snapshot().delivered, b.snapshot().protocol) == (50, 50, "shout")
    assert a.view.members == ("a", "b")
    await asyncio.gather(a.close(), b.close())


async def test_members_of_two_families_do_not_meet(toy, quotes):
    def join(name, protocol):
        return semcast.join(quotes, protocol=protocol, members=2, name=name, join_timeout=2.0)

    outcomes = await asyncio.gather(join("a", "shout"), join("b", "rm"), return_exceptions=True)
    assert all("different settings" in str(outcome) for outcome in outcomes)


def test_a_protocol_that_is_not_registered_is_refused():
    with pytest.raises(semcast.ConfigError, match="protocol: unknown value 'shout'"):
        semcast.join("quotes", protocol="shout", members=2)


def test_what_a_toy_cannot_do_is_refused(toy):
    with pytest.raises(semcast.ConfigError, match="order: unknown value 'causal'"):
        semcast.join("quotes", protocol="shout", members=2, order="causal")
