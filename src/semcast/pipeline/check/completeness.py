"""What every correct process must have delivered once a run has fallen quiet.

A message is settled at a process that delivered it, or a later one that makes it obsolete.  Going
from the newest message down, an item is settled at a process from its last delivery on; where the
relation is richer, each settled message settles those that it lists.  Of what is left unsettled,
each property names the part that was promised.

Rule: Validity, Agreement, FIFO Completeness [SRB §2.1], [SRM fig. 3]; Sender Reliability
[SRM fig. 2].
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from semcast.pipeline.check.event_table import EventRecord, EventTable
from semcast.pipeline.check.running_state import PerItemState
from semcast.pipeline.check.stream_block import (
    NEVER,
    Mask,
    StreamBlock,
    StreamInfo,
    ViolationRows,
    declares_item,
    declares_keep,
)
from semcast.terms.relations import ITEM, LISTED, NOTHING, REQUESTS

_SMALL: Final = 1 << 15  # Fewer numbers than this are ordered by radix.
_ALL: Final = 0  # Under the relation `all` every message is about the same.


class SatisfiedMessages:
    """Which messages are settled at which processes; one per stream."""

    def __init__(self, stream: StreamInfo) -> None:
        self._stream = stream
        self._items = PerItemState(stream.n, False, np.bool_)
        self._listed: dict[int, NDArray[np.bool_]] = {}  # by number or item, for older messages
        self._open: set[int] = set()  # the items of the request that the block is in
        self._fin: NDArray[np.bool_] = np.zeros(stream.n, bool)  # who delivered what ended it

    def of(self, block: StreamBlock) -> Mask:
        """By message of the block, in the order of `block.messages.records`, and process."""
        messages = block.messages
        delivered: Mask = block.deliveries.happened[messages.rows]
        replaces = self._stream.replaces
        if replaces == NOTHING:
            return delivered
        if replaces == REQUESTS:
            return self._by_request(messages.records, delivered)
        if replaces == LISTED:
            return self._by_list(block, delivered)
        return self._by_item(messages.records, delivered, has_items=replaces == ITEM)

    def _by_item(self, messages: EventTable, delivered: Mask, *, has_items: bool) -> Mask:
        items = messages["own_item"] if has_items else np.full(len(messages), _ALL)
        is_one = declares_item(messages) if has_items else np.ones(len(messages), bool)
        settled = delivered.copy()
        about = np.flatnonzero(is_one)[::-1]  # newest first
        if not len(about):
            return settled
        codes, lines = self._items.encode_items(items[about])
        order = np.argsort(codes.astype("i2") if len(lines) < _SMALL else codes, kind="stable")
        ordered, about = codes[order], about[order]
        places = np.arange(len(order))
        is_new = np.append(True, ordered[1:] != ordered[:-1])
        first = np.maximum.accumulate(np.where(is_new, places, 0))
        for pid in range(self._stream.n):
            has, known = delivered[about, pid], self._items.values[lines, pid]
            if not has.all():
                latest = np.maximum.accumulate(np.where(has, places, -1))
                by_later = known[ordered]
                by_later[1:] |= latest[:-1] >= first[1:]
                settled[about, pid] |= by_later & ~declares_keep(messages)[about]
            self._items.values[lines[ordered[has]], pid] = True
        return settled

    def _by_list(self, block: StreamBlock, delivered: Mask) -> Mask:
        settled, listed, covers = delivered.copy(), self._listed, block.covers
        never_purged = declares_keep(block.messages.records)
        numbers = block.messages.records["seq"].tolist()
        for i in range(len(numbers) - 1, -1, -1):
            marked = listed.pop(numbers[i], None)
            row = settled[i] if marked is None else settled[i] | marked
            if not never_purged[i]:
                settled[i] = row
            if row.any():
                for distance in covers.get(numbers[i], ()):
                    older = numbers[i] - distance
                    known = listed.get(older)
                    listed[older] = row if known is None else known | row
        return settled

    def _by_request(self, messages: EventTable, delivered: Mask) -> Mask:
        """A *fin* settles the updates of earlier requests that are of items of its own."""
        settled = delivered.copy()
        has_item, items = declares_item(messages), messages["own_item"].tolist()
        never_purged = declares_keep(messages)
        for i in range(len(items) - 1, -1, -1):
            if not has_item[i]:
                for item in self._open:
                    known = self._listed.get(item)
                    self._listed[item] = self._fin if known is None else known | self._fin
                self._open, self._fin = set(), delivered[i]
                continue
            marked = self._listed.get(items[i])
            if marked is not None and not never_purged[i]:
                settled[i] |= marked
            self._open.add(items[i])
        return settled


class CompletenessCheck:
    """Judges the properties of this module that are asked for."""

    def __init__(self, stream: StreamInfo, findings: ViolationRows) -> None:
        self._stream = stream
        self._findings = findings
        self._settled = SatisfiedMessages(stream)
        self._highest: list[EventRecord | None] = [None] * stream.n  # delivered, by pid

    def on_block(self, block: StreamBlock) -> None:
        """Find what is owed and not settled, and who had promised it."""
        unsettled = ~self._settled.of(block) & self._stream.owed
        if unsettled.any():
            for name, judge in _JUDGES.items():
                if name in self._stream.judged:
                    judge(self, block, unsettled)
        for pid in range(self._stream.n):
            if self._highest[pid] is None:
                happened = np.flatnonzero(block.deliveries.place[:, pid] != NEVER)
                if len(happened):
                    self._highest[pid] = block.deliveries.record(int(happened[-1]), pid)

    def on_end(self) -> None:
        """Nothing is left to judge."""

    def validity(self, block: StreamBlock, unsettled: Mask) -> None:
        """A correct process delivers some m' ⊒ m for each m that it multicast."""
        sender = self._stream.sender
        for i in np.flatnonzero(unsettled[:, sender]).tolist():
            self._report("validity", block, i, sender, "which it multicast")

    def agreement(self, block: StreamBlock, unsettled: Mask) -> None:
        """If a correct process delivers m, all correct processes deliver some m' ⊒ m."""
        deliveries, rows = block.deliveries, block.messages.rows
        by_whom = deliveries.happened[rows] & self._stream.owed
        for i, pid in np.argwhere(unsettled & by_whom.any(axis=1)[:, None]).tolist():
            at = int(by_whom[i].argmax())
            witness = deliveries.record(int(rows[i]), at)
            self._report("agreement", block, i, pid, f"which process {at} delivered", witness)

    def fifo_completeness(self, block: StreamBlock, unsettled: Mask) -> None:
        """A correct process that delivers m' delivers some m'' ⊒ m for each m before m'."""
        deliveries, rows, sender = block.deliveries, block.messages.rows, self._stream.sender
        for i, pid in np.argwhere(unsettled).tolist():
            last = self._highest[pid]
            if last is None:
                later = np.flatnonzero(deliveries.happened[rows[i] :, pid])
                if not len(later):
                    continue
                last = deliveries.record(int(rows[i] + later[-1]), pid)
            assert last is not None
            why = f"but delivered {sender}:{last['seq']}, which was multicast after it"
            self._report("fifo_completeness", block, i, pid, why, last)

    def sender_reliability(self, block: StreamBlock, unsettled: Mask) -> None:
        """All correct processes deliver some m' ⊒ m for each m that a correct process multicast."""
        if self._stream.owed[self._stream.sender]:
            for i, pid in np.argwhere(unsettled).tolist():
                self._report("sender_reliability", block, i, pid, "whose sender never crashed")

    def _report(
        self, name: str, block: StreamBlock, i: int, pid: int, why: str, *events: EventRecord | None
    ) -> None:
        message = block.messages.records[i]
        what = f"process {pid} delivered nothing for {self._stream.sender}:{message['seq']}, {why}"
        self._findings.add(self._stream, name, what, message, *events)


_JUDGES: Final[Mapping[str, Callable[[CompletenessCheck, StreamBlock, Mask], None]]] = {
    "validity": CompletenessCheck.validity,
    "agreement": CompletenessCheck.agreement,
    "fifo_completeness": CompletenessCheck.fifo_completeness,
    "sender_reliability": CompletenessCheck.sender_reliability,
}
LIVENESS: Final = tuple(_JUDGES)
