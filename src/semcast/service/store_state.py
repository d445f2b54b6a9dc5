"""The state of one server of the store: items, and what each client was answered last.

It changes only by updates in their order, so it is the same at every server that has executed the
same ones.  The sessions are part of it: an update that comes again is answered from there and not
executed again [VSD §3].  It is *passed over*, and so is one whose session is not known.
"""

from typing import Final, TypeAlias

import msgspec

from semcast.service.commands import CommandError, parse
from semcast.service.replica_state import digest_of, encode_value
from semcast.service.store_messages import Items, UpdateEntry
from semcast.terms.service import DONE, FAILED, FORGOTTEN
from semcast.terms.store import StoreAnswer

SLICE_BYTES: Final = 16 << 10  # of a snapshot
TRUE: Final = encode_value(True)  # what most updates answer


class StoreSession(msgspec.Struct, array_like=True):
    """A client: which update opened its session, the highest number of an update, and the outcomes
    that it may still ask for."""

    opened: int
    number: int
    outcomes: dict[int, StoreAnswer]


Executed: TypeAlias = tuple[StoreAnswer | None, bool]
"""the answer, None if nobody can be waiting for it, and whether it is new, or was passed over"""

_sessions_decoder = msgspec.msgpack.Decoder(list[tuple[int, StoreSession]])


class StoreState:
    """Invariant: `sessions` is ordered by last use, the oldest first."""

    __slots__ = ("_readers", "_sessions_max", "index", "items", "sessions")

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._readers: list[SnapshotReader] = []
        self.items: dict[bytes, bytes] = {}
        self.sessions: dict[int, StoreSession] = {}
        self.index = 0

    def __repr__(self) -> str:
        return f"StoreState(index={self.index}, items={len(self.items)})"

    def write(self, key: bytes, value: bytes | None) -> None:
        """Set an item, or delete it."""
        items = self.items
        if self._readers:
            for reader in self._readers:
                reader.keep(key, items.get(key))
        if value is None:
            items.pop(key, None)
        else:
            items[key] = value

    def execute(self, entry: UpdateEntry) -> Executed:
        """The next update of the log."""
        client, number, oldest, opened, body = entry
        index = self.index = self.index + 1
        sessions = self.sessions
        session = sessions.get(client)
        if not body:
            session = session or self._open(client, number)
            return StoreAnswer(number, DONE, b"", session.opened), False
        if session is None or session.opened != opened:
            return StoreAnswer(number, FORGOTTEN, b"", index), False
        before = session.number
        if number <= before:  # It came again, or a later one overtook it.
            return session.outcomes.get(number), False
        status = DONE
        try:
            command, request = parse(body)
            if not command.is_update:
                raise CommandError("a query was sent as an update")
            result = command.run(self, request)
            reply = TRUE if result is True else encode_value(result)
        except CommandError as error:
            status, reply = FAILED, encode_value(str(error))
        outcomes = session.outcomes
        if oldest > before:
            outcomes.clear()
        else:
            for answered in [each for each in outcomes if each < oldest]:
                del outcomes[answered]
        session.number = number
        outcome = outcomes[number] = StoreAnswer(number, status, reply, index)
        del sessions[client]
        sessions[client] = session
        return outcome, True

    def _open(self, client: int, number: int) -> StoreSession:
        """Begin a session; the one that was not used for longest gives way."""
        session = self.sessions[client] = StoreSession(self.index, number, {})
        if len(self.sessions) > self._sessions_max:
            del self.sessions[next(iter(self.sessions))]
        return session

    def query(self, body: bytes) -> tuple[str, bytes] | None:
        """The answer to a query in this state; None if it has to wait."""
        try:
            command, request = parse(body)
            if command.is_update:
                raise CommandError("an update was sent as a query")
            if command.is_ready is not None and not command.is_ready(self, request):
                return None
            return DONE, encode_value(command.run(self, request))
        except CommandError as error:
            return FAILED, encode_value(str(error))

    def snapshot(self) -> "SnapshotReader":
        """A reader of the state as it is now, whatever is executed later."""
        reader = SnapshotReader(self)
        self._readers.append(reader)
        return reader

    def forget(self, reader: "SnapshotReader") -> None:
        """A snapshot is not read any more."""
        self._readers.remove(reader)

    def encoded_sessions(self) -> bytes:
        """All sessions, in their order."""
        return encode_value(list(self.sessions.items()))

    def restore(self, items: dict[bytes, bytes], sessions: bytes, index: int) -> None:
        """Begin with the state of a snapshot."""
        self.sessions = dict(_sessions_decoder.decode(sessions))
        self.items = items
        self.index = index

    def digest(self) -> int:
        """A number of 64 bits that is the same for equal states; takes long if there are many."""
        return digest_of(encode_value([sorted(self.items.items()), list(self.sessions.items())]))


class SnapshotReader:
    """Reads a state in slices, as it was when the reader was made: what is overwritten meanwhile
    is kept here."""

    __slots__ = ("_before", "_keys", "_place", "bytes_read", "index", "sessions", "state")

    def __init__(self, state: StoreState) -> None:
        self.state = state
        self.index = state.index
        self.sessions = state.encoded_sessions()
        self._keys = list(state.items)
        self._before: dict[bytes, bytes | None] = {}
        self._place = 0
        self.bytes_read = len(self.sessions)

    def keep(self, key: bytes, value: bytes | None) -> None:
        """An item is about to change."""
        self._before.setdefault(key, value)

    def next_items(self) -> Items:
        """The next slice; empty at the end."""
        items: Items = []
        size, keys, before, current = 0, self._keys, self._before, self.state.items
        while self._place < len(keys) and size < SLICE_BYTES:
            key = keys[self._place]
            self._place += 1
            value = before[key] if key in before else current[key]
            assert value is not None
            items.append((key, value))
            size += len(key) + len(value) + 8
        self.bytes_read += size
        return items
