"""A family that nobody wrote for: registered by a test, joined by the same line as any other."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import pytest

import semcast
from semcast.families import Family, register, unregister
from semcast.kernel import run_of
from semcast.runtime.storage.directory_files import DirectoryFiles
from semcast.terms.errors import StorageError
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


class Ledger(Shouter):
    """Sends a message once it is on disk, and begins with those that were."""

    def __init__(self, recipe, life, rng, now, records):
        super().__init__(recipe, life, rng, now, records)
        self.found = [*records]
        self.waiting = {}
        self.number = records.last

    def submit(self, updates, now, out):
        for each in updates:
            self.number += 1
            self.last += 1
            self.waiting[self.number] = DataMessage(self.rank, self.last, payload=each.payload)
            out.persist.append((self.number, each.payload))
        if self.number > 3:
            out.forget_before = self.number - 2
        return len(updates)

    def on_persisted(self, ticket, now, out):
        for number in [number for number in self.waiting if number <= ticket]:
            message = self.waiting.pop(number)
            out.send.append((EVERYONE, Shout((message,))))
            out.outputs.append(Delivery(run_of([message])))


@pytest.fixture
def keeping() -> Iterator[None]:
    family = replace(TOY, name="ledger", protocols=("ledger",), machine=Ledger, record=bytes)
    register(family)
    yield
    unregister(family)


async def test_a_family_that_persists_finds_its_records_again(keeping, quotes, tmp_path):
    def join(name):
        return semcast.join(
            quotes, protocol="ledger", members=2, name=name, key=False, data=tmp_path / name
        )

    for first in (0, 5):
        a, b = await asyncio.gather(join("a"), join("b"))
        found = [b"%d" % number for number in range(first)][-3:]
        assert a._driver.machine.found == found
        for number in range(first, first + 5):
            await a.multicast(b"%d" % number)
        for group in (a, b):
            taken = []
            while len(taken) < 5:
                taken += await group.receive()
            assert [int(message.payload) for message in taken] == list(range(first, first + 5))
        await asyncio.gather(a.close(), b.close())


async def test_a_disk_that_fails_ends_the_member_with_a_clear_error(
    keeping, quotes, tmp_path, monkeypatch
):
    def full(self, name, data):
        raise OSError(28, "No space left on device")

    member = await semcast.join(
        quotes, protocol="ledger", members=1, name="a", key=False, data=tmp_path
    )
    monkeypatch.setattr(DirectoryFiles, "append", full)
    await member.multicast(b"1")
    with pytest.raises(StorageError, match="stable storage failed: No space left"):
        await member.receive()
    with pytest.raises(StorageError):
        await member.multicast(b"2")
    await member.close()


async def test_a_directory_is_wanted_by_those_that_persist_alone(keeping, quotes, tmp_path):
    with pytest.raises(semcast.ConfigError, match="data: ledger keeps its state on disk; give it"):
        await semcast.join(quotes, protocol="ledger", members=1, key=False)
    with pytest.raises(semcast.ConfigError, match="data: s-rm keeps nothing on disk; remove"):
        await semcast.join(quotes, members=1, key=False, data=tmp_path)
