"""What waits at a client's side: who asked gives up in time, whatever else was asked before."""

import asyncio
from time import monotonic

import pytest

from semcast.runtime.application.client_port import ClientPort
from semcast.terms.outputs import Answered
from semcast.terms.service import DONE
from semcast.terms.store import REFUSED


class TakesEverything:
    """A socket whose machine takes every request of its only client and withdraws none."""

    def __init__(self):
        self.port = ClientPort(self, key=1)

    def submit(self, key):
        self.port.on_accepted(len(self.port.offer()))

    def submit_soon(self, key):
        asyncio.get_running_loop().call_soon(self.submit, key)

    def withdraw(self, key, request):
        pass


async def test_who_asks_again_gives_up_when_it_was_to_from_the_beginning():
    """The timer comes round for others while nobody waits for the refused request."""
    port, begun = TakesEverything().port, monotonic()
    first = port.ask(b"first", begun + 0.3)
    refused = port.ask(b"refused", begun + 0.8)
    last = port.ask(b"last", begun + 60)
    await asyncio.sleep(0)  # Requests that others go before wait for the event loop's turn.
    port.put([Answered(DONE, b""), Answered(REFUSED, b"")])
    assert [(await each).status for each in (first, refused)] == [DONE, REFUSED]
    await asyncio.sleep(begun + 0.4 - monotonic())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(port.ask(b"refused", begun + 0.8)), 20)
    assert monotonic() - begun < 15
    assert not last.done()
    port.end(None)
    with pytest.raises(Exception, match="closed"):
        await last
