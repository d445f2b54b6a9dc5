"""Item tags and payloads: what stands on the wire for an item's name and for its value."""

from hashlib import blake2b


def item_tag(name: str) -> int:
    """The tag of the item called `name`: BLAKE2b of its UTF-8, 64 bits, big-endian, signed."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def numbered_payload(number: int, size: int) -> bytes:
    """`size` bytes that begin with `number`, so that two messages differ (from 8 bytes on)."""
    return number.to_bytes(8, "big")[-size:].ljust(size, b"\0") if size else b""
