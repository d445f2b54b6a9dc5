"""What an application declared about a message, as opposed to what the protocol annotated.

A sender turns a declaration into an annotation, which it sends (`core/relation/`).  Monitors judge
the annotation by the declaration, which the `multicast` event has: the numbers of the own
messages that the application called obsolete (`Event.declared`), its item and whether it may never
be purged.  The last two are those of the message, unless `Event.declares` says otherwise.
"""

import re
from typing import Final

import msgspec

from semcast.terms.events import Event
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage, Update

DECLARES: Final = re.compile(r"(?:item(?:=(-?\d{1,19}))?)?(?: ?never_purge=([01]))?")


class Declared(msgspec.Struct, frozen=True, gc=False):
    """A message as its application declared it.  `obsoletes` are numbers of the same sender."""

    sender: Rank
    seq: Seq
    item: int | None = None
    keep: bool = False
    obsoletes: tuple[Seq, ...] = ()


def declared_by(event: Event) -> Declared:
    """What a `multicast` event tells of its message."""
    message = event.message
    item, keep = (None, False) if message is None else (message.item, message.never_purge)
    if event.declares and (parts := DECLARES.fullmatch(event.declares)) is not None:
        if event.declares.startswith("item"):
            item = None if parts[1] is None else int(parts[1])
        keep = keep if parts[2] is None else parts[2] == "1"
    return Declared(event.sender, event.seq, item, keep, event.declared)


def declare(event: Event, item: int | None, update: Update) -> None:
    """Record in a `multicast` event what its application declared; `item` is the update's tag."""
    message = event.message
    assert message is not None
    if update.obsoletes:
        event.declared = tuple(update.obsoletes)
    if item != message.item or update.never_purge != message.never_purge:
        event.declares = _difference(item, update, message)


def _difference(item: int | None, update: Update, message: DataMessage) -> str:
    words = []
    if item != message.item:
        words.append("item" if item is None else f"item={item}")
    if update.never_purge != message.never_purge:
        words.append(f"never_purge={update.never_purge:d}")
    return " ".join(words)
