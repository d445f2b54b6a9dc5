"""Measures one sender's stream in a recorded run: rates, purged messages, staleness.

Everything is computed on columns of the trace's Parquet, never event by event, so that a run of
a million events is measured in a second.  Times are of one machine and count from `start_ns`.
A period excludes its start and includes its end.

Staleness: every 10 ms, for each item, now minus the multicast time of the value that a process
holds, 0 if that is the newest sent.  An item of which it holds nothing counts from the start.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semcast.terms.events import DELIVER, DELIVERY, MULTICAST, PURGE, SKIP
from semcast.traces.arrow import pyarrow
from semcast.traces.parquet import read_runs
from semcast.traces.schema import EVENTS

TICK_NS: Final = 10_000_000
SECOND_NS: Final = 1_000_000_000

Integers: TypeAlias = NDArray[np.int64]

_COLUMNS: Final = ("pid", "inc", "n", "ts_ns", "seq", "item")


class Period(NamedTuple):
    """A part of a run, in seconds since its start."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end_s - self.start_s

    @property
    def bounds_ns(self) -> tuple[int, int]:
        """Its ends."""
        return round(self.start_s * SECOND_NS), round(self.end_s * SECOND_NS)


class EventColumns(NamedTuple):
    """Events of one kind at one process, in their order: when, which message, of what."""

    at_ns: Integers
    seq: Integers
    item: Integers

    def of(self, item: int) -> "EventColumns":
        """Those of one item."""
        is_wanted = self.item == item
        return EventColumns(*(column[is_wanted] for column in self))

    def count(self, period: Period) -> int:
        """How many there are in a period."""
        first, last = np.searchsorted(self.at_ns, period.bounds_ns, "right")
        return int(last - first)


NO_EVENTS: Final = EventColumns(*(np.empty(0, np.int64) for _ in EventColumns._fields))


class StreamMeasurement:
    """One sender's stream as all processes recorded it, by kind and process."""

    def __init__(self, sender: int, shots: Mapping[tuple[str, int], EventColumns]) -> None:
        self._shots = shots
        self._sent = self.of(MULTICAST, sender)

    def of(self, kind: str, pid: int) -> EventColumns:
        """What a process did of one kind."""
        return self._shots.get((kind, pid), NO_EVENTS)

    def sent_rate(self, period: Period) -> float:
        """Messages per second that the sender's application got rid of."""
        return self._sent.count(period) / period.seconds

    def rate(self, pid: int, period: Period) -> float:
        """Messages per second delivered at a process."""
        return self.of(DELIVER, pid).count(period) / period.seconds

    def purged_ratio(self, pid: int, period: Period) -> float:
        """The share of what was on its way to a process that it never saw."""
        omitted = sum(self.of(kind, pid).count(period) for kind in (PURGE, SKIP))
        total = omitted + self.of(DELIVER, pid).count(period)
        return omitted / total if total else 0.0

    def staleness_ms(
        self, pid: int, items: Sequence[int], period: Period, shares: Sequence[float]
    ) -> list[float]:
        """For each share the value that so many of the samples do not exceed."""
        ages_ns = self.ages_ns(pid, items, period)
        return [float(np.quantile(ages_ns, s, method="inverted_cdf")) / 1e6 for s in shares]

    def ages_ns(self, pid: int, items: Sequence[int], period: Period) -> Integers:
        """How old what a process holds is: a row for each tick, a column for each item."""
        start_ns, end_ns = period.bounds_ns
        ticks = np.arange(start_ns // TICK_NS + 1, end_ns // TICK_NS + 1) * TICK_NS
        delivered = self.of(DELIVER, pid)
        ages = [_ages_ns(self._sent.of(item), delivered.of(item), ticks) for item in items]
        return np.stack(ages, axis=1)

    def by_second(self, pid: int, seconds: int) -> list[int]:
        """Messages delivered at a process in each second."""
        delivered = self.of(DELIVER, pid)
        return [delivered.count(Period(second, second + 1)) for second in range(seconds)]

    def is_current(self, pid: int) -> bool:
        """Whether the last delivered of every item is the last sent of it."""
        return not self.wrong_items(pid)

    def wrong_items(self, pid: int) -> int:
        """Of how many items what was delivered last, if anything, is not what was sent last."""
        held = _lasts(self.of(DELIVER, pid))
        return sum(held.get(item) != seq for item, seq in _lasts(self._sent).items())


def _ages_ns(sent: EventColumns, delivered: EventColumns, ticks: Integers) -> Integers:
    """Of one item: places count what was sent of it, 0 is nothing yet."""
    newest = np.searchsorted(sent.at_ns, ticks, "right")
    places = np.append(0, np.searchsorted(sent.seq, delivered.seq) + 1)
    held = places[np.searchsorted(delivered.at_ns, ticks, "right")]
    since_ns = np.append(0, sent.at_ns)[held]
    return np.where(held < newest, ticks - since_ns, 0)


def _lasts(shots: EventColumns) -> dict[int, int]:
    """By item the last number of it."""
    items, from_end = np.unique(shots.item[::-1], return_index=True)
    return dict(zip(items.tolist(), shots.seq[::-1][from_end].tolist(), strict=True))


def read_measurement(directory: str | Path, *, start_ns: int, sender: int = 0) -> StreamMeasurement:
    """The only run of a trace; its processes must have ended.  `sender` is a pid.

    footage = read_footage("out/trace", start_ns=fleet.started_ns)
    footage.rate(2, Period(5, 20))
    """
    [run] = read_runs(directory)
    shots: dict[tuple[str, int], EventColumns] = {}
    for kind in (MULTICAST, DELIVER, PURGE, SKIP):
        folder = Path(directory) / EVENTS / f"kind={kind}"
        if folder.exists():
            shots |= _shots_of(kind, _columns(folder, run.run_id, sender, kind), start_ns)
    return StreamMeasurement(sender, shots)


def _columns(folder: Path, run_id: int, sender: int, kind: str) -> dict[str, Integers]:
    """The events of a sender's messages; of purges only those that kept one from delivery."""
    dataset, compute = pyarrow("dataset"), pyarrow("compute")
    source = dataset.dataset(folder, format="parquet")
    wanted = (dataset.field("run_id") == run_id) & (dataset.field("sender") == sender)
    if kind == PURGE:
        where = compute.map_lookup(dataset.field("attrs"), query_key="where", occurrence="first")
        wanted &= where == DELIVERY
    table: Any = source.to_table(columns=list(_COLUMNS), filter=wanted)
    return {
        name: compute.fill_null(table[name], 0).to_numpy().astype(np.int64) for name in _COLUMNS
    }


def _shots_of(
    kind: str, columns: Mapping[str, Integers], start_ns: int
) -> dict[tuple[str, int], EventColumns]:
    order = np.lexsort((columns["n"], columns["inc"], columns["pid"]))
    pids, at_ns, seq, item = (columns[name][order] for name in ("pid", "ts_ns", "seq", "item"))
    shots = {}
    for pid in np.unique(pids).tolist():
        rows = slice(*np.searchsorted(pids, (pid, pid + 1)))
        shots[kind, pid] = EventColumns(at_ns[rows] - start_ns, seq[rows], item[rows])
    return shots
