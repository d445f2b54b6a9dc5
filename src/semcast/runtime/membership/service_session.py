"""A live server of a replicated service: a member of a group with views that also hears clients.

Clients are no members.  A frame of a process that is not known and carries a request makes that
process a guest: its requests go to the machine, and nothing else that it says.  Frames are
authenticated before, so only a process with the group's key is heard.
"""

from random import Random
from time import monotonic

import msgspec

from semcast.runtime.application.port import GroupPort, StateHandlers
from semcast.runtime.application.server import READY, ServerPort
from semcast.runtime.driver import Driver, EventSink
from semcast.runtime.membership.incarnations import pid_of
from semcast.runtime.membership.view_session import ViewSession
from semcast.runtime.options.options import Options
from semcast.runtime.transport.addresses import Address
from semcast.service.executor import Service
from semcast.service.replica import Replica
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.service import Request
from semcast.wire.frames import DATAGRAM
from semcast.wire.sealing import OpenedFrame

_requests = msgspec.msgpack.Decoder(Request)


def is_request(body: bytes) -> bool:
    """Whether a datagram is a client's request."""
    try:
        _requests.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


class ServiceSession(ViewSession):
    """Of one server."""

    server_port: ServerPort

    def __init__(self, options: Options, service: Service) -> None:
        super().__init__(options, StateHandlers())
        self._service = service

    def _machine(self, life: Incarnation, seed: int) -> Machine:
        return Replica(self.recipe, life, Random(seed), monotonic(), self._service)

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
        if not is_strange or self.driver is None or not is_request(opened.body):
            super()._on_frame(opened, address, now)
        elif self.directory.welcome(pid_of(opened.sender), address):
            self.driver.on_datagram(pid_of(opened.sender), opened.body)
        else:
            self.transport.discarded["namesake"] += 1
