"""Keyed files of every format give the same rows; whatever is wrong is said in one line."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile
from semcast.traces.keyed import KeyedRow, read_keyed

ROWS = [
    KeyedRow("a", "C", 10, 16),
    KeyedRow("a,b", "U", None, 0),
    KeyedRow("é", "D", -3, 5),
    KeyedRow("7", "R", 40, 1),
]
CSV = 'id,when,what,bytes\na,10,C,16\n"a,b",,U,0\n\né,-3,D,5\n7,40,R,1\n'
COLUMNS = {"key": "id", "kind": "what", "time": "when", "size": "bytes"}


def jsonl() -> str:
    lines = [{"id": r.key, "when": r.t_us, "what": r.kind, "bytes": r.size} for r in ROWS]
    lines[3]["id"] = 7  # a key may be a number there
    return "\n".join(json.dumps(line) for line in lines) + "\n\n"


def write(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", CSV),
        ("rows.csv.gz", CSV),
        ("rows.CSV", "\ufeff" + CSV.replace("\n", "\r\n")),
        ("rows.jsonl", jsonl()),
        ("rows.ndjson.gz", jsonl()),
    ],
)
def test_text_formats(tmp_path: Path, name: str, text: str) -> None:
    assert list(read_keyed(write(tmp_path / name, text), **COLUMNS)) == ROWS


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "bytes": [r.size for r in ROWS],
            "id": [r.key for r in ROWS],
            "when": [r.t_us for r in ROWS],
            "what": [r.kind for r in ROWS],
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=3)
    assert list(read_keyed(tmp_path / "rows.parquet", **COLUMNS)) == ROWS


def test_only_the_key_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", CSV)
    assert list(read_keyed(path, key="id")) == [KeyedRow(row.key) for row in ROWS]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("x.csv", "id,what\n", "{path}: no column 'when', it has id, what"),
        ("x.csv", "", "{path}: empty, needs a line of column names"),
        ("x.csv", CSV + "z,soon,U,1\n", "{path}:7: when 'soon' is not a whole number"),
        ("x.csv", CSV + "z,1,U,\n", "{path}:7: bytes '' is not a whole number"),
        ("x.csv", CSV + "z,1,U,-1\n", "{path}:7: bytes '-1' is not 0 or more"),
        ("x.csv", CSV + "z,1,Q,1\n", "{path}:7: what 'Q' is not one of U, C, D, R"),
        ("x.csv", CSV + "z,1\n", "{path}:7: 2 cells, the first line has 4"),
        ("x.csv", CSV + '"z\n', "{path}: cannot be read: "),
        ("x.jsonl", jsonl() + "{", "{path}:6: not JSON: "),
        ("x.jsonl", "[" * 100_000, "{path}:1: not JSON: "),
        ("x.jsonl", "[1]", "{path}:1: not a JSON object"),
        ("x.jsonl", '{"id": 1}', "{path}:1: no column 'what', it has id"),
        (
            "x.jsonl",
            '{"id": null, "what": "U", "when": 1, "bytes": 1}',
            "{path}:1: id is missing",
        ),
        (
            "x.jsonl",
            '{"id": 1, "what": "U", "when": 1.5, "bytes": 1}',
            "{path}:1: when 1.5 is not a whole number",
        ),
        (
            "x.jsonl",
            '{"id": 1, "what": "U", "when": 1, "bytes": true}',
            "{path}:1: bytes True is not a whole number",
        ),
        ("x.parquet", "PAR1", "{path}: not Parquet: "),
    ],
)
def test_bad_content(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(BadFile) as caught:
        list(read_keyed(path, **COLUMNS))
    assert str(caught.value).startswith(says.format(path=path))
    assert "\n" not in str(caught.value)


def test_bad_parquet_cells_name_the_row(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": ["a", None]}), path)
    with pytest.raises(BadFile, match="row 2: id is missing"):
        list(read_keyed(path, key="id"))
    with pytest.raises(BadFile, match="no column 'key', it has id"):
        list(read_keyed(path, key="key"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cut.csv.gz", gzip.compress(CSV.encode())[:-20]),
        ("plain.csv.gz", CSV.encode()),
        ("garbled.csv.gz", gzip.compress(CSV.encode())[:10] + b"\xff" * 40),
        ("latin.csv", "id,when,what,bytes\né,1,U,1\n".encode("latin-1")),
        ("null.jsonl", b"\xff\xfe"),
    ],
    ids=["cut", "plain", "garbled", "latin", "null"],
)
def test_unreadable_bytes(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(BadFile) as caught:
        list(read_keyed(path, **COLUMNS))
    assert str(caught.value).startswith(f"{path}: cannot be read: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["none.csv", "none.jsonl.gz", "none.parquet"])
def test_absent_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadFile, match=r"cannot be read: .*[Nn]o such file"):
        list(read_keyed(tmp_path / name, key="id"))


def test_unknown_formats_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown value 'rows.xlsx'; allowed: \.csv"):
        read_keyed(tmp_path / "rows.xlsx", key="id")
