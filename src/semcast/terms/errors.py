"""Exceptions, grouped by who can fix the problem.

`LocalProtocolError`: this program misused the protocol.  `RemoteProtocolError`: a peer did.
`ConfigError`: a setting is impossible.  `BufferFull`, `NoQuorum`: the stated policy where a
sender would have to wait.  `JoinTimeout`, `ExcludedFromGroup`: there is no group for this member.
`RequestFailed`, `RequestUnknown`: what a client asked was refused, or not answered.
`InternalError`: a bug in Semcast, as the application meets it.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

NEAR: Final = 0.7  # below, a suggestion is a guess
LISTED_MAX: Final = 16  # names beside the one that was probably meant


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


class JoinTimeout(SemcastError):
    """The group did not come together in time."""


class ExcludedFromGroup(SemcastError):
    """The group went on without this member."""


class RequestFailed(SemcastError):
    """The service refused a request and has changed nothing; the text is the service's."""


class RequestUnknown(SemcastError):
    """No answer came to a request, which may or may not have been executed."""


class StorageError(SemcastError):
    """What had to be on stable storage may not be there."""


class InternalError(SemcastError):
    """An error in Semcast itself ended this member; its cause is the error."""


class ReentryError(InternalError):
    """An effect of a machine tried to give the machine its next input."""


def unknown_value(field: str, value: object, allowed: Iterable[object]) -> ConfigError:
    """The error for a value outside a list, with the nearest one that is allowed, or with all if
    none is near or they are few."""
    names = [str(each) for each in allowed]
    nearest = get_close_matches(str(value), names, n=1, cutoff=NEAR)
    listed = ", ".join(names)
    if not nearest:
        hint = f"allowed: {listed}"
    else:
        more = f" Allowed: {listed}" if len(names) <= LISTED_MAX else ""
        hint = f"did you mean {nearest[0]!r}?{more}"
    return ConfigError(f"{field}: unknown value {value!r}; {hint}")
