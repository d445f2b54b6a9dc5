"""Profiles in this process: the functions that tasks run, applied to Arrow tables one by one.

Up to `ROWS_MAX` messages of a trace or `BYTES_MAX` of files this takes less time than a JVM takes
to start.  The counts of a stream are bounded; rows that have to be ordered first are all held,
about 60 bytes each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.models.advice import Rates
from semcast.pipeline.profile.distance_curve import (
    BinTarget,
    DistanceBins,
    StreamLabel,
    points_in,
)
from semcast.pipeline.profile.keyed_counts import (
    count_rows,
    count_work,
    kind_number,
    numbered,
    resolve_boundaries,
    sender_number,
)
from semcast.pipeline.profile.partial_counts import (
    MERGED_SCHEMA,
    PARTIAL_SCHEMA,
    STREAM,
    ResolveDistances,
    merge_bucket,
    table_of,
)
from semcast.pipeline.profile.profile import (
    BadRows,
    ItemFrequency,
    Profile,
    StreamCounts,
    bins_of,
    describe_bad,
    make_profile,
    name_senders,
)
from semcast.pipeline.profile.trace_counts import count_split, count_superseded
from semcast.pipeline.reading.file_splits import FileSplit
from semcast.pipeline.reading.keyed_source import KeyedSource
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.terms.items import item_tag
from semcast.traces.errors import BadFile

ROWS_MAX: Final = 20_000_000
BYTES_MAX: Final = 256 << 20
_FIRST: Final = -(1 << 63)  # Spark sorts nulls before all numbers.
_PACKED: Final = 8  # how much larger than the file the text of a packed file is, about


def fits_trace(splits: Sequence[FileSplit]) -> bool:
    """Whether the multicasts of a trace are few enough for this process."""
    return not splits or splits[-1].place < ROWS_MAX


def fits_files(source: KeyedSource) -> bool:
    """Whether keyed files are small enough for this process."""
    size = sum(file.stat().st_size * (_PACKED if _is_packed(file) else 1) for file in source.files)
    return size <= BYTES_MAX


def _is_packed(file: Path) -> bool:
    return file.name.lower().endswith((".gz", ".parquet"))


def profile_trace(splits: Sequence[FileSplit], rates: Rates | None = None) -> Profile:
    """The profile of the multicasts in these splits."""
    parts = [batch for split in splits for batch in count_split(1, split)]
    return make_profile(LocalCounts(_merge(parts), splits), rates)


def profile_file(
    source: KeyedSource, columns: KeyedColumns, rates: Rates | None = None
) -> tuple[Profile, BadRows]:
    """The profile of keyed files, and their rows that could not be understood.

    Raises `BadFile` if no row could be.
    """
    senders: dict[str, int] = {}
    if source.is_counted and columns.order is None and columns.sender is None:
        batches = [batch for work in source.work for batch in count_work(source, 1, work)]
        wrong = [row for batch in batches for row in _bad_rows(batch)]
    else:
        rows, wrong = _ordered_rows(source, senders)
        batches = list(count_rows(1, rows.to_batches()))
    merged = _merge(batches, resolve_boundaries)
    names = {number: name for name, number in senders.items()}
    profile = name_senders(make_profile(LocalCounts(merged), rates), names)
    first = describe_bad(*min(wrong)[:4]) if wrong else None
    if not profile.total.distances.messages:
        if first is not None:
            raise BadFile(first)
        return profile, BadRows()
    return profile, BadRows(sum(count for *_, count in wrong), first)


def _bad_rows(batch: Any) -> Iterator[tuple[str, int, str, str, int]]:
    """File, row, column, reason of the first bad row of each block, and the number of bad rows."""
    names = ("file", "row", "column", "reason", "bad")
    for row in batch.filter(batch.column("bad").is_valid()).select(names).to_pylist():
        yield row["file"], row["row"], row["column"] or "", row["reason"], row["bad"]


def _ordered_rows(
    source: KeyedSource, senders: dict[str, int]
) -> tuple[Any, list[tuple[str, int, str, str, int]]]:
    """The good rows as (sender, item, place, kind) by sender and place; and the bad rows.

    A bad row counts for the places of its sender, if that is known.
    """
    wrong: list[tuple[str, int, str, str, int]] = []
    tags: dict[str, int] = {}
    parts: list[Any] = [np.empty((8, 0), np.int64)]
    for block in (block for work in source.work for block in source.read(work)):
        reason = block.column("reason")
        for row in block.filter(reason.is_valid()).to_pylist():
            file = str(source.files[row["file"]])
            wrong.append((file, row["row"], row["column"] or "", row["reason"], 1))
        sender, order = block.column("sender"), block.column("order")
        columns = (
            *(block.column("nth"), block.column("file"), order.fill_null(0), order.is_valid()),
            pc.if_else(
                sender.is_valid(), numbered(sender.fill_null(""), senders, sender_number), -1
            ),
            numbered(block.column("key").fill_null(""), tags, item_tag),
            kind_number(block.column("kind")).fill_null(0),
            reason.is_null(),
        )
        parts.append(np.stack([column.cast(pa.int64()).to_numpy() for column in columns]))
    rows = np.concatenate(parts, axis=1)
    rows = rows[:, np.lexsort(rows[:5])]  # by sender, order, file and number in it
    sender = rows[4]
    starts = np.flatnonzero(np.append(True, np.diff(sender) != 0)[: len(sender)])
    first = np.repeat(starts, np.diff(starts, append=len(sender)))
    place = np.arange(1, len(sender) + 1) - first
    is_good = rows[7].astype(bool)
    named = {"sender": sender, "item": rows[5], "place": place, "kind": rows[6]}
    return pa.table({name: column[is_good] for name, column in named.items()}), wrong


def _merge(batches: Sequence[Any], resolve: ResolveDistances | None = None) -> Any:
    """All partial counts as one table of `MERGED_SCHEMA`."""
    parts = pa.Table.from_batches(batches, table_of(PARTIAL_SCHEMA, {"bad": []}).schema)
    parts = parts.filter(parts["bad"].is_null())
    tables = list(merge_bucket(resolve, parts)) if parts.num_rows else []
    return pa.concat_tables([table_of(MERGED_SCHEMA, {"bin": []}), *tables])


class LocalCounts:
    """A table of `MERGED_SCHEMA`; `splits` has the multicasts, if they are those of a trace."""

    def __init__(self, merged: Any, splits: Sequence[FileSplit] = ()) -> None:
        self._merged = merged
        self._splits = splits
        bins = merged.filter(merged["bin"].is_valid())
        sums = [("dist", "max"), ("messages", "sum"), ("is_rich", "max")]
        self._bins = bins.group_by([*STREAM, "bin"]).aggregate(sums)

    def by_stream(self, limit: int) -> tuple[Sequence[StreamCounts], Sequence[ItemFrequency]]:
        """The longest streams, and the frequencies of all items."""
        merged = self._merged
        lengths = self._bins.group_by([*STREAM]).aggregate(
            [("messages_sum", "sum"), ("is_rich_max", "max")]
        )
        labels = [lengths[name].fill_null(_FIRST).to_numpy() for name in STREAM]
        order = np.lexsort((*reversed(labels), -lengths["messages_sum_sum"].to_numpy()))
        of_items = merged.filter(pc.and_(merged["items"].is_valid(), merged["frequency"].is_null()))
        counted = of_items.group_by([*STREAM]).aggregate([("items", "sum")]).to_pylist()
        items = {_label(row): row["items_sum"] for row in counted}
        streams = [
            StreamCounts(
                _label(row),
                items.get(_label(row), 0),
                self._bins_of(_label(row)),
                bool(row["is_rich_max_max"]),
            )
            for row in lengths.take(order[:limit]).to_pylist()
        ]
        often = merged.filter(merged["frequency"].is_valid()).group_by(["frequency"])
        rows = often.aggregate([("items", "sum")]).to_pylist()
        return streams, sorted(ItemFrequency(row["frequency"], row["items_sum"]) for row in rows)

    def together(self) -> tuple[DistanceBins, bool, int]:
        """The bins of all streams, whether any stream is rich, and the number of streams."""
        sums = [("dist_max", "max"), ("messages_sum", "sum")]
        bins = self._bins.group_by(["bin"]).aggregate(sums).to_pylist()
        rows = ((row["bin"], row["dist_max_max"], row["messages_sum_sum"]) for row in bins)
        count = self._bins.group_by([*STREAM]).aggregate([]).num_rows
        return bins_of(rows), bool(pc.max(self._bins["is_rich_max"]).as_py()), count

    def find(self, targets: Sequence[BinTarget]) -> Iterable[Sequence[int]]:
        """Look for targets in their bins."""
        for number in {target.bin for target in targets}:
            held = self._merged.filter(pc.equal(self._merged["bin"], number))
            points = points_in(targets, held)
            yield from zip(*(column.to_pylist() for column in points.columns), strict=True)

    def superseded(self, shown: Sequence[StreamLabel]) -> Mapping[StreamLabel, int]:
        """The messages that some later one supersedes, for any relation."""
        counts = count_superseded(self._splits)
        return {
            **{label: counts.get(label or (), 0) for label in shown},
            None: sum(counts.values()),
        }

    def _bins_of(self, label: StreamLabel) -> DistanceBins:
        rows = self._bins
        for name, value in zip(STREAM, label or (), strict=True):
            column = rows[name]
            rows = rows.filter(column.is_null() if value is None else pc.equal(column, value))
        columns = (rows[name].to_pylist() for name in ("bin", "dist_max", "messages_sum"))
        return bins_of(zip(*columns, strict=True))


def _label(row: Mapping[str, Any]) -> StreamLabel:
    return tuple(row[name] for name in STREAM)
