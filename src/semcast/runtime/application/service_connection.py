"""What clients of replicated services have in common: a socket, a machine, answers in their order.

A client is beside the group of the servers: it has the group's key, sends its requests to the
servers and hears their replies, and is no member.  Clients of one event loop that have the same
options share a socket (`client_link.py`).
"""

import asyncio
from abc import abstractmethod
from math import inf
from random import SystemRandom
from typing import Any, Final, Self

from semcast.runtime.application.client_link import ClientLink
from semcast.runtime.application.client_port import Answer, ClientPort
from semcast.runtime.application.loop_bound import LoopBound
from semcast.runtime.options.options import Options
from semcast.runtime.options.units import parse_seconds
from semcast.terms.errors import ConfigError, LocalProtocolError, RequestUnknown
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.outputs import Answered

GIVE_UP: Final = "30 s"
CLIENT_OPTIONS: Final = (
    "peers",
    "multicast",
    "interface",
    "ip",
    "bind",
    "key",
    "datagram",
    "message_max",
    "socket_buffer",
    "config",
)


class ServiceConnection(LoopBound):
    """A client of one service, from `open` to `close`."""

    def __init__(
        self, group: str, settings: dict[str, Any], give_up: float | str, options: dict[str, Any]
    ) -> None:
        """`settings` are those of the service, `options` what the application asks for."""
        for name in options:
            if name not in CLIENT_OPTIONS:
                known = ", ".join(CLIENT_OPTIONS)
                raise ConfigError(f"{name}: not for a client, which takes {known}")
        super().__init__(f"client of {group!r}", self._end)
        self.options = Options.resolve(group, {**options, **settings}, role="client")
        self._give_up_s = parse_seconds(give_up, "give_up")
        if not self._give_up_s > 0:
            raise ConfigError(f"give_up: {give_up} is not above 0")
        self._port: ClientPort | None = None

    @abstractmethod
    def _machine(self, recipe: Any, life: Incarnation, rng: SystemRandom) -> Machine:
        """The machine of the client."""

    async def open(self) -> Self:
        """Open the client's socket; `async with` does it, too.  No server needs to run yet."""
        if self._port is not None:
            return self
        link = await ClientLink.join(self.options)
        if self._port is not None:  # Another task has opened it meanwhile.
            await link.leave()
            return self
        self._link = link
        try:
            self._port = link.port.add(self._machine(link.recipe, link.life, SystemRandom()))
        except BaseException:
            await link.leave()
            raise
        self._bind()
        return self

    def _ask(self, body: bytes, give_up_at: float = inf) -> Answer:
        """The future answer to one request, as the machine will have it."""
        port = self._port
        if port is None:
            raise LocalProtocolError("open the client first, with async with")
        self._check("request")
        if len(body) > self.options.message_max:
            raise LocalProtocolError(
                f"request: {len(body)} bytes are more than message_max, {self.options.message_max}"
            )
        if port.ended is not None:
            raise port.ended
        return port.ask(body, give_up_at)

    async def _answer(self, body: bytes, give_up_at: float) -> Answered:
        """The answer to one request.  A request that is cancelled does not hold up the next ones.

        Raises `RequestUnknown` if none came in time and a server may have the request.
        """
        try:
            return await self._ask(body, give_up_at)
        except TimeoutError:
            raise RequestUnknown(self._silence()) from None
        except asyncio.CancelledError:
            if self._port is not None:
                self._port.withdraw_abandoned()
            raise

    def _silence(self) -> str:
        """Say that no server answered, and what to check."""
        return (
            f"no server of {self.options.group} answered within {self._give_up_s:g} s; check with "
            f"semcast members that a majority of them runs{self._link.resources.explain_discards()}"
        )

    async def _end(self) -> None:
        if self._port is not None:
            self._link.port.remove(self._port)
            await self._link.leave()

    async def __aenter__(self) -> Self:
        return await self.open()
