"""The obsolescence distance of every message in one sender's stream, under item tags.

A stream is seen as links: (item or None, whether the message is exempt from purging).  D is the
number of places back to the latest message that this one makes obsolete, 0 if there is none.

Rule: [SRM §5.1], the random variable D.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeAlias

from semcast.terms.messages import Update

StreamLink: TypeAlias = tuple[Hashable, bool]


def links(stream: Iterable[Update]) -> Iterator[StreamLink]:
    """The part of each update that decides obsolescence under item tags."""
    return ((update.item, update.never_purge) for update in stream)


def distances(stream: Iterable[StreamLink]) -> Iterator[int]:
    """D of each message in turn; memory grows with the number of items only."""
    latest: dict[Hashable, int] = {}
    for place, (item, exempt) in enumerate(stream):
        if item is None:
            yield 0
            continue
        yield place - latest.get(item, place)
        if not exempt:
            latest[item] = place


def never_obsolete(stream: Iterable[StreamLink]) -> float:
    """The share of messages that no later message makes obsolete; 1 for an empty stream."""
    waiting: set[Hashable] = set()  # items whose latest message may still become obsolete
    messages = obsolete = 0
    for item, exempt in stream:
        messages += 1
        if item is None:
            continue
        if item in waiting:
            obsolete += 1
            waiting.remove(item)
        if not exempt:
            waiting.add(item)
    return 1 - obsolete / messages if messages else 1.0
