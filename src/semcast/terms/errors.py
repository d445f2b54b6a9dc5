"""What can go wrong, by who has to act.

`LocalProtocolError`: this program misused the protocol.  `RemoteProtocolError`: a peer did.
`ConfigError`: a setting is impossible.  `BufferFull`, `NoQuorum`: the stated policy where a
sender would have to wait.
Anything else that escapes is a bug.
"""

from collections.abc import Iterable


class SemcastError(Exception):
    """The root of every error that Semcast raises on purpose."""


class ConfigError(SemcastError, ValueError):
    """A setting that cannot work; the message names the field and what it allows."""


class LocalProtocolError(SemcastError):
    """The application asked for something the protocol cannot mean."""


class RemoteProtocolError(SemcastError):
    """A peer sent something the protocol cannot mean."""


class BufferFull(SemcastError):
    """The buffer is full of messages that may not be purged, and the policy is "error"."""


class NoQuorum(SemcastError):
    """Too few members of the last view can be reached to go on, and the policy is "error"."""


def one_of(field: str, value: object, allowed: Iterable[object]) -> ConfigError:
    """The error for a value outside a list."""
    return ConfigError(f"{field}: {value!r} is not one of {', '.join(str(a) for a in allowed)}")
