"""What `semcast check` costs: CPU seconds per million deliveries, by size of the trace.

A trace is one run of two senders and three processes, of which the last is slow and purges; with
--hot, half of all messages are about one item.  All properties that the run promises are judged.
CPU seconds are those of this process and everything it started, JVM and Python workers.

    python bench/check.py --deliveries 1,4 --hot
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semcast.pipeline.check.verdict import check
from semcast.pipeline.session import Target, session
from semcast.pipeline.trace import read_trace
from semcast.traces.schema import EVENT_COLUMNS, PROCESS_COLUMNS, Run, arrow_schema
from semcast.traces.tables import write_runs, write_table

N, SLOW, SENDERS = 3, 2, (0, 1)
TICK_NS = 1_000  # between two multicasts of a sender
LAG = 30  # messages that the slow process is behind
REACH = 20  # of those, how far back it purges
CHUNK = 1 << 20
BY_DELIVERIES = len(SENDERS) * 2.6  # messages of a sender, roughly


def items_of(messages: int, hot: bool, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    items = rng.zipf(1.3, messages) % 10_000
    if hot:
        items[rng.random(messages) < 0.5] = 10_000
    return items.astype("i8")


def superseding(items: np.ndarray) -> np.ndarray:
    """By message, the number of the next of its item, or 0."""
    order = np.lexsort((np.arange(len(items)), items))
    later = np.zeros(len(items), "i8")
    same = items[order[1:]] == items[order[:-1]]
    later[order[:-1][same]] = order[1:][same] + 1
    return later


def events(messages: int, hot: bool) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The columns of each kind of event."""
    seq = np.arange(1, messages + 1)
    for sender in SENDERS:
        items = items_of(messages, hot, sender)
        later = superseding(items)
        digest = seq * 1_000_003 + sender
        sent = seq * TICK_NS * 10 + sender
        message = {"sender": sender, "seq": seq, "item": items, "digest": digest}
        yield "multicast", {"pid": sender, "ts_ns": sent, **message}
        purged = (later > 0) & (later - seq <= REACH)
        by = np.where(purged, later, 1)
        for pid in range(N):
            came = sent + TICK_NS * (pid + 1)
            if pid != sender:
                yield "receive", {"pid": pid, "ts_ns": came, "sender": sender, "seq": seq}
            if pid != SLOW:
                yield "deliver", {"pid": pid, "ts_ns": came + 1, **message}
                continue
            kept = ~purged
            told = {name: c[kept] if np.ndim(c) else c for name, c in message.items()}
            late = (sent + LAG * TICK_NS * 10)[kept]
            yield "deliver", {"pid": pid, "ts_ns": late, **told}
            when = sent[by - 1][purged] + TICK_NS * (pid + 1) + 2
            gone = {"sender": sender, "seq": seq[purged], "by_seq": later[purged]}
            yield "purge", {"pid": pid, "ts_ns": when, "where": "delivery", **gone}
        for kind, every in (("safe", 20), ("stable", 20), ("reclaim", 20)):
            claimed = seq[::every]
            when = sent[::every] + TICK_NS * 8
            yield kind, {"pid": sender, "ts_ns": when, "sender": sender, "seq": claimed}


def numbered(columns: list[tuple[str, dict[str, np.ndarray]]]) -> None:
    """Give each event its index at its process."""
    for pid in range(N):
        own = [facts for _, facts in columns if facts["pid"] == pid]
        times = np.concatenate([facts["ts_ns"] for facts in own])
        n = np.empty(len(times), "i8")
        n[np.argsort(times, kind="stable")] = np.arange(1, len(times) + 1)
        for facts in own:
            facts["n"], n = n[: len(facts["ts_ns"])], n[len(facts["ts_ns"]) :]


def write_trace(path: Path, deliveries: int, hot: bool) -> int:
    """A trace of about that many deliveries; how many it has."""
    columns = list(events(int(deliveries / BY_DELIVERIES), hot))
    numbered(columns)
    schema, written = arrow_schema(EVENT_COLUMNS), 0
    for number, (kind, facts) in enumerate(columns):
        folder = path / "events" / f"kind={kind}"
        folder.mkdir(parents=True, exist_ok=True)
        size = len(facts["ts_ns"])
        written += size * (kind == "deliver")
        with pq.ParquetWriter(folder / f"{number}.parquet", schema, compression="zstd") as file:
            for start in range(0, size, CHUNK):
                file.write_table(table(facts, start, min(CHUNK, size - start), schema))
    run = Run(
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
    return written


def table(facts: dict[str, np.ndarray], start: int, size: int, schema: pa.Schema) -> pa.Table:
    fixed = {"run_id": 1, "inc": 1, "grp": 0, "view": 0, "sender_inc": 1, "buffered": 0}
    if "digest" in facts:
        fixed["size"] = 100
    if "by_seq" in facts:
        fixed |= {"by_sender": facts["sender"], "by_inc": 1}
    cells = []
    for column in schema:
        value = facts.get(column.name, fixed.get(column.name))
        if column.name == "attrs" and "where" in facts:
            cells.append(pa.repeat(pa.scalar([("where", facts["where"])], column.type), size))
        elif value is None:
            cells.append(pa.nulls(size, column.type))
        elif np.ndim(value):
            cells.append(pa.array(value[start : start + size], column.type))
        else:
            cells.append(pa.repeat(pa.scalar(int(value), column.type), size))
    return pa.table(cells, schema=schema)


def cpu_s() -> float:
    """CPU seconds of this process and its descendants, those that ended included."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        used[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(fields[1]), []).append(int(entry.name))
    total, todo = 0.0, [os.getpid()]
    while todo:
        pid = todo.pop()
        total += used.get(pid, 0.0)
        todo += children.get(pid, [])
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deliveries", default="1,4", help="in millions, separated by commas")
    parser.add_argument("--hot", action="store_true", help="also with one hot item")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="2g", help="of the driver")
    given = parser.parse_args()
    target = Target(given.master, None, {"spark.driver.memory": given.memory})
    with tempfile.TemporaryDirectory() as folder, session(target) as spark:
        write_trace(Path(folder) / "warm", 100_000, False)
        for _ in range(6):
            check(read_trace(spark, Path(folder) / "warm"))
        print("deliveries  hot  events      wall s  CPU s  CPU s per million deliveries")
        for millions in map(float, given.deliveries.split(",")):
            for hot in (False, True) if given.hot else (False,):
                path = Path(folder) / f"{millions}-{hot}"
                deliveries = write_trace(path, int(millions * 1e6), hot)
                started, used = perf_counter(), cpu_s()
                verdict = check(read_trace(spark, path))
                wall, cpu = perf_counter() - started, cpu_s() - used
                assert verdict.passed, verdict.properties
                print(
                    f"{deliveries:>10,}  {'yes' if hot else 'no':3}  {verdict.events:>10,}"
                    f"  {wall:>6.1f}  {cpu:>5.1f}  {cpu / deliveries * 1e6:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
