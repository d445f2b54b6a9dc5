"""Items: what a message is about, as the application calls it and as it stands on the wire."""

from hashlib import blake2b
from typing import Final, TypeAlias

Item: TypeAlias = str | int  # a name, or a signed 64-bit number that is its own tag

ITEM_MIN: Final = -(1 << 63)
ITEM_MAX: Final = (1 << 63) - 1


def item_tag(name: str) -> int:
    """The tag of the item called `name`: BLAKE2b of its UTF-8, 64 bits, big-endian, signed."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
