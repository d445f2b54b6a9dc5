"""FIFO Order, and what is left of it where a newer value may take an older one's place.

A process delivers m too late if it has delivered a later message before, one that stands after m in
the sender's stream.  So the place of m among the process's deliveries is compared with the least
place of all later messages, of those of its item, or of those that may not be purged.

Rule: FIFO Order [SRB §2.1], [SRM §4.2].  Item Order is FIFO Order between messages of one sender
that share an item, or of which one may not be purged, as their application declared them.
"""

import numpy as np

from semcast.pipeline.check.event_table import EventRecord, EventTable
from semcast.pipeline.check.running_state import EarliestEvent, PerItemState
from semcast.pipeline.check.stream_block import (
    NEVER,
    FirstEvents,
    Mask,
    Places,
    StreamBlock,
    StreamInfo,
    ViolationRows,
    declares_item,
    declares_keep,
    happened_before,
    has_item,
    has_message,
    is_kept,
    scatter_min,
)


class FifoOrderCheck:
    """No process delivers m after m' if their sender multicast m before m'."""

    def __init__(self, stream: StreamInfo, findings: ViolationRows) -> None:
        self._stream = stream
        self._findings = findings
        self._later: dict[int, EarliestEvent] = {}  # by life

    def on_block(self, block: StreamBlock) -> None:
        """The numbers that a process delivers strictly increase."""
        for life, delivered in block.lives.items():
            self._judge(delivered, self._later.setdefault(life, EarliestEvent(self._stream.n)))

    def on_end(self) -> None:
        """Nothing is left to judge."""

    def _judge(self, delivered: FirstEvents, later: EarliestEvent) -> None:
        passed = later.passed(delivered)
        for i in np.flatnonzero(passed | ~delivered.is_first):
            one, row, pid = delivered.records[i], delivered.rows[i], delivered.pids[i]
            last = later.record(delivered, row + 1 if passed[i] else row, pid)
            what = too_late(self._stream, one, last)
            self._findings.add(self._stream, "fifo_order", what, last, one)
        later.update(delivered)


class ItemOrderCheck:
    """No process delivers m after m' if m' stands later and both are of one item, or one of them
    may not be purged: what is never obsolete may be what gives later values their meaning."""

    def __init__(self, stream: StreamInfo, findings: ViolationRows) -> None:
        self._stream = stream
        self._findings = findings
        self._lives: dict[int, LaterDeliveries] = {}

    def on_block(self, block: StreamBlock) -> None:
        """Judge each delivery by what may not be crossed, or else by its item."""
        for life, delivered in block.lives.items():
            later = self._lives.setdefault(life, LaterDeliveries(self._stream.n))
            is_told = has_message(delivered.records)
            itemised = delivered if is_told.all() else block.firsts(delivered.records[is_told])
            self._judge(block, itemised, later)

    def on_end(self) -> None:
        """Nothing is left to judge."""

    def _judge(self, block: StreamBlock, every: FirstEvents, later: "LaterDeliveries") -> None:
        records = every.records
        items = DeclaredItems(block, records)
        fixed = block.firsts(records[items.is_fixed])
        if later.of_all.passed(every).any() or not every.is_first.all():
            self._judge_late(every, fixed, items, later)  # Else it is FIFO Order: more.
        later.add(every, fixed, records[items.is_about], items.items[items.is_about])

    def _judge_late(
        self,
        every: FirstEvents,
        fixed: FirstEvents,
        items: "DeclaredItems",
        later: "LaterDeliveries",
    ) -> None:
        is_fixed, is_about = items.is_fixed, items.is_about
        records, rest = every.records, (every.rows + 1, every.pids)
        barrier = np.where(
            is_fixed, later.of_all.places(every, *rest), later.of_fixed.places(fixed, *rest)
        )
        crossed = records["place"] > barrier
        for i in np.flatnonzero(crossed):
            beyond, known = (later.of_all, every) if is_fixed[i] else (later.of_fixed, fixed)
            last = beyond.record(known, every.rows[i] + 1, every.pids[i])
            which = "the first" if is_fixed[i] else "the second"
            self._report(records[i], last, f"{which} of which may not be purged")
        about, of = records[is_about], items.items[is_about]
        self._judge_items(about, of, crossed[is_about], later.of_item)

    def _judge_items(
        self, records: EventTable, items: Places, is_judged: Mask, later: PerItemState
    ) -> None:
        order = np.lexsort((records["place"], items, records["pid"]))
        records, items, is_judged = records[order], items[order], is_judged[order]
        pids, seqs = records["pid"], records["seq"]
        shared = (pids[1:] == pids[:-1]) & (items[1:] == items[:-1])
        for i in np.flatnonzero(shared & (seqs[1:] <= seqs[:-1]) & ~is_judged[1:]):
            self._report(records[i + 1], records[i], f"both of item {items[i]}")
        rows = later.rows(items)
        is_late = records["place"] > later.values[rows, records["pid"]]
        for i in np.flatnonzero(is_late & ~is_judged):
            why = f"later messages of its item {items[i]} had been delivered"
            self._report(records[i], None, why)

    def _report(self, one: EventRecord, last: EventRecord | None, why: str) -> None:
        what = f"{too_late(self._stream, one, last)}, {why}"
        self._findings.add(self._stream, "item_order", what, last, one)


class DeclaredItems:
    """By delivery, the item that was declared of the message, if any, and whether it may not be
    purged; of what nobody had multicast, as it was delivered."""

    def __init__(self, block: StreamBlock, delivered: EventTable) -> None:
        self.items: Places = delivered["item"].astype(np.int64)
        self.is_about, never_purged = has_item(delivered), is_kept(delivered)
        rows = delivered["seq"] - block.base
        known = block.messages.known(rows)
        sent = block.messages.at(rows[known])
        known[known] = happened_before(
            block.stream, sent["pid"], sent["place"], sent["ts"], delivered[known]
        )
        multicasts = block.messages.at(rows[known])
        self.items[known] = multicasts["own_item"]
        self.is_about[known] = declares_item(multicasts)
        never_purged[known] = declares_keep(multicasts)
        self.is_fixed: Mask = ~self.is_about | never_purged


class LaterDeliveries:
    """What one life delivered beyond the block: of all messages, of those that may not be purged,
    and of each item the least place."""

    def __init__(self, n: int) -> None:
        self.of_all = EarliestEvent(n)
        self.of_fixed = EarliestEvent(n)
        self.of_item = PerItemState(n, NEVER, np.int64)

    def add(self, every: FirstEvents, fixed: FirstEvents, about: EventTable, items: Places) -> None:
        """Carry a block over to the older ones; `about`: those of its records with an item."""
        self.of_all.update(every)
        self.of_fixed.update(fixed)
        rows = self.of_item.rows(items)
        scatter_min(self.of_item.values, rows, about["pid"], about["place"])


def too_late(stream: StreamInfo, one: EventRecord, last: EventRecord | None) -> str:
    """What is wrong with a delivery."""
    what = f"process {one['pid']} delivered {stream.sender}:{one['seq']}"
    return f"{what} after {stream.sender}:{last['seq']}" if last is not None else what
