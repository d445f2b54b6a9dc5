"""A buffer that forgets what is obsolete.

Guarantees: a message leaves by `purge` only while one that makes it obsolete is in the same
buffer [SRB §2.3, TP4 and TP5].  Work per arrival is proportional to what it purges.
Idea: arrivals wait in `unapplied` until the caller lets them purge.  The caller decides when they
purge and up to which number; that makes purging eager, lazy or safe [SRM §6.3].  Until then they
are not indexed, and batches stay whole until one message is looked up: while nothing is congested,
an arrival costs next to nothing.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from operator import attrgetter
from typing import Any

from semcast import kernel
from semcast.core.recipe import Recipe
from semcast.core.relation import make_index
from semcast.terms.ids import SEQ_MAX, Seq
from semcast.terms.messages import DataMessage


class PurgingBuffer:
    """One sender's messages in one buffer, in order of arrival, which is that of the stream."""

    __slots__ = (
        "_batches",
        "_held",
        "_tagged",
        "_unapplied",
        "by_item",
        "index",
        "indexed",
        "purges",
    )

    def __init__(self, recipe: Recipe) -> None:
        self._held: dict[Seq, DataMessage] = {}
        self._batches: deque[kernel.Run] = deque()  # after all that, while nobody looks
        self._tagged = 0  # of them
        self.index = make_index(recipe)
        self.indexed: Seq = 0  # up to where messages are in the index
        self.by_item = self.index.by_item
        self.purges = recipe.purges
        self._unapplied: deque[DataMessage] = deque()

    def __repr__(self) -> str:
        return f"PurgingBuffer(held={list(self.held)}, unapplied={len(self.unapplied)})"

    @property
    def held(self) -> dict[Seq, DataMessage]:
        """What is held, by number."""
        if self._batches:
            self._open_batches(SEQ_MAX)
        return self._held

    @property
    def unapplied(self) -> deque[DataMessage]:
        """What has not purged yet and may."""
        if self._batches:
            self._open_batches(SEQ_MAX)
        return self._unapplied

    def _open_batches(self, upto: Seq) -> None:
        batches = self._batches
        while batches and batches[0].first <= upto:
            batch = batches.popleft()
            self._tagged -= batch.is_tagged
            self._add_each(batch.messages())

    def _batch_of(self, seq: Seq) -> int:
        """The place of the batch that has this number or ends before it; -1 if there is none."""
        batches = self._batches
        if not batches or seq < batches[0].first:
            return -1
        if seq >= batches[-1].first:
            return len(batches) - 1
        return bisect_right(batches, seq, key=attrgetter("first")) - 1

    def holds(self, seq: Seq) -> bool:
        """Whether this number is held."""
        place = self._batch_of(seq)
        if place < 0:
            return seq in self._held
        batch = self._batches[place]
        return bool(seq < batch.first + len(batch))

    def holds_run(self, run: kernel.Run) -> bool:
        """Whether all of these are held as they came; False if that is not easily told."""
        place = self._batch_of(run.first)
        if place < 0:
            return False
        batch = self._batches[place]
        return bool(run.first + run.count <= batch.first + batch.count)

    def run_from(self, seq: Seq, last: Seq, limit: int) -> list[DataMessage]:
        """What is held from `seq` to `last` without a hole: as far as that is easily told."""
        place = self._batch_of(seq)
        if place >= 0:
            batch = self._batches[place]
            start = seq - batch.first
            return list(batch[start : min(start + limit, last - batch.first + 1)])
        messages: list[DataMessage] = []
        while len(messages) < limit and seq <= last and seq in self._held:
            messages.append(self._held[seq])
            seq += 1
        return messages

    def add(self, message: DataMessage) -> None:
        """Hold the next message of the stream; it purges nothing yet."""
        if self._batches:
            self._open_batches(SEQ_MAX)
        self._held[message.seq] = message
        if self.purges:
            self._unapplied.append(message)

    def add_run(self, run: kernel.Run) -> None:
        """Hold the next messages of the stream."""
        if run.is_packed:
            self._batches.append(run)
            self._tagged += run.is_tagged
            return
        if self._batches:
            self._open_batches(SEQ_MAX)
        self._add_each(run.messages())

    def _add_each(self, messages: Sequence[DataMessage]) -> None:
        first = messages[0].seq
        if len(messages) == 1:
            self._held[first] = messages[0]
        else:
            self._held.update(zip(range(first, first + len(messages)), messages, strict=True))
        if self.purges:
            # Without an item, none purges or is purged.
            self._unapplied.extend(messages if self.by_item is None else kernel.with_item(messages))

    def _index(self) -> None:
        """Let the index know what has come since it was last asked."""
        if not self._unapplied or self._unapplied[-1].seq <= self.indexed:
            return
        if self.by_item is not None:
            kernel.index_tagged(self._unapplied, self.indexed, self._held, self.by_item)
        else:
            late = list(takewhile(lambda m: m.seq > self.indexed, reversed(self._unapplied)))
            for message in reversed(late):
                if not message.never_purge and message.seq in self._held:
                    self.index.add(message)
        self.indexed = self._unapplied[-1].seq

    def would_purge(self, message: DataMessage) -> list[DataMessage]:
        """What is held and `message` makes obsolete."""
        held = self.held
        self._index()
        return [held[seq] for seq in self.index.obsoleted_by(message)]

    def take_fitting(
        self, seq: Seq, last: Seq, room: int, is_empty: bool
    ) -> tuple[Sequence[DataMessage], int]:
        """Messages from `seq` to `last` that lie next to each other and fit, and their size.

        Into an empty datagram goes at least one.  Of a batch, which ends by `last`, what leaves is
        one of its own from now on.
        """
        batches, place = self._batches, self._batch_of(seq)
        if place < 0:
            return kernel.take_fitting(self._held, seq, last, room, is_empty)
        batch = batches[place]
        if batch.first != seq:
            return kernel.take_fitting(self.held, seq, last, room, is_empty)
        head, size = batch.take_prefix(room, is_empty)
        if 0 < len(head) < len(batch):
            batches[place] = head
            batches.insert(place + 1, batch.behind(head))
            self._tagged += batch.is_tagged
        return head, size

    def remove(self, seq: Seq) -> DataMessage:
        """Let one message go, for whatever reason."""
        if self._batches:
            self._open_batches(SEQ_MAX)
        message = self._held.pop(seq)
        if seq <= self.indexed and not message.never_purge:
            self.index.remove(message)
        return message

    def remove_range(self, first: Seq, last: Seq) -> list[Sequence[DataMessage]]:
        """Let everything up to `last` go, by runs; nothing before `first` is held."""
        runs: list[Any] = []
        gone = self._remove_each(first, last)
        if gone:
            runs.append(gone)
        batches = self._batches
        while batches and batches[0].first <= last:
            batch = batches.popleft()
            self._tagged -= batch.is_tagged
            count = last - batch.first + 1
            if count < len(batch):
                batches.appendleft(batch[count:])
                self._tagged += batch.is_tagged
                batch = batch[:count]
            runs.append(batch)
        return runs

    def _remove_each(self, first: Seq, last: Seq) -> list[DataMessage]:
        gone = kernel.pop_range(self._held, first, last)
        if first <= self.indexed:
            if self.by_item is not None:
                kernel.unindex_tagged(gone, self.indexed, self.by_item)
            else:
                for message in gone:
                    if message.seq <= self.indexed and not message.never_purge:
                        self.index.remove(message)
        kernel.drop_upto(self._unapplied, last)
        return gone

    def drop_unapplied(self, horizon: Seq) -> None:
        """Messages up to `horizon` have left for good and will purge nothing."""
        if self._batches:
            self._open_batches(SEQ_MAX)
        if self._unapplied:
            kernel.drop_upto(self._unapplied, horizon)

    def purge(self, horizon: Seq) -> list[tuple[DataMessage, Seq]]:
        """Purge what held messages up to `horizon` make obsolete: pairs (purged, by)."""
        if self._batches and self.purges and (self._tagged or self.by_item is None):
            self._open_batches(horizon)
        unapplied = self._unapplied
        if not unapplied or unapplied[0].seq > horizon:
            return []
        self._index()
        if self.by_item is not None:
            return kernel.purge_tagged(unapplied, horizon, self._held, self.by_item)
        purged: list[tuple[DataMessage, Seq]] = []
        while unapplied and unapplied[0].seq <= horizon:
            by = unapplied.popleft()
            if by.seq in self._held:
                for seq in self.index.obsoleted_by(by):
                    purged.append((self.remove(seq), by.seq))  # noqa: PERF401
        return purged
