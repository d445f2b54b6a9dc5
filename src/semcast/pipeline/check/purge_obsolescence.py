"""Whether what was purged was obsolete, by what was multicast alone.

A purge names the message m' for which m went.  It stands in the block of m', which is judged before
that of m; so what m must be is carried down to it.  Where the relation is richer than items, a walk
goes down from m' over what each message lists, until it meets m or has passed it.

Rule: [SRB §2.1], [SRM §3.2].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from semcast.pipeline.check.event_fields import OWN_ITEM, OWN_KEEP
from semcast.pipeline.check.event_table import NONE, EventRecord, EventTable, concat
from semcast.pipeline.check.stream_block import (
    Mask,
    Places,
    StreamBlock,
    StreamInfo,
    declares_item,
    declares_keep,
    happened_before,
)
from semcast.terms.relations import ITEM, LISTED, NOTHING, REQUESTS


@dataclass(slots=True, eq=False)
class RelationWalk:
    """From the newer message of a purge towards the older one."""

    purge: EventRecord
    found: bool = False


class PurgeObsolescence:
    """One per stream; `not_obsolete` for each block, newest first, then `never_multicast`."""

    def __init__(self, stream: StreamInfo) -> None:
        self._stream = stream
        self._waiting: EventTable = NONE  # purges of messages in older blocks
        self._item: Places = np.zeros(0, np.int64)  # of the newer message of each
        self._walks: list[RelationWalk] = []
        self._at: dict[int, list[RelationWalk]] = {}  # by number, the walks that will get there
        self._fin, self._items = 0, set[int]()  # of the request that the block is in
        self._updated: dict[int, set[int] | None] = {}  # by *fin*, the items of its request

    def not_obsolete(self, block: StreamBlock, purges: EventTable) -> Iterator[EventRecord]:
        """The purges, of this block or carried to it, whose message was not obsolete."""
        messages = block.messages
        rows = purges["by"] - block.base
        stands = messages.known(rows) & (purges["seq"] < purges["by"])
        standing, source = purges[stands], messages.at(rows[stands])
        stands[stands] = happened_before(
            self._stream, source["pid"], source["place"], source["ts"], standing
        )
        yield from purges[~stands]
        by = {REQUESTS: self._by_request, LISTED: self._by_list}
        yield from by.get(self._stream.replaces, self._by_item)(block, purges[stands])

    def never_multicast(self) -> Iterator[EventRecord]:
        """The purges of what was never multicast."""
        yield from self._waiting
        for walk in self._walks:
            yield walk.purge

    def _by_item(self, block: StreamBlock, purges: EventTable) -> Iterator[EventRecord]:
        newer = block.messages.at(purges["by"] - block.base)
        if self._stream.replaces == NOTHING:
            yield from purges
            return
        if self._stream.replaces == ITEM:
            yield from purges[~declares_item(newer)]
            purges, newer = purges[declares_item(newer)], newer[declares_item(newer)]
        waiting = concat((self._waiting, purges))
        items = np.concatenate((self._item, newer["own_item"]))
        due = waiting["seq"] >= block.base
        self._waiting, self._item = waiting[~due].copy(), items[~due]
        yield from waiting[due][~self._is_obsolete(block, waiting[due], items[due])]

    def _is_obsolete(self, block: StreamBlock, purges: EventTable, items: Places) -> Mask:
        rows = purges["seq"] - block.base
        obsolete: Mask = rows < block.size
        obsolete[obsolete] = block.messages.known(rows[obsolete])
        older = block.messages.at(rows[obsolete])
        fits = ~declares_keep(older)
        if self._stream.replaces == ITEM:
            fits &= declares_item(older) & (older["own_item"] == items[obsolete])
        obsolete[obsolete] = fits
        return obsolete

    def _by_list(self, block: StreamBlock, purges: EventTable) -> Iterator[EventRecord]:
        covers, messages = block.covers, block.messages
        for purge in purges:
            walk = RelationWalk(purge)
            self._walks.append(walk)
            self._step(walk, purge["by"], covers.get(purge["by"], ()))
        for number in range(block.base + block.size - 1, block.base - 1, -1):
            walks = self._at.pop(number, ())
            message = messages.get(number) if walks else None
            if message is None:
                continue
            for walk in walks:
                if number == walk.purge["seq"]:
                    walk.found = not message["flags"] & OWN_KEEP
                elif not walk.found:
                    self._step(walk, number, covers.get(number, ()))
        yield from self._unfound(block)

    def _unfound(self, block: StreamBlock) -> Iterator[EventRecord]:
        """The walks that have passed their message."""
        yield from (w.purge for w in self._walks if not w.found and w.purge["seq"] >= block.base)
        self._walks = [w for w in self._walks if not w.found and w.purge["seq"] < block.base]

    def _by_request(self, block: StreamBlock, purges: EventTable) -> Iterator[EventRecord]:
        """A *fin* makes updates obsolete that are of earlier requests and of items of its own."""
        self._walks += [RelationWalk(purge) for purge in purges]
        asked: dict[int, list[RelationWalk]] = {}
        for walk in self._walks:
            self._updated.setdefault(walk.purge["by"], None)
            asked.setdefault(walk.purge["seq"], []).append(walk)
        records = block.messages.records
        for i in range(len(records) - 1, -1, -1):
            message = records[i]
            if not message["flags"] & OWN_ITEM:
                if self._fin in self._updated:
                    self._updated[self._fin] = self._items
                self._fin, self._items = message["seq"], set()
            for walk in asked.get(message["seq"], ()):
                items = self._updated[walk.purge["by"]]  # None in the request itself
                is_same = items is not None and message["own_item"] in items
                is_update = message["flags"] & OWN_ITEM
                walk.found = bool(is_same and is_update and not message["flags"] & OWN_KEEP)
            if message["flags"] & OWN_ITEM:
                self._items.add(message["own_item"])
        yield from self._unfound(block)
        waiting = {walk.purge["by"] for walk in self._walks}
        self._updated = {fin: self._updated[fin] for fin in waiting}

    def _step(self, walk: RelationWalk, number: int, distances: Sequence[int]) -> None:
        for older in {number - distance for distance in distances}:
            if older >= walk.purge["seq"]:
                walks = self._at.setdefault(older, [])
                if walk not in walks:
                    walks.append(walk)
