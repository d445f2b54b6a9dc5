"""`semcast.open_store`: a client of the replicated store."""

import asyncio
from collections.abc import AsyncIterator
from math import inf
from random import SystemRandom
from time import monotonic
from typing import Any, Final

from semcast.runtime.application.client_port import NOT_MADE
from semcast.runtime.application.request_body import encode_body, encode_text
from semcast.runtime.application.service_connection import GIVE_UP, ServiceConnection
from semcast.service.replica_state import decode_value
from semcast.service.store_client import StoreClient
from semcast.service.store_recipe import REPLICATED_DATA
from semcast.terms.errors import (
    ConfigError,
    NoQuorum,
    RequestFailed,
    RequestUnknown,
    SemcastError,
)
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.outputs import Answered
from semcast.terms.service import DONE, FAILED
from semcast.terms.store import REFUSED, UNKNOWN, WITHDRAWN

STORE_GROUP: Final = "store"  # the name of the servers' group, unless another is given
REFUSED_WAIT_S: Final = 0.05  # before an update is tried at another server


class Store(ServiceConnection):
    """A client of a replicated store; made by `open_store`.  Tasks may share it: their requests are
    sent together and answered in order."""

    def _machine(self, recipe: Any, life: Incarnation, rng: SystemRandom) -> Machine:
        last = self._link.port.clients.newest
        assert last is None or isinstance(last, StoreClient)
        return StoreClient(recipe, life, rng, monotonic(), last)

    async def get(self, key: str | bytes) -> bytes | None:
        """The value of a key, None if there is none.

        It is at least as new as everything that this client has seen or written before.
        """
        found: bytes | None = await self._request("get", encode_text(key))
        return found

    async def set(self, key: str | bytes, value: str | bytes) -> None:
        """Give a key a value."""
        await self._request("set", encode_text(key), encode_text(value))

    async def incr(self, key: str | bytes, amount: int = 1) -> int:
        """Add to a counter, which begins at 0; returns its new value."""
        counter: int = await self._request("incr", encode_text(key), amount)
        return counter

    async def delete(self, key: str | bytes) -> bool:
        """Remove a key; returns whether it was there."""
        was_there: bool = await self._request("del", encode_text(key))
        return was_there

    async def watch(self, key: str | bytes) -> AsyncIterator[bytes | None]:
        """Iterate over the values of a key: first the one that it has, then each newest one.

        Values that were replaced before they were reported are skipped.  While this iterates, no
        other request of this client is answered: open a client for it alone.
        """
        value = await self.get(key)
        while True:
            yield value
            value = await self._request("watch", encode_text(key), value, gives_up=False)

    async def _request(self, *words: Any, gives_up: bool = True) -> Any:
        """Ask; an update that no server could take is offered again until `give_up`.

        Raises `RequestFailed` if the store cannot carry it out, `NoQuorum` if no majority of the
        servers, or none of the quorums that they were given, could be reached: nothing was changed
        then.  Raises `RequestUnknown` if nobody knows whether an update was executed, or will be.
        """
        body = encode_body(words)
        give_up_at = monotonic() + self._give_up_s if gives_up else inf
        is_refused = False
        while (answered := await self._answer(body, give_up_at)).status == REFUSED:
            is_refused = True
            await asyncio.sleep(min(REFUSED_WAIT_S, give_up_at - monotonic()))
            if monotonic() >= give_up_at:
                answered = NOT_MADE
                break
        if answered.status == DONE:
            return decode_value(answered.body)
        raise self._error(answered, is_refused)

    def _error(self, answered: Answered, is_refused: bool) -> SemcastError:
        """Why a request was not carried out, or may not have been.  `is_refused`: servers refused
        it before, and did not get it since."""
        group = self.options.group
        if answered.status == WITHDRAWN and is_refused:
            return NoQuorum(
                f"the servers of {group} that could be reached within {self._give_up_s:g} s are no "
                "quorum; the update was not made"
            )
        if answered.status == WITHDRAWN:
            return RequestUnknown(self._silence())
        if answered.status == FAILED:
            return RequestFailed(decode_value(answered.body))
        if answered.status == UNKNOWN:
            return RequestUnknown(
                f"the servers of {group} lost their quorum during the update; it may have been "
                "made, or may be made later"
            )
        return RequestUnknown(
            f"the servers of {group} have forgotten this client, since others came; the update may "
            "have been made"
        )


def open_store(
    peers: Any, *, group: str = STORE_GROUP, give_up: float | str = GIVE_UP, **options: Any
) -> Store:
    """A client of a replicated store, whose servers `semcast serve` runs.

        servers = "a=127.0.0.1:7101,b=127.0.0.1:7102,c=127.0.0.1:7103"
        async with semcast.open_store(servers) as store:
            await store.set("ACME", "101.25")
            print(await store.get("ACME"))

    `peers` are all servers with their addresses, as each server was given them.  The client talks
    to one of them and goes to another when that one does not answer.  What it has seen it never
    sees undone: reads are at least as new as everything that it read or wrote before, though other
    clients may have written something newer.  An update that was answered is on the disks of a
    majority of the servers, or of one of the quorums that they were given, unless these were
    started with `--memory`.  An update that has to be sent again is made once.

    Stores that are opened in one event loop with the same options share a socket, and begin at the
    same server: what their tasks ask at the same time travels together.  Each is a client of its
    own: it waits for no answer of another one.

    `give_up` is how long a request waits for its answer.  Options are those of `semcast.join` that
    say how to reach the servers: interface, ip, bind, key, datagram, message_max, socket_buffer,
    config.
    """
    if not peers:
        raise ConfigError("peers: give the names and addresses of all servers of the store")
    settings = {"protocol": REPLICATED_DATA, "relation": "none"}
    return Store(group, settings, give_up, {**options, "peers": peers})
