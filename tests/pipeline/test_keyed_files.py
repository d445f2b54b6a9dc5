"""Keyed files of every format give the same streams; what is wrong is named by row and column."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.pipeline.reading import keyed_text
from semcast.pipeline.reading.keyed_files import read_keyed
from semcast.pipeline.reading.keyed_text import KeyedColumns, read_blocks
from semcast.pipeline.spark_session import SparkTarget, session
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile
from semcast.traces.keyed import read_keyed as read_plain

ROWS = [("a", "C", 10, "x"), ("a,b", "U", 5, "y"), ("é", "D", -3, "x"), ("7", "R", 40, "x")]
CSV = 'id,when,what,who\na,10,C,x\n"a,b",5,U,y\n\né,-3,D,x\n7,40,R,x\n'
JSON = "\n".join(
    json.dumps({"id": 7 if key == "7" else key, "when": when, "what": kind, "who": who})
    for key, kind, when, who in ROWS
)
ALL = KeyedColumns("id", "when", "who", "what")


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_parquet(path, **changes):
    columns = dict(zip(("id", "what", "when", "who"), zip(*ROWS, strict=True), strict=True))
    pq.write_table(pa.table({**columns, **changes}), path)
    return path


def blocks(path, columns=ALL, block_bytes=100):
    found = read_blocks(path, 0, columns, block_bytes)
    return [row for batch in found for row in batch.to_pylist()]


def streams(keyed):
    rows = keyed.rows.orderBy("sender", "place").collect()
    return [(row.sender, row.place, row.key, row.kind) for row in rows]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", CSV),
        ("rows.csv.gz", CSV),
        ("rows.CSV", "\ufeff" + CSV.replace("\n", "\r\n")),
        ("rows.jsonl", JSON),
        ("rows.ndjson.gz", JSON + "\n\n"),
    ],
)
def test_text_agrees_with_the_plain_reader(tmp_path, name, text):
    path = write(tmp_path / name, text)
    found = [(row["key"], row["kind"], row["order"], row["sender"]) for row in blocks(path)]
    assert found == ROWS
    plain = read_plain(path, key="id", kind="what", time="when")
    assert [(row.key, row.kind, row.t_us) for row in plain] == [row[:3] for row in ROWS]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=6)


@given(st.lists(st.tuples(TEXT, st.sampled_from("UCDRX"), TEXT), max_size=8), st.integers(1, 40))
def test_lines_of_any_text_agree_with_the_plain_reader(tmp_path_factory, rows, block_bytes):
    """Cells are written raw: quotes and commas in them make good lines and bad ones."""
    path = tmp_path_factory.mktemp("text") / "rows.csv"
    lines = [",".join(row) for row in rows]
    path.write_text("key,kind,more\n" + "\n".join(lines), newline="")
    found = blocks(path, KeyedColumns("key", kind="kind"), block_bytes)
    assert [row["row"] for row in found] == [n for n, line in enumerate(lines, 2) if line]
    assert [row["nth"] for row in found] == list(range(1, len(found) + 1))
    for row in found:
        single = path.with_name("single.csv")
        single.write_text("key,kind,more\n" + lines[row["row"] - 2] + "\n", newline="")
        try:
            [expected] = read_plain(single, key="key", kind="kind")
        except BadFile:
            assert row["reason"] is not None
        else:
            assert (row["key"], row["kind"], row["reason"]) == (*expected[:2], None)


@pytest.mark.parametrize(
    ("name", "line", "column", "reason"),
    [
        ("x.csv", b"z,soon,U,x", "when", "'soon' is not a whole number of 64 bits"),
        ("x.csv", b"z,,U,x", "when", "'' is not a whole number of 64 bits"),
        ("x.csv", b"z,99999999999999999999,U,x", "when", None),
        ("x.csv", b"z,1,Q,x", "what", "'Q' is not one of U, C, D, R"),
        ("x.csv", b"z,1", None, "2 cells, the first line has 4"),
        ("x.csv", b"z,1,U,x,more", None, "5 cells, the first line has 4"),
        ("x.csv", b'"z,1,U,x', None, "quotes: unexpected end of data"),
        ("x.csv", b"\xe9,1,U,x", "id", "not UTF-8"),
        ("x.csv", b"z,1,U,\xe9", "who", "not UTF-8"),
        ("x.jsonl", b"{", None, "not a JSON object: Input data was truncated"),
        ("x.jsonl", b"[1]", None, "not a JSON object: Expected `object`, got `array`"),
        ("x.jsonl", b"[" * 100_000, None, None),
        ("x.jsonl", b'{"id": 1, "what": "U", "when": 1}', "who", "is missing"),
        ("x.jsonl", b'{"id": null, "what": "U", "when": 1, "who": 1}', "id", "is missing"),
        ("x.jsonl", b'{"id": 1, "what": "U", "when": 1.5, "who": 1}', "when", None),
        ("x.jsonl", b'{"id": 1, "what": "U", "when": true, "who": 1}', "when", None),
        ("x.jsonl", b"\xff\xfe", None, None),
    ],
)
def test_a_bad_line_costs_only_itself(tmp_path, name, line, column, reason):
    good = (CSV if name == "x.csv" else JSON + "\n").encode()
    path = write(tmp_path / name, good + line + b"\n" + good.splitlines()[-1])
    found = blocks(path)
    [bad] = [row for row in found if row["reason"]]
    at = len(good.splitlines()) + 1
    assert (bad["row"], bad["nth"], bad["column"]) == (at, 5, column)
    assert reason in (None, bad["reason"])
    assert [row["key"] for row in found if row is not bad] == ["a", "a,b", "é", "7", "7"]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("x.csv", "id,what\n", "x.csv: no column 'when', it has id, what"),
        ("x.csv", "", "x.csv: empty, needs a line of column names"),
        ("x.csv", b"\xe9\n", "x.csv:1: the column names are not UTF-8"),
        ("cut.csv.gz", gzip.compress(CSV.encode() * 99)[:-20], "cut.csv.gz: cannot be read: "),
        ("plain.jsonl.gz", b"no gzip", "plain.jsonl.gz: cannot be read: "),
    ],
)
def test_a_bad_file(tmp_path, name, data, says):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(BadFile) as caught:
        blocks(path)
    assert str(caught.value).startswith(str(tmp_path / says))
    assert "\n" not in str(caught.value)


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(keyed_text, "LINE_BYTES_MAX", 30)
    with pytest.raises(BadFile, match=r"x.jsonl:1: a line of more than 30 bytes"):
        blocks(write(tmp_path / "x.jsonl", "x" * 50), block_bytes=10)


BY_FILE = [("", n, key, kind) for n, (key, kind, _, _) in enumerate(ROWS, 1)]
BY_TIME = [("x", 1, "é", "D"), ("x", 2, "a", "C"), ("x", 3, "7", "R"), ("y", 1, "a,b", "U")]


def test_streams_on_spark(spark, tmp_path):
    """In the order of the file, and by a column and by sender: the same of text and of Parquet."""
    for path in (write(tmp_path / "r.csv.gz", CSV), write_parquet(tmp_path / "r.parquet")):
        in_file = read_keyed(spark, path, key="id", kind="what")
        assert streams(in_file) == BY_FILE
        ordered = read_keyed(spark, path, key="id", kind="what", order="when", sender="who")
        assert streams(ordered) == BY_TIME


def test_a_directory_is_one_stream_in_the_order_of_names(spark, tmp_path):
    for suffix, put in (("csv", lambda path: write(path, CSV)), ("parquet", write_parquet)):
        folder = tmp_path / f"{suffix} +%=s"
        folder.mkdir()
        for name in ("b", "a", "_hidden"):
            put(folder / f"{name}.{suffix}")
        found = streams(read_keyed(spark, folder, key="id", kind="what"))
        assert found == [*BY_FILE, *(("", place + 4, key, kind) for _, place, key, kind in BY_FILE)]


def test_bad_rows_of_parquet(spark, tmp_path):
    path = write_parquet(
        tmp_path / "r.parquet", id=["a", None, "c", "d"], what=["U", "U", "Q", "U"]
    )
    keyed = read_keyed(spark, path, key="id", kind="what")
    assert streams(keyed) == [("", 1, "a", "U"), ("", 4, "d", "U")]  # Places are kept.
    bad = [row.asDict() for row in keyed.bad.orderBy("row").collect()]
    assert bad == [
        {"file": str(path), "row": 2, "column": "id", "reason": "is missing"},
        {
            "file": str(path),
            "row": 3,
            "column": "what",
            "reason": "'Q' is not one of U, C, D, R",
        },
    ]


def test_a_file_that_breaks_off_names_itself(spark, tmp_path):
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode() * 99)[:-20])
    with pytest.raises(BadFile) as caught, session(SparkTarget()) as shared:
        read_keyed(shared, path, key="id").rows.count()
    assert str(caught.value).startswith(f"{path}: cannot be read: ")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"when": [1.5] * 4}, "column 'when' is double, must be text or whole numbers"),
        ({"id": [[1]] * 4}, "column 'id' is list<"),
        ({"id": None}, "no column 'id', it has "),
    ],
)
def test_parquet_of_other_types(tmp_path, change, says):
    path = write_parquet(tmp_path / "r.parquet", **{k: v for k, v in change.items() if v})
    if change.get("id", 1) is None:
        pq.write_table(pq.read_table(path).drop_columns(["id"]), path)
    with pytest.raises(BadFile) as caught:
        read_keyed(None, path, key="id", order="when")
    assert says in str(caught.value)


def test_what_is_no_keyed_file(tmp_path):
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(ConfigError, match=r"unknown value 'rows.xlsx'; allowed: \.csv"):
        read_keyed(None, tmp_path / "rows.xlsx", key="id")
    (tmp_path / "rows.xlsx").unlink()
    with pytest.raises(FileNotFoundError):
        read_keyed(None, tmp_path / "none.csv", key="id")
    with pytest.raises(BadFile, match="the directory has no files"):
        read_keyed(None, tmp_path, key="id")
    with pytest.raises(BadFile, match="not Parquet"):
        read_keyed(None, write(tmp_path / "x.parquet", "PAR1"), key="id")
    write(tmp_path / "x.csv", CSV)
    with pytest.raises(ConfigError, match=r"mixes file types \(.csv, .parquet\)"):
        read_keyed(None, tmp_path, key="id")
