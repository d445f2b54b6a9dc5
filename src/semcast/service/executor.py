"""The service of a user, as the primary runs it: a request in, a reply and updates out."""

from collections.abc import Iterator, MutableMapping
from typing import Any, Final, Protocol

from semcast.service.replica_state import Items, decode_value, encode_value
from semcast.terms.messages import DataMessage, Update
from semcast.terms.service import DONE, FAILED

_SET: Final = b"\x01"  # before the value of an update
_DELETED: Final = b"\x00"
_MARGIN_BYTES: Final = 256  # of a message, for what stands beside the value or the reply
_ERROR_CHARACTERS: Final = 1000


class Service(Protocol):
    """What the user writes.  `execute` reads and writes `items`, which the library provides."""

    items: MutableMapping[str, Any]

    def execute(self, request: Any) -> Any:
        """Carry out one request and return the reply; an error that it raises undoes it."""
        ...


class Executor:
    """Runs requests of one service over its items; no message that comes of them is larger than
    `message_bytes`."""

    __slots__ = ("_service", "items", "message_bytes")

    def __init__(self, service: Service, applied: dict[str, bytes], message_bytes: int) -> None:
        self.items = Items(applied)
        self.message_bytes = message_bytes
        self._service = service
        service.items = self.items

    def run(self, body: bytes) -> tuple[str, bytes]:
        """Execute; an error is a reply, and leaves no trace in the items."""
        try:
            reply = encode_value(self._service.execute(decode_value(body)))
            self._check_sizes(reply)
        except Exception as error:
            self.items.undo()
            text = f"{type(error).__name__}: {error}"
            return FAILED, encode_value(text[:_ERROR_CHARACTERS])
        return DONE, reply

    def _check_sizes(self, reply: bytes) -> None:
        bound = self.message_bytes - _MARGIN_BYTES
        for name, size in (("the reply", len(reply)), *self.items.write_sizes()):
            if size > bound:
                raise ValueError(f"{name} has {size} bytes, maximum is {bound}")

    def updates(self) -> Iterator[Update]:
        """What the last request wrote, one message for each item [SVS §5.2]."""
        for name, value in self.items.take_writes().items():
            yield Update(_DELETED if value is None else _SET + value, item=name)


def written(message: DataMessage) -> bytes | None:
    """The value in an update, None if the item is deleted."""
    return message.payload[1:] if message.payload[:1] == _SET else None
