"""The properties of single streams, judged together: each stream is read once, newest block first.

Nine properties speak of one sender's messages and what all processes did with them.  Each has a
judge of its own here; those that are asked for share the packing, the moving and the reading.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from json import loads
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check.completeness import LIVENESS, CompletenessCheck
from semcast.pipeline.check.fifo_order import FifoOrderCheck, ItemOrderCheck
from semcast.pipeline.check.integrity import AtMostOnceCheck, IntegrityCheck
from semcast.pipeline.check.purging import PurgeSafetyCheck
from semcast.pipeline.check.run_facts import run_facts
from semcast.pipeline.check.stream_block import (
    ANY_SKEW,
    NEVER,
    StreamBlock,
    StreamInfo,
    ViolationRows,
)
from semcast.pipeline.check.stream_packing import BLOCK, STREAM, pack_events
from semcast.pipeline.check.violations import VIOLATIONS, arrow_rows
from semcast.pipeline.reading.trace import TraceTables
from semcast.specs.monitors import AT_LEAST_ONCE
from semcast.terms.events import (
    DELIVER,
    MULTICAST,
    PURGE,
    RECEIVE,
    RECLAIM,
    SAFE,
    SKIP,
    STABLE,
)
from semcast.terms.promises import OPEN, is_replicated, protocols_with
from semcast.terms.relations import facts_of


class BlockCheck(Protocol):
    """Judges one stream."""

    def on_block(self, block: StreamBlock) -> None:
        """The next block, older than those before."""

    def on_end(self) -> None:
        """There is no older one."""


class PropertyRule(NamedTuple):
    """Who judges a property, from events of which kinds."""

    judge: Callable[[StreamInfo, ViolationRows], BlockCheck]
    kinds: frozenset[str]


_SENT: Final = frozenset({MULTICAST, DELIVER})
_MOVED: Final = frozenset({MULTICAST, RECEIVE, SKIP, PURGE, SAFE, STABLE, RECLAIM})
RULES: Final[Mapping[str, PropertyRule]] = {
    "integrity": PropertyRule(IntegrityCheck, _SENT),
    "at_most_once": PropertyRule(AtMostOnceCheck, frozenset({DELIVER})),
    "fifo_order": PropertyRule(FifoOrderCheck, frozenset({DELIVER})),
    "item_order": PropertyRule(ItemOrderCheck, _SENT),
    "purge_safety": PropertyRule(PurgeSafetyCheck, _MOVED),
    **{name: PropertyRule(CompletenessCheck, _SENT) for name in LIVENESS},
}


def violations(
    trace: TraceTables, judged: Mapping[str, Column | None], *, block: int = BLOCK
) -> DataFrame:
    """The violations of the named properties, each on the runs of which its condition holds
    (over the columns of `run_facts.with_processes`; None: on all).  `block`: so many messages are
    looked at together."""
    kinds = frozenset().union(*(RULES[name].kinds for name in judged))
    blocks = with_facts(pack_events(trace.events, kinds, block), trace, judged)
    newest_first = blocks.repartition(*STREAM).sortWithinPartitions(*STREAM, F.desc("block"))
    return newest_first.mapInArrow(_judge, VIOLATIONS)


def with_facts(
    blocks: DataFrame, trace: TraceTables, judged: Mapping[str, Column | None]
) -> DataFrame:
    """Rows of `PACKED` with the facts of their run; all lives of a sender are one stream where its
    numbers go on."""
    known = blocks.join(F.broadcast(run_facts(trace, judged)), "run_id")
    goes_on = F.get_json_object("run", "$.protocol").isin(*protocols_with(OPEN))
    return known.withColumn("sender_inc", F.when(goes_on, F.lit(0)).otherwise(F.col("sender_inc")))


def _judge(batches: Iterable[Any]) -> Iterator[Any]:
    rows = (row for batch in batches for row in _rows(batch))
    for _, blocks in groupby(rows, key=lambda row: tuple(row[name] for name in STREAM)):
        findings = ViolationRows()
        judges: list[BlockCheck] = []
        for _, parts in groupby(blocks, key=lambda row: row["block"]):
            block = block_of(list(parts))
            judges = judges or _judges(block.stream, findings)
            for judge in judges:
                judge.on_block(block)
            yield from _record_batches(findings)
        for judge in judges:
            judge.on_end()
        yield from _record_batches(findings)


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of a batch; the records, which are most of it, stay where they are."""
    for row, records in zip(
        batch.drop_columns("records").to_pylist(), batch["records"], strict=True
    ):
        yield {**row, "records": records.as_buffer()}


def _judges(stream: StreamInfo, findings: ViolationRows) -> list[BlockCheck]:
    wanted = dict.fromkeys(RULES[name].judge for name in RULES if name in stream.judged)
    return [judge(stream, findings) for judge in wanted]


def block_of(parts: Sequence[Mapping[str, Any]]) -> StreamBlock:
    """Rows of `PACKED` with the facts of their run, all of one stream, as one block."""
    return StreamBlock(_stream(parts[0]), parts)


def _stream(row: Mapping[str, Any]) -> StreamInfo:
    run = loads(row["run"])
    n = run["n"]
    owed, left_at = np.zeros(n, bool), np.full(n, NEVER)
    owed[run["owed"]] = True
    for left in run["left"]:
        left_at[left["pid"]] = min(left_at[left["pid"]], left["ts_ns"])
    return StreamInfo(
        run_id=row["run_id"],
        sender=row["sender"],
        sender_inc=row["sender_inc"],
        n=n,
        f=run["f"],
        skew_ns=run.get("skew_ns", ANY_SKEW),
        replaces=facts_of(run["relation"]).replaces,
        is_replicated=is_replicated(run["protocol"]),
        restarts_streams=run.get("recovery") == AT_LEAST_ONCE,
        owed=owed,
        left_at=left_at,
        judged=frozenset(run["judged"]),
    )


def _record_batches(findings: ViolationRows) -> Iterator[Any]:
    if findings.rows:
        yield pa.RecordBatch.from_pylist(findings.rows, schema=arrow_rows())
        findings.rows.clear()
