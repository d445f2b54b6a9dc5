"""The socket that clients share: all of one event loop that talk to the same servers.

Each client has a machine, a number and a session of its own.  What they ask in one turn of the
event loop leaves in one frame for each server, and so come the answers.  A frame for each request
costs a client and its server several times what the request itself costs.
"""

import asyncio
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from semcast.families import find
from semcast.runtime.application.client_port import LinkPort
from semcast.runtime.channel import MemberChannel, Send
from semcast.runtime.clock import LoopClock
from semcast.runtime.driver import Driver
from semcast.runtime.membership.directory import Directory
from semcast.runtime.membership.incarnations import frame_incarnation, pid_of, pid_of_name
from semcast.runtime.options.options import Options, option_fields
from semcast.runtime.resources import MemberResources
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.endpoints import find_peers
from semcast.service.store_bundle import bundled
from semcast.terms.ids import Incarnation, Pid
from semcast.terms.store import StoreRequest
from semcast.wire.frames import DATAGRAM
from semcast.wire.sealing import OpenedFrame

# A link refers to its event loop.  So both are weak: clients that nobody closed go with their loop.
_Links: TypeAlias = "WeakValueDictionary[Hashable, ClientLink]"
_links: Final["WeakKeyDictionary[asyncio.AbstractEventLoop, _Links]"] = WeakKeyDictionary()


def _place(options: Options) -> Hashable:
    """What clients have in common that can share a socket; a forked child shares none."""
    values = [getattr(options, each.name) for each in option_fields() if each.name != "name"]
    return os.getpid(), options.group, *values


class ClientLink:
    """Lives from the first client that is opened to the last one that is closed."""

    def __init__(self, options: Options, forget: Callable[[], object]) -> None:
        self.options = options
        self.resources = MemberResources(options)
        self.life = Incarnation(pid_of_name(options.name), 1)  # Its name is new.
        self.recipe: Any = None  # of each client; None: not open
        self.decode = find(options.protocol).codec.decode
        self.port = LinkPort()
        self._driver = Driver(self.port.clients, self, self.port, LoopClock())
        self._forget = forget
        self._opening = asyncio.Lock()
        self._users = 0

    @classmethod
    async def join(cls, options: Options) -> "ClientLink":
        """The link for a client with these options, opened by the first; `leave` it once."""
        links = _links.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        place = _place(options)
        link = links.get(place)
        if link is None or link._driver.ended is not None:
            link = links[place] = cls(options, lambda: links.pop(place))
        link._users += 1
        try:
            async with link._opening:
                if link.recipe is None:
                    await link._open()
        except BaseException:
            await link.leave()
            raise
        return link

    async def _open(self) -> None:
        resources = self.resources
        try:
            await resources.open(frame_incarnation(self.life.inc))
            peers = await find_peers(self.options, sealed=resources.is_sealed)
        except BaseException:
            self.resources = MemberResources(self.options)
            await resources.close()
            raise
        transport = resources.transport
        self._directory = Directory(self.options.name, self.life.pid, peers)
        for name, address in (peers or {}).items():
            self._directory.welcome(pid_of_name(name), address)
        codec = find(self.options.protocol).codec
        self._channel = MemberChannel(transport, resources.bulk, self._directory, codec)
        transport.reads_max = 1  # An answer is all that a client expects at once.
        transport.on_frame = self._on_frame
        transport.on_drained = self._driver.on_drained
        self.recipe = self.options.recipe(transport.body_bytes, resources.window_bytes)

    async def leave(self) -> None:
        """A client is closed."""
        self._users -= 1
        if not self._users:
            self._driver.end(None)
            self._forget()
            await self.resources.close()

    def _on_frame(self, opened: OpenedFrame, address: Address, now: float) -> None:
        source = pid_of(opened.sender)
        if opened.kind != DATAGRAM or not self._directory.welcome(source, address):
            return
        self._driver.on_datagram(source, opened.body)

    def discard(self, error: Exception, now: float) -> None:
        """Handling a datagram raised this error."""
        self._channel.discard(error, now)

    def send(self, sends: Sequence[Send], *, is_repair: bool) -> None:
        """Send what clients have to say; requests to one server go together."""
        requests: dict[Sequence[Pid], list[StoreRequest]] = {}
        others: list[Send] = []
        for audience, datagram in sends:
            if type(datagram) is StoreRequest:
                requests.setdefault(audience, []).append(datagram)
            else:
                others.append((audience, datagram))
        bytes_max = self.resources.transport.body_bytes
        for audience, parts in requests.items():
            others += [(audience, each) for each in bundled(parts, bytes_max)]
        self._channel.send(others, is_repair=is_repair)
