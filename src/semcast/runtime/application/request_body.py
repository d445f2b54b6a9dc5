"""How a client writes a request: as MessagePack, with an error that says what cannot be written."""

from typing import Any

from semcast.service.replica_state import encode_value
from semcast.terms.errors import LocalProtocolError


def encode_body(request: Any) -> bytes:
    """A request in MessagePack; a TypeError if it has an object that MessagePack does not know."""
    try:
        return encode_value(request)
    except (OverflowError, UnicodeError, RecursionError, ValueError) as error:
        raise LocalProtocolError(f"request: MessagePack cannot encode it: {error}") from None


def encode_text(text: str | bytes) -> bytes:
    """A key or a value; bytes are taken as they are."""
    if not isinstance(text, str):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise LocalProtocolError(
            f"request: {text[:60]!r} is not UTF-8 text; give bytes, or text without surrogates"
        ) from None
