"""Profiles of ten million messages: Spark beside DuckDB and Polars, in one run.

python bench/profiles.py [--messages 10000000] [--rounds 3] [--only "native trace"]

Each answers the same: by stream the counts of distances and of the items' messages, of a trace
also whether a relation is richer than items; R(1000) and the median distance.  They must agree.
Spark's session is warm, as it is for the second file of a session; the whole command, which starts
a JVM, is timed besides.  Rows per processor second count everything that ran for a candidate: the
JVM, its Python workers, and this process.  Three streams: the stock mix; a hundred thousand items
by Zipf's law, which has almost as many distances; and that with half of all messages on one more
key.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from semcast.pipeline.profile.spark_profile import SPARK_CONF, profile_file, profile_trace
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.pipeline.spark_session import SparkTarget, session
from semcast.traces.schema import EVENT_COLUMNS, PROCESS_COLUMNS, RunInfo, arrow_schema
from semcast.traces.tables import write_runs, write_table
from semcast.workloads.stock import stock_probabilities

ITEMS = 100_000
CORES = 2
TARGET = SparkTarget(f"local[{CORES}]", conf=SPARK_CONF)
TICKS = os.sysconf("SC_CLK_TCK")
Answer = tuple[int, int, int, float]  # messages, items, median distance, R(1000)


def streams(messages: int) -> dict[str, np.ndarray]:
    """The item of each message, by the name of the stream."""
    rng = np.random.default_rng(1)
    stock = np.cumsum(stock_probabilities())
    zipf = np.cumsum(1 / np.arange(1, ITEMS))
    many = np.searchsorted(zipf, rng.random(messages) * zipf[-1])
    return {
        "stock mix": np.searchsorted(stock, rng.random(messages) * stock[-1]),
        "many items": many,
        "one hot item": np.where(rng.random(messages) < 0.5, ITEMS - 1, many),
    }


def distances_of(keys: np.ndarray) -> np.ndarray:
    """Of each message, 0 for none."""
    order = np.argsort(keys, kind="stable")
    found = np.zeros(len(keys), np.int64)
    found[order[1:]] = np.where(np.diff(keys[order]) == 0, np.diff(order), 0)
    return found


def write_keyed(path: Path, keys: np.ndarray) -> None:
    """A file of another program: one column of names."""
    names = pa.array([f"item-{n}" for n in range(ITEMS)])
    table = pa.table({"key": names.take(pa.array(keys))})
    if path.suffix == ".csv":
        pa_csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=1 << 20)


def write_trace(path: Path, keys: np.ndarray) -> None:
    """A trace of as many multicasts of one sender."""
    folder = path / "events" / "kind=multicast"
    folder.mkdir(parents=True)
    run = RunInfo(name="bench", protocol="s-rm", order="fifo", relation="item", f=1, seed=1)
    write_runs(path / "runs.parquet", run, complete=True)
    write_table(path / "processes.parquet", PROCESS_COLUMNS, [(1, 0, "p0", True)])
    seq = np.arange(1, len(keys) + 1)
    dist = distances_of(keys)
    columns = {
        **{name: np.full(len(keys), 1) for name in ("run_id", "inc", "sender_inc")},
        **{name: np.full(len(keys), 0) for name in ("pid", "sender", "grp", "view", "buffered")},
        **dict.fromkeys(("n", "seq"), seq),
        "ts_ns": seq * 1000,
        "item": keys,
        "size": seq % 1400,
        "digest": seq * 0x9E3779B97F4A7C1,
    }
    schema = arrow_schema(EVENT_COLUMNS)
    arrays = [
        pa.array(dist, mask=dist == 0).cast(field.type)
        if field.name == "dist"
        else pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(len(keys), field.type)
        for field in schema
    ]
    table = pa.table(arrays, schema=schema)
    parts = 4
    size = -(-len(keys) // parts)
    for part in range(parts):
        file = folder / f"part-{part}.parquet"
        pq.write_table(table.slice(part * size, size), file, row_group_size=1 << 16)


def in_duckdb(distances: str, items: str) -> Callable[[], Answer]:
    """`distances` selects (stream…, d, n) and `items` (stream…, item, n), counted."""

    def run() -> Answer:
        with duckdb.connect() as db:
            db.execute(f"SET threads = {CORES}")
            db.execute(f"CREATE TABLE counts AS {distances}")
            [[count]] = db.execute(f"SELECT count(*) FROM ({items})").fetchall()
            [[messages, near]] = db.execute(
                "SELECT sum(n), sum(n) FILTER (d BETWEEN 1 AND 1000) FROM counts"
            ).fetchall()
            [[median]] = db.execute(
                "SELECT min(d) FROM (SELECT d, sum(n) OVER (ORDER BY d) AS upto, sum(n) OVER () "
                "AS related FROM counts WHERE d > 0) WHERE 2 * upto >= related"
            ).fetchall()
        return int(messages), count, median, float(near / messages)

    return run


def in_polars(distances: pl.LazyFrame, items: pl.LazyFrame) -> Callable[[], Answer]:
    """The same of lazy frames with (d, len) and (item, len), counted."""

    def run() -> Answer:
        counts = distances.sort("d").collect()
        count = items.select(pl.len()).collect().item()
        far = counts.filter(pl.col("d") > 0)
        upto, messages = far["len"].cum_sum(), counts["len"].sum()
        median = far["d"].gather(upto.search_sorted(upto[-1] / 2)).item()
        near = far.filter(pl.col("d") <= 1000)["len"].sum()
        return messages, count, median, near / messages

    return run


def keyed(spark: object, path: Path) -> dict[str, Callable[[], Answer]]:
    """Those who profile a keyed file."""

    def in_spark() -> Answer:
        return answer_of(profile_file(spark, path, KeyedColumns("key"))[0])

    read, numbered = f"read_parquet('{path}')", f"read_parquet('{path}', file_row_number=true)"
    if path.suffix == ".csv":  # A file is read in order, so this numbers its lines.
        read = f"read_csv('{path}')"
        numbered = f"(SELECT key, row_number() OVER () AS file_row_number FROM {read})"
    before = "lag(file_row_number) OVER (PARTITION BY key ORDER BY file_row_number)"
    lag = f"SELECT coalesce(file_row_number - {before}, 0) AS d FROM {numbered}"
    scan = pl.scan_csv(path) if path.suffix == ".csv" else pl.scan_parquet(path)
    place = pl.col("place").cast(pl.Int64)
    far = (place - place.shift(1).over("key")).fill_null(0).alias("d")
    return {
        "spark": in_spark,
        "duckdb": in_duckdb(
            f"SELECT d, count(*) AS n FROM ({lag}) GROUP BY d",
            f"SELECT key AS item, count(*) AS n FROM {read} GROUP BY key",
        ),
        "polars": in_polars(
            scan.with_row_index("place").select(far).group_by("d").len(),
            scan.group_by(item="key").len(),
        ),
    }


def native(spark: object, path: Path) -> dict[str, Callable[[], Answer]]:
    """Those who profile a trace."""

    def in_spark() -> Answer:
        return answer_of(profile_trace(spark, path))

    files = path / "events" / "kind=multicast" / "*.parquet"
    by, source = "run_id, sender, sender_inc", f"read_parquet('{files}')"
    rich = "coalesce(attrs['never_purge'] = '1', false) OR covers IS NOT NULL"
    frame, stream = pl.scan_parquet(files), by.split(", ")
    is_rich = pl.col("covers").is_not_null()  # It cannot look into a map.
    distance = pl.col("dist").fill_null(0).alias("d")
    return {
        "spark": in_spark,
        "duckdb": in_duckdb(
            f"SELECT {by}, coalesce(dist, 0) AS d, {rich} AS is_rich, count(*) AS n "
            f"FROM {source} GROUP BY ALL",
            f"SELECT {by}, item, count(*) AS n FROM {source} GROUP BY ALL",
        ),
        "polars": in_polars(
            frame.group_by(*stream, distance, is_rich.alias("is_rich")).len(),
            frame.group_by(*stream, "item").len(),
        ),
    }


def answer_of(profile: object) -> Answer:
    """What the candidates are compared by."""
    distances = profile.total.distances
    ratio = float(distances.purge_ratio(1000))
    return distances.messages, profile.total.items, distances.percentile(0.5), ratio


def processor_s() -> float:
    """Of this process and all below it, those that have ended included."""
    below: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has just ended.
        pid = int(stat.parent.name)
        below.setdefault(int(fields[1]), []).append(pid)
        spent[pid] = sum(map(int, fields[11:15]))
    todo, total = [os.getpid()], 0
    while todo:
        pid = todo.pop()
        total += spent.get(pid, 0)
        todo += below.get(pid, ())
    return total / TICKS


def measure(title: str, candidates: dict[str, Callable[[], Answer]], rounds: int) -> None:
    """A table of each candidate's best round."""
    wall: dict[str, list[float]] = {name: [] for name in candidates}
    cpu: dict[str, list[float]] = {name: [] for name in candidates}
    answers = {}
    for _ in range(rounds):
        for name, run in candidates.items():
            started, spent = perf_counter(), processor_s()
            answers[name] = run()
            wall[name].append(perf_counter() - started)
            cpu[name].append(processor_s() - spent)
    expected = answers["duckdb"]
    assert all(np.allclose(each, expected) for each in answers.values()), answers
    print(f"\n{title}\n{'':10}{'wall s':>9}{'cpu s':>9}{'Mrows/cpu s':>13}{'wall x duckdb':>15}")
    for name in candidates:
        fastest, least = min(wall[name]), min(cpu[name])
        ratio = fastest / min(wall["duckdb"])
        print(f"{name:10}{fastest:9.2f}{least:9.2f}{expected[0] / least / 1e6:13.2f}{ratio:15.2f}")


def command(*words: str) -> None:
    """Time the whole command, in a process of its own."""
    semcast, started = Path(sys.executable).with_name("semcast"), perf_counter()
    master = ("--master", f"local[{CORES}]", "--json")
    subprocess.run([semcast, "profile", *words, *master], check=True, capture_output=True)
    name = " ".join([Path(words[0]).name, *words[1:]])
    print(f"\nsemcast profile {name}: {perf_counter() - started:.1f} s, a JVM started")


def main() -> None:
    """Write the files, warm up, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="measure what has this in its title")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, session(TARGET) as spark:
        warm, top = Path(folder, "warm"), Path(folder)
        for _, runs in candidates(spark, warm, streams(100_000)["many items"], "warm", given.only):
            runs["spark"]()
        for name, keys in streams(given.messages).items():
            path = top / name.replace(" ", "-")
            for title, runs in candidates(spark, path, keys, name, given.only):
                measure(f"{title}, {given.messages:,} messages", runs, given.rounds)
        if given.only:
            return
        for words in ([top / "many-items"], [top / "many-items.parquet", "--key", "key"]):
            command(*map(str, words))


def candidates(
    spark: object, path: Path, keys: np.ndarray, name: str, only: str
) -> Iterator[tuple[str, dict[str, Callable[[], Answer]]]]:
    """Who profiles a stream, as a trace and as a keyed file."""
    title = f"{name}, native trace"
    if only in title or name == "warm":
        write_trace(path, keys)
        yield title, native(spark, path)
    for suffix in (".parquet", ".csv"):
        title = f"{name}, keyed {suffix[1:]} file"
        if only in title or name == "warm":
            write_keyed(path.with_suffix(suffix), keys)
            yield title, keyed(spark, path.with_suffix(suffix))


if __name__ == "__main__":
    main()
