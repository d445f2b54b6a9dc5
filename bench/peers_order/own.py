"""Semcast: view-synchronous multicast under total order, over UDP multicast on loopback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers_order.race import Field, System

from semcast import __version__

MEMBER = str(Path(__file__).with_name("member.py"))


@contextmanager
def field(folder: Path, members: int, protocol: str = "s-vsm") -> Iterator[Field]:
    """Nothing to prepare."""
    yield Field([(sys.executable, MEMBER, protocol)] * members)


def version() -> str:
    """Of Semcast, and of what runs it."""
    return f"Semcast {__version__}, Python {sys.version.split()[0]}"


SEMCAST = System("semcast", lambda: "", version, field)
