"""What `semcast check` costs: CPU seconds per million deliveries, by size of the trace.

A trace is one run of two senders and three processes, of which the last is slow and purges; with
--hot, half of all messages are about one item.  Each process has a file for each kind of event, as
a member writes them.  All properties that the run promises are judged.  CPU seconds are those of
this process and everything it started, JVM and Python workers; so are the peaks of memory, of
the JVM and of the largest worker up to then.

    python bench/check.py --deliveries 1,4,16 --hot
    python bench/check.py --deliveries 50
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semcast.pipeline.check.verdict import check
from semcast.pipeline.reading.trace import read_trace
from semcast.pipeline.spark_session import SparkTarget, session
from semcast.traces.schema import EVENT_COLUMNS, PROCESS_COLUMNS, RunInfo, arrow_schema
from semcast.traces.tables import write_runs, write_table

N, SLOW, SENDERS = 3, 2, (0, 1)
TICK_NS = 1_000
PERIOD_NS = 10 * TICK_NS  # between two multicasts of a sender
LAG = 30  # messages that the slow process is behind
REACH = 20  # of those, how far back it purges
CHUNK = 1 << 18  # messages of a sender that are made at a time
BY_DELIVERIES = len(SENDERS) * 2.6  # messages of a sender, roughly
KINDS = ("multicast", "receive", "deliver", "purge", "safe", "stable", "reclaim")

WARM = 6
HEAD = "deliveries  hot       events  wall s  CPU s  CPU s/million  JVM MB  worker MB"

Columns = dict[str, np.ndarray]


@lru_cache(8)
def items_of(sender: int, chunk: int, hot: bool) -> np.ndarray:
    rng = np.random.default_rng([sender, chunk])
    items = rng.zipf(1.3, CHUNK) % 10_000
    if hot:
        items[rng.random(CHUNK) < 0.5] = 10_000
    return items.astype("i8")


def superseding(items: np.ndarray, size: int) -> np.ndarray:
    """By message, how far the next of its item is, or 0 if it is out of reach."""
    order = np.argsort(items, kind="stable")
    distance = np.zeros(len(items), "i8")
    same = items[order[1:]] == items[order[:-1]]
    distance[order[:-1][same]] = (order[1:] - order[:-1])[same]
    return np.where(distance <= REACH, distance, 0)[:size]


def events(sender: int, chunk: int, messages: int, hot: bool) -> Iterator[tuple[int, str, Columns]]:
    """What each process does with the messages of a chunk: pid, kind, columns."""
    size = min(CHUNK, messages - chunk * CHUNK)
    seq = chunk * CHUNK + np.arange(1, size + 1)
    reach = min(REACH, messages - chunk * CHUNK - size)
    ahead = items_of(sender, chunk + 1, hot)[:reach] if reach else np.zeros(0, "i8")
    items = np.concatenate((items_of(sender, chunk, hot)[:size], ahead))
    distance = superseding(items, size)
    sent = seq * PERIOD_NS + sender
    message = {"seq": seq, "item": items[:size], "digest": seq * 1_000_003 + sender}
    yield sender, "multicast", {"ts_ns": sent, **message}
    purged = distance > 0
    for pid in range(N):
        came = sent + TICK_NS * (pid + 1)
        if pid != sender:
            yield pid, "receive", {"ts_ns": came, "seq": seq}
        if pid != SLOW:
            yield pid, "deliver", {"ts_ns": came + 1, **message}
            continue
        late = {"ts_ns": sent + LAG * PERIOD_NS, **message}
        yield pid, "deliver", {name: column[~purged] for name, column in late.items()}
        gone = {"ts_ns": came + 2 + distance * PERIOD_NS, "seq": seq, "by_seq": seq + distance}
        yield pid, "purge", {name: column[purged] for name, column in gone.items()}
    for kind in ("safe", "stable", "reclaim"):
        yield sender, kind, {"ts_ns": sent[::20] + TICK_NS * 8, "seq": seq[::20]}


@dataclass
class Member:
    """Writes the events of one process in the order of its clock."""

    pid: int
    folder: Path
    n: int = 0
    deliveries: int = 0
    waiting: list[Columns] = field(default_factory=list)
    writers: dict[str, pq.ParquetWriter] = field(default_factory=dict)

    def add(self, sender: int, kind: str, columns: Columns) -> None:
        size = len(columns["ts_ns"])
        whole = {name: columns.get(name, np.zeros(size, "i8")) for name in COLUMNS}
        whole["sender"], whole["kind"] = np.full(size, sender), np.full(size, KINDS.index(kind))
        self.waiting.append(whole)

    def write(self, until_ns: float) -> None:
        every = {name: np.concatenate([one[name] for one in self.waiting]) for name in COLUMNS}
        order = np.argsort(every["ts_ns"], kind="stable")
        cut = np.searchsorted(every["ts_ns"][order], until_ns)
        self.waiting = [{name: column[order[cut:]] for name, column in every.items()}]
        now = {name: column[order[:cut]] for name, column in every.items()}
        now["n"] = self.n + np.arange(1, cut + 1)
        self.n += cut
        for code, kind in enumerate(KINDS):
            some = {name: column[now["kind"] == code] for name, column in now.items()}
            if len(some["n"]):
                self.deliveries += len(some["n"]) * (kind == "deliver")
                self.writer(kind).write_table(table(self.pid, kind, some))

    def writer(self, kind: str) -> pq.ParquetWriter:
        if kind not in self.writers:
            path = self.folder / f"kind={kind}" / f"{self.pid}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            self.writers[kind] = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        return self.writers[kind]


SCHEMA = arrow_schema(EVENT_COLUMNS)
COLUMNS = ("kind", "sender", "ts_ns", "seq", "item", "digest", "by_seq")
OF_MESSAGE = ("item", "digest", "size")
OF_PURGE = ("by_sender", "by_inc", "by_seq", "attrs")


def table(pid: int, kind: str, columns: Columns) -> pa.Table:
    fixed = {"run_id": 1, "pid": pid, "inc": 1, "grp": 0, "view": 0, "sender_inc": 1, "by_inc": 1}
    fixed |= {"size": 100, "buffered": 0, "attrs": [("where", "delivery")]}
    told = columns | {"by_sender": columns["sender"]}
    hidden = () if kind in ("multicast", "deliver") else OF_MESSAGE
    hidden += () if kind == "purge" else OF_PURGE
    size, cells = len(columns["n"]), []
    for column in SCHEMA:
        if column.name in told and column.name not in hidden:
            cells.append(pa.array(told[column.name], column.type))
        elif column.name in fixed and column.name not in hidden:
            cells.append(pa.repeat(pa.scalar(fixed[column.name], column.type), size))
        else:
            cells.append(pa.nulls(size, column.type))
    return pa.table(cells, schema=SCHEMA)


def write_trace(path: Path, deliveries: int, hot: bool) -> int:
    """A trace of about that many deliveries; how many it has."""
    messages = int(deliveries / BY_DELIVERIES)
    members = [Member(pid, path / "events") for pid in range(N)]
    for chunk in range(-(-messages // CHUNK)):
        for sender in SENDERS:
            for pid, kind, columns in events(sender, chunk, messages, hot):
                members[pid].add(sender, kind, columns)
        is_last = (chunk + 1) * CHUNK >= messages
        for member in members:
            member.write(float("inf") if is_last else ((chunk + 1) * CHUNK + 1) * PERIOD_NS)
    for member in members:
        for writer in member.writers.values():
            writer.close()
    run = RunInfo(
        name="bench",
        protocol="s-rm",
        order="fifo",
        relation="item",
        f=1,
        seed=0,
        parameters={"skew_ms": "0"},
    )
    write_table(
        path / "processes.parquet", PROCESS_COLUMNS, [(1, p, f"p{p}", True) for p in range(N)]
    )
    write_runs(path / "runs.parquet", run, complete=True)
    return sum(member.deliveries for member in members)


def family() -> dict[int, tuple[str, float]]:
    """This process and its descendants: name, and CPU seconds, of those that ended too."""
    known: dict[int, tuple[str, float]] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, _, fields = (entry / "stat").read_text().partition("(")[2].rpartition(") ")
        except OSError:
            continue
        numbers = fields.split()
        ticks = sum(map(int, numbers[11:15]))
        known[int(entry.name)] = name, ticks / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(numbers[1]), []).append(int(entry.name))
    found, todo = {}, [os.getpid()]
    while todo:
        pid = todo.pop()
        found[pid] = known.get(pid, ("", 0.0))
        todo += children.get(pid, [])
    return found


def cpu_s() -> float:
    return sum(seconds for _, seconds in family().values())


def peak_mb(name: str) -> int:
    """The most memory that a descendant of this name has had."""
    peaks = [0]
    for pid, (called, _) in family().items():
        if called.startswith(name) and pid != os.getpid():
            status = Path(f"/proc/{pid}/status").read_text()
            peaks.append(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
    return max(peaks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deliveries", default="1,4", help="in millions, separated by commas")
    parser.add_argument("--hot", action="store_true", help="also with one hot item")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="2g", help="of the driver")
    given = parser.parse_args()
    target = SparkTarget(given.master, None, {"spark.driver.memory": given.memory})
    with tempfile.TemporaryDirectory() as folder, session(target) as spark:
        write_trace(Path(folder) / "warm", 100_000, False)
        for _ in range(WARM):
            check(read_trace(spark, Path(folder) / "warm"))
        print(HEAD)
        for millions in map(float, given.deliveries.split(",")):
            for hot in (False, True) if given.hot else (False,):
                path = Path(folder) / f"{millions}-{hot}"
                deliveries = write_trace(path, int(millions * 1e6), hot)
                started, used = perf_counter(), cpu_s()
                verdict = check(read_trace(spark, path))
                wall, cpu = perf_counter() - started, cpu_s() - used
                assert verdict.passed, verdict.properties
                print(
                    f"{deliveries:>10,}  {'yes' if hot else 'no':3}  {verdict.events:>11,}"
                    f"  {wall:>6.1f}  {cpu:>5.1f}  {cpu / deliveries * 1e6:>13.2f}"
                    f"  {peak_mb('java'):>6,}  {peak_mb('python'):>9,}",
                    flush=True,
                )
                shutil.rmtree(path)


if __name__ == "__main__":
    main()
