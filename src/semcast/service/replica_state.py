"""The state of one replica: items, and what each client was answered last.

It changes only by *fins*, in the order of the primary, so it is the same at every replica that has
applied the same ones.  Updates wait for the *fin* of their request [SVS §5.1].
Invariant: `sessions` is ordered by last use, the oldest first.
"""

from collections.abc import Iterator, MutableMapping
from hashlib import blake2b
from typing import Any

import msgspec

from semcast.kernel import NAME_MAX
from semcast.service.recipe import ServiceRecipe
from semcast.terms.ids import Incarnation
from semcast.terms.service import FORGOTTEN

_encoder = msgspec.msgpack.Encoder()
_sorting_encoder = msgspec.msgpack.Encoder(order="deterministic")
encode_value = _encoder.encode
decode_value = msgspec.msgpack.decode


class Fin(msgspec.Struct, frozen=True, array_like=True):
    """The end of a request: its reply, and the milliseconds since the primary executed the
    request before.  Its session was `opened` by the request with that place, or by itself (0)."""

    client: int
    number: int
    status: str
    reply: bytes
    elapsed_ms: int
    opened: int


class ClientSession(msgspec.Struct, frozen=True, array_like=True):
    """The last request of a client and its reply; `version` is the state that it made."""

    number: int
    version: int
    status: str
    reply: bytes
    used_ms: int
    opened: int


class ReplicaSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """All that a joiner starts from; `before` are the members of the view before its first."""

    items: dict[str, bytes]
    sessions: list[tuple[int, ClientSession]]
    version: int
    clock_ms: int
    before: tuple[Incarnation, ...]


_fin_decoder = msgspec.msgpack.Decoder(Fin)
_snapshot_decoder = msgspec.msgpack.Decoder(ReplicaSnapshot)
decode_fin = _fin_decoder.decode


class ReplicaState:
    """`version` counts the *fins* that made it, `clock_ms` is the time that has passed between
    them, as their primaries measured it.

    Values are bytes; None among what was `gathered` deletes an item.
    """

    __slots__ = (
        "_session_ms",
        "_sessions_max",
        "clock_ms",
        "gathered",
        "items",
        "sessions",
        "version",
    )

    def __init__(self, recipe: ServiceRecipe) -> None:
        self._sessions_max = recipe.sessions_max
        self._session_ms = int(recipe.session_s * 1000)
        self.items: dict[str, bytes] = {}
        self.sessions: dict[int, ClientSession] = {}
        self.version = self.clock_ms = 0
        self.gathered: dict[str, bytes | None] = {}

    def gather(self, name: str, value: bytes | None) -> None:
        """An update of a request whose *fin* has yet to come."""
        self.gathered[name] = value

    def drop_gathered(self) -> None:
        """Forget updates whose *fin* will not come any more [SVS §5.2]."""
        self.gathered.clear()

    def finish(self, fin: Fin) -> None:
        """Apply a request that is complete."""
        for name, value in self.gathered.items():
            if value is None:
                self.items.pop(name, None)
            else:
                self.items[name] = value
        self.gathered.clear()
        self.version += 1
        self.clock_ms += fin.elapsed_ms
        if fin.status != FORGOTTEN:
            self._remember(fin)

    def _remember(self, fin: Fin) -> None:
        """Keep the reply; forget clients that have not asked for long, or that are too many."""
        sessions = self.sessions
        sessions.pop(fin.client, None)
        sessions[fin.client] = ClientSession(
            fin.number,
            self.version,
            fin.status,
            fin.reply,
            self.clock_ms,
            fin.opened or self.version,
        )
        since_ms = self.clock_ms - self._session_ms
        while True:
            client = next(iter(sessions))
            if len(sessions) <= self._sessions_max and sessions[client].used_ms >= since_ms:
                return
            del sessions[client]

    def snapshot(self, before: tuple[Incarnation, ...]) -> bytes:
        """All of it, for one that joins."""
        return _encoder.encode(self._all(before))

    def restore(self, data: bytes) -> tuple[Incarnation, ...]:
        """Begin with the state of another; returns the members of the view before."""
        found = _snapshot_decoder.decode(data)
        self.items.clear()
        self.items.update(found.items)
        self.sessions = dict(found.sessions)
        self.version, self.clock_ms = found.version, found.clock_ms
        return found.before

    def digest(self) -> int:
        """A number of 64 bits that is the same for equal states."""
        return digest_of(_sorting_encoder.encode(self._all(())))

    def _all(self, before: tuple[Incarnation, ...]) -> ReplicaSnapshot:
        sessions = list(self.sessions.items())
        return ReplicaSnapshot(self.items, sessions, self.version, self.clock_ms, before)


def digest_of(data: bytes) -> int:
    """BLAKE2b of 64 bits, signed, as in the column `digest` of a trace."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


class Items(MutableMapping[str, Any]):
    """The items of a service, as a request reads and writes them.

    A value is anything that MessagePack can say.  Reading gives a copy: to change a value, assign
    it.  What requests have written counts at once for those that follow, and stays *ahead* of the
    replicated state until that has caught up.
    """

    def __init__(self, applied: dict[str, bytes]) -> None:
        self._applied = applied
        self._ahead: dict[str, bytes | None] = {}
        self._writes: dict[str, bytes | None] = {}
        self._merged: dict[str, bytes] | None = None  # all layers, while a request writes

    def __getitem__(self, name: str) -> Any:
        for layer in (self._writes, self._ahead, self._applied):
            if name in layer:
                value = layer[name]
                if value is None:
                    break
                return decode_value(value)
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of an item is a string, not {name!r}")
        # What follows are the rules of the group: if it refused an update, the server would end.
        if not name:
            raise ValueError("the name of an item is empty; give it at least one character")
        if len(name) > NAME_MAX:
            raise ValueError(
                f"the name of an item has {len(name)} characters, maximum is {NAME_MAX}"
            )
        name.encode()
        written = self._writes[name] = encode_value(value)
        if self._merged is not None:
            self._merged[name] = written

    def __delitem__(self, name: str) -> None:
        self[name]
        self._writes[name] = None
        if self._merged is not None:
            del self._merged[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._merge()))  # A request may write what it iterates over.

    def __len__(self) -> int:
        return len(self._merge())

    def popitem(self) -> tuple[str, Any]:
        """Remove the last item, and return its name and value."""
        name = next(reversed(self._merge()), None)
        if name is None:
            raise KeyError("popitem: there are no items")
        return name, self.pop(name)

    def _merge(self) -> dict[str, bytes]:
        """All layers in one.  Only while a request writes is it sure that nothing else changes
        them: then the result is kept, so that a request that removes all items is not quadratic."""
        if self._merged is not None:
            return self._merged
        every = {**self._applied, **self._ahead, **self._writes}
        merged = {name: value for name, value in every.items() if value is not None}
        if self._writes:
            self._merged = merged
        return merged

    def take_writes(self) -> dict[str, bytes | None]:
        """What the last request wrote, which now counts for the next."""
        writes, self._writes, self._merged = self._writes, {}, None
        self._ahead |= writes
        return writes

    def write_sizes(self) -> Iterator[tuple[str, int]]:
        """The items that the request at hand has written, and how large each is."""
        for name, value in self._writes.items():
            yield f"item {name[:40]!r}", len(name.encode()) + len(value or b"")

    def undo(self) -> None:
        """Forget what the last request wrote."""
        self._writes, self._merged = {}, None

    def catch_up(self) -> None:
        """Forget what was ahead: the replicated state has it now, or never will."""
        self._ahead.clear()
        self.undo()
