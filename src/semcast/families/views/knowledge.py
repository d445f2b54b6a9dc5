"""A simulated application that keeps the newest values, and can give its state to a joiner.

Two applications know the same if they delivered the same messages, apart from obsolete ones.  The
state has the last message of each stream, the newest of each item, and a sum of the hashes of all
messages that are never obsolete; order does not change that sum.  Under total order an item has one
newest value over all senders.
"""

from zlib import crc32

import msgspec

from semcast.terms.messages import DataMessage
from semcast.terms.outputs import Installed
from semcast.terms.promises import BY_ORDER
from semcast.terms.relations import ITEM, NOTHING, facts_of, relations_that
from semcast.terms.views import NO_VIEW


class AppState(msgspec.Struct, array_like=True):
    """`newest` is by stream, or item, the number of its last message: in the stream, or of the
    view and the position in it."""

    newest: dict[str, tuple[int, int]]
    kept_crc: int = 0


_decoder = msgspec.msgpack.Decoder(AppState)
_encoder = msgspec.msgpack.Encoder(order="sorted")


class Knower:
    """The state of one incarnation's application.  `view` is the one it is in."""

    __slots__ = ("_has_items", "_is_total", "_keeps_all", "knows", "view")

    def __init__(self, order: str, relation: str) -> None:
        self._is_total = BY_ORDER[order].gives_places
        self._keeps_all = facts_of(relation).replaces == NOTHING
        self._has_items = relation in relations_that(ITEM, NOTHING)
        self.knows = AppState({})
        self.view = NO_VIEW

    def __repr__(self) -> str:
        return f"Knower(view={self.view.id}, knows={self.knows})"

    def install(self, installed: Installed) -> None:
        """Enter a view; a joiner begins with what the others know."""
        self.view = installed.view
        if installed.state:
            self.knows = _decoder.decode(installed.state)

    def deliver(self, message: DataMessage, position: int) -> None:
        """Take a message of the view."""
        view, rank = self.view, message.sender
        pid, inc = view.members[rank]
        number = 0, message.seq
        stream = f"{pid}.{inc}"
        if message.never_purge or self._keeps_all or (self._has_items and message.item is None):
            self.knows.kept_crc ^= crc32(f"{stream}:{number[1]}".encode())
        if self._is_total:
            stream, number = "", (view.id, position)
        self._note(stream, number)
        if self._has_items and message.item is not None:
            self._note(f"{stream}/{message.item}", number)

    def _note(self, what: str, number: tuple[int, int]) -> None:
        newest = self.knows.newest
        newest[what] = max(number, newest.get(what, number))

    def state(self) -> bytes:
        """Everything, as bytes that are equal for equal knowledge."""
        return _encoder.encode(self.knows)
