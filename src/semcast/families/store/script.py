"""Requests of simulated clients: each is a function of the client and its number alone.

So a judge can compute every request, and execute all of them again.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from semcast.service.commands import encode_request, is_update
from semcast.service.store_client import OPENING_BODY, StoreClient
from semcast.service.store_recipe import StoreRecipe
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Withdraw
from semcast.terms.messages import Update

KEYS: Final = 5


def command_of(client: int, number: int) -> tuple[Any, ...]:
    """The request of this number."""
    rng = Random(client * 1_000_003 + number)
    key = b"k%d" % rng.randrange(KEYS)
    kind = rng.choice(("get", "get", "get", "get", "incr", "incr", "set", "del", "bad"))
    if kind == "incr":
        return "incr", b"n" + key, rng.randint(-3, 9)
    if kind == "set":
        return "set", rng.choice((key, b"n" + key)), b"%d" % rng.randrange(100)
    if kind == "bad":
        return rng.choice((("incr", key, 1), ("set", key), ("flush",), ("set", b"x" * 2000, b"")))
    return kind, rng.choice((key, b"n" + key))


class ScriptedClient(StoreClient):
    """Asks what its script says, whatever it is given; now and then it withdraws a request."""

    def __init__(
        self, recipe: StoreRecipe, life: Incarnation, rng: Random, now: float, abandons: float
    ) -> None:
        """`abandons` is how often it withdraws one, of all times that it asks."""
        super().__init__(recipe, life, rng, now)
        self._abandons = abandons
        self._rng = rng

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Ask, and perhaps withdraw one of the requests that are not answered."""
        accepted = super().submit(updates, now, out)
        if self._abandons and self.pending and self._rng.random() < self._abandons:
            self.on_command(Withdraw(self._rng.choice(self.pending).asked), now, out)
        return accepted

    def _add(self, body: bytes) -> None:
        body = self._next()
        if is_update(body) and self._lacks_session:
            self._append(OPENING_BODY)
            body = self._next()
        self._append(body)

    def _next(self) -> bytes:
        return encode_request(command_of(self.client, self.number + 1))
