"""A live server of a replicated service: a member of a group with views that also hears clients.

Clients are no members.  A frame of a process that is not known and carries a request makes that
process a guest: its requests go to the machine, and nothing else that it says.  Frames are
authenticated before, so only a process with the group's key is heard.
"""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from random import Random
from time import monotonic
from typing import Any, ClassVar, NamedTuple

from semcast.runtime.application.port import GroupPort, StateHandlers
from semcast.runtime.application.server import READY, ServerPort
from semcast.runtime.driver import Driver, EventSink
from semcast.runtime.membership.incarnations import pid_of
from semcast.runtime.membership.view_session import ViewSession
from semcast.runtime.options.options import Options
from semcast.runtime.transport.addresses import Address
from semcast.service.executor import Service
from semcast.service.replica import Replica
from semcast.service.store_disk import StoredState
from semcast.service.store_server import StoreServer
from semcast.terms.ids import Incarnation, Pid
from semcast.terms.machine import Machine
from semcast.terms.service import Request
from semcast.terms.store import StoreBundle, StoreRequest
from semcast.wire.frames import DATAGRAM, hash64
from semcast.wire.sealing import OpenedFrame


def tag_of(datagram: type[Any]) -> int:
    """The wire tag of a kind of datagram; those of services are below 128, so one byte has it."""
    tag: int = datagram.__struct_config__.tag
    assert tag < 128
    return tag


class ServiceSession(ViewSession):
    """Of one server, of whatever service."""

    server_port: ServerPort
    request_tags: ClassVar[Collection[int]]

    def __init__(self, options: Options) -> None:
        super().__init__(options, StateHandlers())

    def _open_port(self) -> GroupPort:
        self.server_port = ServerPort(self.directory, self, self._state)
        return self.server_port

    def _drive(self, machine: Machine, sink: EventSink | None) -> Driver:
        driver = super()._drive(machine, sink)
        driver.on_ready(READY)
        return driver

    def _on_frame(self, opened: OpenedFrame, address: Address, now: float) -> None:
        known = self.directory.numbers
        is_strange = opened.kind == DATAGRAM and opened.sender not in known
        if not is_strange or self.driver is None or not self._is_request(opened.body):
            super()._on_frame(opened, address, now)
        elif self.directory.welcome(pid_of(opened.sender), address):
            self.driver.on_datagram(pid_of(opened.sender), opened.body)
        else:
            self.transport.discarded["namesake"] += 1

    def _is_request(self, body: bytes) -> bool:
        """Whether the body claims to be a request: a short array that begins with such a tag.  It
        is decoded where all datagrams are."""
        return len(body) > 1 and body[0] & 0xF0 == 0x90 and body[1] in self.request_tags


class ReplicaSession(ServiceSession):
    """Of a server of primary-backup."""

    request_tags = frozenset((tag_of(Request),))

    def __init__(self, options: Options, service: Service) -> None:
        super().__init__(options)
        self._service = service

    def _machine(self, life: Incarnation, seed: int) -> Machine:
        return Replica(self.recipe, life, Random(seed), monotonic(), self._service)


class StoreSettings(NamedTuple):
    """What the servers of one store have to agree on."""

    reads: str
    confirm: str
    quorums: tuple[tuple[Pid, ...], ...]


class StoreServerSession(ServiceSession):
    """Of a server of the replicated store."""

    request_tags = frozenset(map(tag_of, (StoreRequest, StoreBundle)))
    _stored: StoredState

    def __init__(self, options: Options, settings: StoreSettings) -> None:
        super().__init__(options)
        self._settings = settings
        self.recipe = replace(self.recipe, **settings._asdict())

    @property
    def _record(self) -> Any:
        return self.family.record if self.recipe.durable else None

    async def _open(self) -> None:
        await self._load()  # first, since the others count the time to join
        await super()._open()

    async def _load(self) -> None:
        """Read the disk in a thread: there may be millions of records."""
        await super()._load()
        about = self.recipe.sessions_max, self.resources.records
        self._stored = await asyncio.to_thread(StoredState, *about)

    def _machine(self, life: Incarnation, seed: int) -> Machine:
        return StoreServer(self.recipe, life, Random(seed), monotonic(), self._stored)

    def _make_recipe(self, datagram_bytes: int, window_bytes: int) -> Any:
        return replace(
            super()._make_recipe(datagram_bytes, window_bytes), **self._settings._asdict()
        )

    def _digest(self) -> int:
        words = (self.options.digest(), *self._settings)
        return hash64(" ".join(map(str, words)), b"semcast-store")

    @property
    def _members_wanted(self) -> int:
        """A server goes on alone: its machine knows whether that is a quorum."""
        return 1
