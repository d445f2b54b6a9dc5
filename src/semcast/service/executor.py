"""The service of a user, as the primary runs it: a request in, a reply and updates out."""

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from semcast.service.replica_state import Fin, Items, decode_value, encode_value
from semcast.terms.ids import Seq
from semcast.terms.messages import DataMessage, Update
from semcast.terms.service import DONE, FAILED

_SET: Final = b"\x01"  # before the value of an update
_DELETED: Final = b"\x00"
_MARGIN_BYTES: Final = 256  # of a message, for what stands beside the value or the reply
_WRITE_BYTES: Final = 10  # of a message with many values, for the lengths of a name and its value
_OBSOLETE_BYTES: Final = 9  # of a message, for a message that it makes obsolete
_ERROR_BYTES: Final = 1000
_ALL_ITEMS: Final = "*"  # what a message with all updates of a request is about


class Service(Protocol):
    """What the user writes.  `execute` reads and writes `items`, which the library provides."""

    items: MutableMapping[str, Any]

    def execute(self, request: Any) -> Any:
        """Carry out one request and return the reply; an error that it raises undoes it."""
        ...


class Executor:
    """Runs requests of one service over its items; no message that comes of them is larger than
    `message_bytes`.  With `packs` all updates of a request are one message."""

    __slots__ = ("_service", "items", "message_bytes", "packs")

    def __init__(
        self, service: Service, applied: dict[str, bytes], message_bytes: int, packs: bool
    ) -> None:
        self.items = Items(applied)
        self.message_bytes = message_bytes
        self.packs = packs
        self._service = service
        service.items = self.items

    def run(self, body: bytes) -> tuple[str, bytes]:
        """Execute; an error is a reply, and leaves no trace in the items."""
        try:
            reply = encode_value(self._service.execute(decode_value(body)))
            if self._service.items is not self.items:
                raise TypeError("the service replaced self.items; change the items in it instead")
            self._check_sizes(reply)
        except Exception as error:
            self.items.undo()
            self._service.items = self.items
            return FAILED, self._failure(error)
        return DONE, reply

    def _failure(self, error: Exception) -> bytes:
        """The reply about an error; whatever a service raises, there is one, and it fits."""
        kind = type(error).__name__
        try:
            text = f"{kind}: {error}"
        except Exception as another:
            text = f"{kind}: its text cannot be read, that raises {type(another).__name__}"
        room = max(0, min(_ERROR_BYTES, self.message_bytes - _MARGIN_BYTES))
        # A lone surrogate is no UTF-8, and a character that is cut in two is left out.
        cut = text.encode(errors="backslashreplace")[:room]
        return encode_value(cut.decode(errors="ignore"))

    def _check_sizes(self, reply: bytes) -> None:
        bound = self.message_bytes - _MARGIN_BYTES
        writes = list(self.items.write_sizes())
        if self.packs:
            beside = _WRITE_BYTES * len(writes)
            writes = [("all that it wrote", sum(size for _, size in writes) + beside)]
        for name, size in (("the reply", len(reply)), *writes):
            if size > bound:
                raise ValueError(f"{name} has {size} bytes, maximum is {bound}")

    def updates(self) -> tuple[list[Update], list[str]]:
        """What the last request wrote, one message for each item or one for all [SVS §5.2], and the
        names of the items."""
        writes = self.items.take_writes()
        if self.packs:
            whole = [Update(encode_value(writes), item=_ALL_ITEMS)] if writes else []
            return whole, list(writes)
        return [
            Update(_DELETED if value is None else _SET + value, item=name)
            for name, value in writes.items()
        ], list(writes)

    def finish(self, fin: Fin, obsoletes: Sequence[Seq]) -> Update:
        """The end of a request, which lists what it makes obsolete.  The oldest are left out if not
        all fit beside a large reply: then less is purged."""
        body = encode_value(fin)
        room = max(0, self.message_bytes - _MARGIN_BYTES - len(body)) // _OBSOLETE_BYTES
        return Update(body, obsoletes=tuple(obsoletes[max(0, len(obsoletes) - room) :]))

    def written(self, message: DataMessage) -> Iterable[tuple[str, bytes | None]]:
        """The items in an update and their values, None if the item is deleted."""
        if self.packs:
            return _decode_writes(message.payload).items()
        is_set = message.payload[:1] == _SET
        return ((message.name, message.payload[1:] if is_set else None),)


_decode_writes = msgspec.msgpack.Decoder(dict[str, bytes | None]).decode
