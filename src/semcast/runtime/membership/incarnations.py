"""Who a live process is to the machines: a number from its name, and a number for each life.

Lives of one name only ever go up, as long as the disk or the clock is right: a life is one above
the last that this machine gave, and at least the seconds since 2026.  The incarnation on frames
begins with the life that the process started with, so whoever knows one knows the other.
"""

from time import time_ns
from typing import Final

from semcast.runtime.storage.keyring import incarnation_path, next_incarnation
from semcast.terms.ids import PID_MAX, Pid
from semcast.wire.frames import member_id

EPOCH_S: Final = 1_767_225_600
_SHIFT: Final = 32
_LOW: Final = (1 << _SHIFT) - 1


def pid_of(sender: int) -> Pid:
    """The number of a process, from its number on frames."""
    return sender & PID_MAX


def pid_of_name(name: str) -> Pid:
    """The same from its name."""
    return pid_of(member_id(name))


def next_inc() -> int:
    """A life above all earlier ones, and on disk before it is used."""
    path = incarnation_path().with_name("life")
    return next_incarnation(path, time_ns() // 10**9 - EPOCH_S)


def frame_incarnation(life: int) -> int:
    """What frames say of a process that starts with this life; no two starts say the same, even
    if the disk was lost."""
    return life << _SHIFT | time_ns() // 1000 & _LOW


def inc_of_frame(incarnation: int) -> int:
    """The life that a process started with."""
    return incarnation >> _SHIFT
