"""The header of a log's directory: owner of the log, its salt, and the first record still needed.

A log of another group or owner, or in another format, is refused, and so is a damaged header: with
another salt no record would be found, and with another base some would be forgotten.  A directory
that has files but no header is refused, too: taking it for an empty log would forget what it has.
"""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

import msgspec

from semcast.disk.entries import SALT_BYTES
from semcast.terms.errors import ConfigError, StorageError

FORMAT: Final = 2  # Headers of format 1 have no checksum.
HEADER: Final = "log.json"
SUFFIX: Final = ".segment"
LOCK: Final = "lock"  # of whoever has the directory open
NEW: Final = ".new"  # of a file that was about to replace another

_DIGITS: Final = 20


class LogOwner(msgspec.Struct, frozen=True):
    """Whose log: of which group or service, and of which of its processes."""

    group: str
    name: str


class LogHeader(msgspec.Struct, frozen=True, kw_only=True):
    """`base` is the number of the first record that is still needed.  Records up to `synced` were
    durable when this was written.  `salt` is the random salt of the entries, as hexadecimal.
    `checksum` is of all other fields."""

    format: int = FORMAT
    group: str
    owner: str
    salt: str
    base: int = 1
    synced: int = 0
    checksum: int = 0


class _Version(msgspec.Struct):
    format: int


def encode_header(header: LogHeader) -> bytes:
    """As people can read it."""
    header = msgspec.structs.replace(header, checksum=_checksum(header))
    return msgspec.json.format(msgspec.json.encode(header)) + b"\n"


def _checksum(header: LogHeader) -> int:
    return crc32(msgspec.json.encode(msgspec.structs.replace(header, checksum=0)))


def decode_header(data: bytes) -> LogHeader:
    """The header that these bytes are."""
    try:
        found = msgspec.json.decode(data, type=_Version).format
        if found != FORMAT:
            raise ConfigError(
                f"data: the log has format {found}, and this version of Semcast reads {FORMAT}; "
                "use the version that wrote it, or choose another directory"
            )
        header = msgspec.json.decode(data, type=LogHeader)
        if len(bytes.fromhex(header.salt)) != SALT_BYTES or header.base < 1:
            raise ValueError("impossible values")
        if header.checksum != _checksum(header):
            raise ValueError("its checksum is wrong")
    except ConfigError:
        raise
    except ValueError as error:  # msgspec's are, too
        raise StorageError(
            f"the header {HEADER} of the log is damaged: {error}; restore this "
            "file from a copy, or choose another directory"
        ) from None
    return header


def check_owner(header: LogHeader, owner: LogOwner) -> None:
    """Refuse a log of somebody else."""
    if header.group != owner.group:
        raise ConfigError(
            f"data: the directory holds a log of group {header.group!r}, not of {owner.group!r}; "
            "choose another directory"
        )
    if header.owner != owner.name:
        raise ConfigError(
            f"data: the directory holds the log of {header.owner!r}, not of {owner.name!r}; "
            "choose another directory"
        )


def check_new(names: Sequence[str]) -> None:
    """Refuse to begin a log among files that are no log's."""
    others = sorted(name for name in names if name not in (LOCK, HEADER + NEW))
    if others:
        raise ConfigError(
            f"data: the directory has files, such as {others[0]!r}, but no {HEADER}; choose an "
            "empty directory, or restore the missing file"
        )


def segment_name(first: int) -> str:
    """Of the segment whose first record has this number."""
    return f"{first:0{_DIGITS}d}{SUFFIX}"


def segment_firsts(names: Sequence[str]) -> list[int]:
    """The numbers of the first records of all segments, in order."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())
