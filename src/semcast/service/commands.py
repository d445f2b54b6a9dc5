"""The commands of the store: strings and counters.

A request is an array in MessagePack: the name of a command, then its arguments.  Keys and values
are bytes.  A command is a function of the items and its arguments alone, so every server that
executes it in the same state does and answers the same.  A command that does not exist, or has
wrong arguments, is answered as an error and changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from semcast.terms.errors import SemcastError

INTEGER_MAX: Final = 2**63 - 1
KEY_BYTES_MAX: Final = 1024

encode_request = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list)


class CommandError(SemcastError):
    """The command cannot be carried out; the text is the answer."""


class KeyValues(Protocol):
    """What a command reads and writes."""

    items: dict[bytes, bytes]

    def write(self, key: bytes, value: bytes | None) -> None:
        """Set an item, or delete it."""


class StoreCommand(NamedTuple):
    """`types` are those of its arguments; `run` gets them behind the name.  A command with
    `is_ready` waits until that is true."""

    is_update: bool
    types: tuple[Any, ...]
    run: Callable[[KeyValues, Sequence[Any]], Any]
    is_ready: Callable[[KeyValues, Sequence[Any]], bool] | None = None


Parsed: TypeAlias = tuple[StoreCommand, Sequence[Any]]
"""a command, with its name and arguments of the right types"""


def _get(state: KeyValues, request: Sequence[Any]) -> bytes | None:
    return state.items.get(request[1])


def _set(state: KeyValues, request: Sequence[Any]) -> bool:
    _, key, value = request
    state.write(key, value)
    return True


def _delete(state: KeyValues, request: Sequence[Any]) -> bool:
    key = request[1]
    if key not in state.items:
        return False
    state.write(key, None)
    return True


def _increment(state: KeyValues, request: Sequence[Any]) -> int:
    key: bytes = request[1]
    amount: int = request[2]
    text: bytes = state.items.get(key, b"0")
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19:
        raise CommandError("incr: the value is not an integer")
    value = int(text) + amount
    if not -INTEGER_MAX <= value <= INTEGER_MAX:
        raise CommandError("incr: the counter would have more than 63 bits")
    state.write(key, b"%d" % value)
    return value


def _has_changed(state: KeyValues, request: Sequence[Any]) -> bool:
    seen: bytes | None = request[2]
    return state.items.get(request[1]) != seen


COMMANDS: Final[Mapping[str, StoreCommand]] = {
    "get": StoreCommand(False, (bytes,), _get),
    "set": StoreCommand(True, (bytes, bytes), _set),
    "incr": StoreCommand(True, (bytes, int), _increment),
    "del": StoreCommand(True, (bytes,), _delete),
    # Answered once the value is not the one that the client has seen; values in between are not
    # reported.
    "watch": StoreCommand(False, (bytes, bytes | None), _get, _has_changed),
}

Key: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES_MAX)]

# By how a request begins, behind the length of the array: a command, and what decodes the request
# if all is as it should be.
_BY_NAME: Final[Mapping[bytes, tuple[StoreCommand, Callable[[bytes], Sequence[Any]]]]] = {
    encode_request(name): (
        command,
        msgspec.msgpack.Decoder(tuple[(str, Key, *command.types[1:])]).decode,  # type: ignore[misc]
    )
    for name, command in COMMANDS.items()
}


_UPDATES: Final = frozenset(name for name, (command, _) in _BY_NAME.items() if command.is_update)


def is_update(body: bytes) -> bool:
    """Whether a request asks for an update, by its name alone; whether it makes sense will be found
    out when it is executed."""
    return len(body) > 1 and body[1 : 2 + (body[1] & 0x1F)] in _UPDATES


def parse(body: bytes) -> Parsed:
    """The command in a request; `CommandError` if there is none."""
    try:
        command, decode = _BY_NAME[body[1 : 2 + (body[1] & 0x1F)]]
        return command, decode(body)
    except (IndexError, KeyError, msgspec.MsgspecError):
        return _parse_carefully(body)


def _parse_carefully(body: bytes) -> Parsed:
    """Say what is wrong with it."""
    try:
        name, *arguments = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise CommandError(f"cannot decode the request: {error}") from error
    command = COMMANDS.get(name) if isinstance(name, str) else None
    if command is None:
        raise CommandError(f"unknown command {str(name)[:40]!r}")
    if len(arguments) != len(command.types):
        raise CommandError(f"{name}: {len(arguments)} arguments, not {len(command.types)}")
    for place, (value, kind) in enumerate(zip(arguments, command.types, strict=True), 1):
        if not isinstance(value, kind):
            raise CommandError(f"{name}: argument {place} has the wrong type")
    if len(arguments[0]) > KEY_BYTES_MAX:
        raise CommandError(f"{name}: the key has more than {KEY_BYTES_MAX} bytes")
    return command, (name, *arguments)
