"""Faulty links between the processes of a live point: a relay in a thread of the launcher."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeAlias, TypeVar

from semcast.faults import Link
from semcast.fleet.relay import Relay
from semcast.runtime.transport.addresses import Address, format_address

HOST: Final = "127.0.0.1"
DEADLINE_S: Final = 10.0

LinkOf: TypeAlias = Callable[[int, int], Link]
Peers: TypeAlias = Callable[[str], list[str]]
T = TypeVar("T")


@contextmanager
def relay_links(names: Sequence[str], link: LinkOf) -> Iterator[Peers]:
    """Let `link(source, destination)`, by rank, be between processes of these names.

    with linked(["a", "b"], lambda source, destination: Link(loss=0.01)) as peers:
        semcast.join("quotes", name="a", peers=peers("a"))
    """
    with _running_loop() as call:
        with ExitStack() as held_ports:  # until the fronts have got ports of their own
            own = {name: _free_address(held_ports) for name in names}
            relay = Relay(own, link)
            fronts = call(relay.start())

        def peers(name: str) -> list[str]:
            places = {**fronts, name: own[name]}
            return [f"{peer}={format_address(address)}" for peer, address in places.items()]

        try:
            yield peers
        finally:
            call(relay.close())


@contextmanager
def _running_loop() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """An event loop in a thread, and how to have something done there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda what: asyncio.run_coroutine_threadsafe(what, loop).result(DEADLINE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _free_address(held_ports: ExitStack) -> Address:
    place = held_ports.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    place.bind((HOST, 0))
    return HOST, place.getsockname()[1]
