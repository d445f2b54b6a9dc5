"""Causal Order and Causal Completeness, of each run as a whole.

Happens-before is computed from the multicasts and deliveries of the trace alone: a multicast knows
what its sender had multicast, and what the messages that it had delivered know.  One vector per
message suffices, the latest number known of each stream.  Along one process's events it is a
running maximum, so a round over all processes passes knowledge on by one message, and rounds end
when nothing is new: two where everything was delivered, a few more where messages were purged.

Rule: [SRM §4.4]; Causal Completeness is FIFO Completeness over all causal predecessors.
Rejected: trusting what messages say they depend on, which is what is to be verified.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame

from semcast.pipeline.check.completeness import SatisfiedMessages
from semcast.pipeline.check.event_fields import CODE
from semcast.pipeline.check.event_table import EventRecord, EventTable, concat
from semcast.pipeline.check.stream_block import (
    Mask,
    Places,
    StreamBlock,
    ViolationRows,
    happened_before,
)
from semcast.pipeline.check.stream_packing import pack_events
from semcast.pipeline.check.streams import block_of, with_facts
from semcast.pipeline.check.violations import VIOLATIONS, arrow_rows
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import DELIVER, MULTICAST

ORDER: Final = "causal_order"
COMPLETENESS: Final = "causal_completeness"
NAMES: Final = (ORDER, COMPLETENESS)


def violations(trace: TraceTables, judged: Mapping[str, Column | None]) -> DataFrame:
    """The violations of either or both, each on the runs of which its condition holds (over the
    columns of `run_facts.with_processes`; None: on all).  One task judges a run, in memory."""
    blocks = pack_events(trace.events, (MULTICAST, DELIVER))
    runs = with_facts(blocks, trace, judged).groupBy("run_id")
    return runs.applyInArrow(_judge, VIOLATIONS)


def _judge(table: Any) -> Any:
    streams: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        streams.setdefault((row["sender"], row["sender_inc"]), []).append(row)
    run = CausalRun([block_of(streams[key]) for key in sorted(streams)])
    findings = ViolationRows()
    judged = run.blocks[0].stream.judged
    if ORDER in judged:
        run.judge_order(findings)
    if COMPLETENESS in judged:
        run.judge_completeness(findings)
    return pa.Table.from_pylist(findings.rows, schema=arrow_rows())


@dataclass(frozen=True, slots=True)
class ProcessColumns:
    """The multicasts and deliveries of one process, in its order, as columns."""

    records: EventTable
    stream: NDArray[np.int64]  # whose message
    message: NDArray[np.int64]  # which row of `Run.past`
    is_delivery: Mask
    is_first: Mask  # the multicast that gave the number its meaning


class CausalRun:
    """All streams of a run, each as one block."""

    def __init__(self, blocks: list[StreamBlock]) -> None:
        self.blocks = blocks
        self._first = np.cumsum([0, *(len(block.messages.records) for block in blocks)])
        self._locals = [self._local(pid) for pid in range(blocks[0].n)]
        self.past = self._past()

    def judge_order(self, findings: ViolationRows) -> None:
        """No process delivers m after m' if m causally precedes m'."""
        for local in self._locals:
            delivered = np.flatnonzero(local.is_delivery)[1:]
            known, knower = (column[:-1] for column in self._known(local))
            cells = np.arange(len(delivered)), local.stream[delivered]
            is_late = known[cells] >= local.records["seq"][delivered]
            is_late &= local.message[knower[cells]] != local.message[delivered]
            for i in np.flatnonzero(is_late):
                self._report_late(findings, local, int(delivered[i]), int(knower[cells][i]))

    def judge_completeness(self, findings: ViolationRows) -> None:
        """No correct process delivers m' without some m'' ⊒ m for each m before it."""
        for number, block in enumerate(self.blocks):
            unsettled = ~SatisfiedMessages(block.stream).of(block) & block.stream.owed
            messages = block.messages.records
            for pid in np.flatnonzero(unsettled.any(axis=0)):
                local = self._locals[pid]
                known, knower = self._known(local)
                latest = known[-1, number] if len(known) else 0
                for one in messages[unsettled[:, pid] & (messages["seq"] <= latest)]:
                    by = int(knower[-1, number])
                    self._report_incomplete(findings, block, one, local, by)

    def _report_late(
        self, findings: ViolationRows, local: ProcessColumns, late: int, by: int
    ) -> None:
        block = self.blocks[local.stream[late]]
        one, other = local.records[late], local.records[by]
        m, later = self._name(local, late), self._name(local, by)
        what = f"process {one['pid']} delivered {m} after {later}, which {m} causally precedes"
        source = block.messages.get(one["seq"])
        findings.add(block.stream, ORDER, what, source, other, one)

    def _report_incomplete(
        self,
        findings: ViolationRows,
        block: StreamBlock,
        one: EventRecord,
        local: ProcessColumns,
        by: int,
    ) -> None:
        other = local.records[by]
        what = (
            f"process {other['pid']} delivered {self._name(local, by)} but nothing for "
            f"{block.stream.sender}:{one['seq']}, which causally precedes it"
        )
        findings.add(block.stream, COMPLETENESS, what, one, other)

    def _name(self, local: ProcessColumns, i: int) -> str:
        return f"{self.blocks[local.stream[i]].stream.sender}:{local.records['seq'][i]}"

    def _local(self, pid: int) -> ProcessColumns:
        parts, streams, messages, firsts = [], [], [], []
        for number, block in enumerate(self.blocks):
            records = block.of(MULTICAST, DELIVER)
            records = records[records["pid"] == pid]
            known = block.messages.known(records["seq"] - block.base)
            records = records[known]
            source = block.messages.at(records["seq"] - block.base)
            is_sent = happened_before(
                block.stream, source["pid"], source["place"], source["ts"], records
            )
            is_sent |= records["kind"] == CODE[MULTICAST]  # Others are integrity's concern.
            records, source = records[is_sent], source[is_sent]
            parts.append(records)
            streams.append(np.full(len(records), number))
            messages.append(self._first[number] + block.messages.index(records["seq"]))
            firsts.append((records["place"] == source["place"]) & (source["pid"] == pid))
        records = concat(parts)
        order = np.argsort(records["place"], kind="stable")
        return ProcessColumns(
            records[order],
            np.concatenate(streams)[order],
            np.concatenate(messages)[order],
            records["kind"][order] == CODE[DELIVER],
            np.concatenate(firsts)[order],
        )

    def _past(self) -> Places:
        """By message and stream, the latest number that it knows, its own included."""
        past: Places = np.zeros((self._first[-1], len(self.blocks)), np.int64)
        for number, block in enumerate(self.blocks):
            own = slice(self._first[number], self._first[number + 1])
            past[own, number] = block.messages.records["seq"]
        while sum(_propagate(local, past) for local in self._locals):
            pass
        return past

    def _known(self, local: ProcessColumns) -> tuple[Places, Places]:
        """After each delivery, the latest number known of each stream, and the first delivery by
        which it was."""
        delivered = np.flatnonzero(local.is_delivery)
        learnt = self.past[local.message[delivered]]
        known = np.maximum.accumulate(learnt)
        is_new = np.ones(learnt.shape, bool)
        is_new[1:] = learnt[1:] > known[:-1]
        knower = np.maximum.accumulate(np.where(is_new, delivered[:, None], -1))
        return known, knower


def _propagate(local: ProcessColumns, past: Places) -> bool:
    """Let the multicasts of a process know what it knew; whether that was news."""
    sent, first = np.flatnonzero(~local.is_delivery), np.flatnonzero(local.is_first)
    learnt = past[local.message]
    learnt[sent] = 0
    learnt[sent, local.stream[sent]] = local.records["seq"][sent]
    learnt = np.maximum.accumulate(learnt)[first]
    is_news = bool((past[local.message[first]] != learnt).any())
    past[local.message[first]] = learnt
    return is_news
