"""Counts forks, so that keys, counters and sockets are not used on both sides of a fork.

A child has the parent's memory: its keys, its counters and its sockets.  If both used them, a nonce
would repeat, and the group would hear two processes as one member.
Rejected: `os.getpid()` at each use, a system call of up to 200 ns where sealing takes 1,400.
"""

import os
from typing import ClassVar, Protocol
from weakref import WeakSet

from semcast.terms.errors import LocalProtocolError


class Forkable(Protocol):
    """What wants to know that it is the child's copy."""

    def on_fork(self) -> None: ...


class Ancestry:
    """Of this process.  `forks` is one more in a child than in its parent."""

    forks = 0
    listeners: ClassVar[WeakSet[Forkable]] = WeakSet()

    @classmethod
    def on_fork(cls) -> None:
        """This is the child."""
        cls.forks += 1
        for each in cls.listeners:
            each.on_fork()


os.register_at_fork(after_in_child=Ancestry.on_fork)


def forked(call: str) -> LocalProtocolError:
    """The error for a call in a child that only the parent may make."""
    return LocalProtocolError(
        f"{call}: semcast was forked: process {os.getppid()} or one before it joined the group, "
        f"and process {os.getpid()} is its child; join again in the child"
    )
