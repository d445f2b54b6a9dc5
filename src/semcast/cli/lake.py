"""`semcast lake`: many traces and keyed files in one directory that reads like a trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.cli.commands import CommandGroup, Json, new_app
from semcast.cli.output import Output, count_of, table
from semcast.cli.past_waits import WaitTime
from semcast.cli.spark_options import (
    LOCAL,
    STARTING,
    Conf,
    KeyColumn,
    KindColumn,
    Master,
    OrderColumn,
    Remote,
    SenderColumn,
    target_of,
)

if TYPE_CHECKING:
    from semcast.pipeline.lake.lake import Lake, LakeBatch
    from semcast.pipeline.reading.keyed_text import KeyedColumns

Place: TypeAlias = Annotated[Path, typer.Argument(metavar="LAKE", help="Directory of the lake.")]
Sources: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="SOURCE", help="Trace directories or keyed files to add.")
]
ID_SHOWN = 12
START_S, BYTES_PER_S = 12.0, 500_000.0  # to start Spark, and to take in a trace

app = new_app(CommandGroup, "Manage a lake: one directory of checked traces and keyed files.")


@app.callback(epilog="Example: semcast lake ls out/lake")
def _lake() -> None:
    pass


@app.command(
    epilog="\b\nExamples:\n"
    "  semcast lake ingest out/lake out/trace\n"
    "  semcast lake ingest out/lake quotes.csv.gz \\\n"
    "    --key symbol --order seq --sender venue"
)
def ingest(
    lake: Place,
    source: Sources,
    key: KeyColumn = None,
    order: OrderColumn = None,
    sender: SenderColumn = None,
    kind: KindColumn = None,
    master: Master = LOCAL,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Add traces or keyed files to the lake.  A source that is already there is skipped."""
    columns = _columns(key, order, sender, kind)
    target = target_of(master, remote, conf)
    from semcast.pipeline.lake.ingest import examine
    from semcast.pipeline.lake.ingest import ingest as take_in
    from semcast.pipeline.lake.lake import Lake
    from semcast.pipeline.spark_session import session

    output = Output(json)
    for each in source:
        examine(each, columns)  # What is no source is said before Spark starts.
    batches: list[LakeBatch] = []
    known: list[str] = []
    size = sum(file.stat().st_size for each in source for file in (each, *each.rglob("*")))
    estimate = WaitTime("lake ingest", START_S + size / BYTES_PER_S)
    with output.waiting(STARTING, estimate=estimate), session(target) as spark:
        for each in source:
            batch, is_new = take_in(spark, Lake(lake), each, columns, output.progress)
            if is_new:
                batches.append(batch)
            else:
                known.append(f"{each}: already in the lake, as batch {batch.id[:ID_SHOWN]}")
    facts = _sums(batches)
    output.print_text(
        f"added {len(batches):,} of {len(source):,} sources, {facts['rows']:,} rows", *known
    )
    output.print_text(*([""] if batches else []), *_table(batches))
    if facts["quarantined"]:
        output.print_text(
            f"{facts['quarantined']:,} invalid rows were set aside in {lake / 'quarantine'}"
        )
    output.next(f"semcast check {lake}", f"semcast profile {lake}", f"semcast lake ls {lake}")
    output.print_json({**facts, "skipped": len(known), "batches": _rows(batches)})


@app.command(epilog="Example: semcast lake ls out/lake --json")
def ls(lake: Place, json: Json = False) -> None:
    """List the batches of the lake."""
    from semcast.pipeline.lake.lake import Lake

    opened = Lake(lake)
    batches = opened.snapshot().batches
    output = Output(json)
    facts = _totals(opened)
    output.print_text(
        f"{facts['rows']:,} rows of {count_of(len(batches), 'source')} in "
        f"{facts['files']:,} files, {facts['quarantined']:,} invalid rows set aside"
    )
    output.print_text(*([""] if batches else []), *_table(batches))
    output.next(f"semcast check {lake}", f"semcast profile {lake}", f"semcast lake compact {lake}")
    output.print_json({**facts, "batches": _rows(batches)})


@app.command(epilog="Example: semcast lake compact out/lake")
def compact(
    lake: Place,
    master: Master = LOCAL,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Merge small files.  The rows stay the same."""
    target = target_of(master, remote, conf)
    from semcast.pipeline.lake.compact import compact as merge
    from semcast.pipeline.lake.lake import Lake
    from semcast.pipeline.spark_session import session

    opened = Lake(lake)
    opened.snapshot()  # What is no lake is said before Spark starts.
    output = Output(json)
    estimate = WaitTime("lake compact", START_S)
    with output.waiting(STARTING, estimate=estimate), session(target) as spark:
        before, after = merge(spark, opened, on_progress=output.progress)
    output.print_text(f"merged {before:,} files into {after:,}; the old ones are still there")
    output.next(f"semcast lake vacuum {lake}")
    output.print_json({**_totals(opened), "merged": before, "into": after})


@app.command(epilog="Example: semcast lake vacuum out/lake")
def vacuum(lake: Place, json: Json = False) -> None:
    """Delete files that the current snapshot does not use."""
    from semcast.pipeline.lake.lake import Lake

    opened = Lake(lake)
    removed = opened.vacuum()
    output = Output(json)
    output.print_text(f"deleted {removed.files:,} files ({removed.bytes:,} bytes)")
    output.next(f"semcast lake ls {lake}")
    output.print_json({**_totals(opened), "deleted": removed.files, "deleted_bytes": removed.bytes})


def _columns(
    key: str | None, order: str | None, sender: str | None, kind: str | None
) -> "KeyedColumns | None":
    from semcast.pipeline.reading.keyed_text import KeyedColumns
    from semcast.terms.errors import ConfigError

    if key is not None:
        return KeyedColumns(key, order, sender, kind)
    if order or sender or kind:
        raise ConfigError("key: required with --order, --sender and --kind; add --key COLUMN")
    return None


def _rows(batches: "list[LakeBatch]") -> list[dict[str, object]]:
    return [
        {
            "batch": batch.id[:ID_SHOWN],
            "runs": batch.runs,
            "rows": batch.rows,
            "quarantined": batch.quarantined,
            "source": batch.source,
        }
        for batch in batches
    ]


def _table(batches: "list[LakeBatch]") -> list[str]:
    """The batches for people, who know quarantined rows as invalid ones."""
    return table(
        [
            {"invalid" if name == "quarantined" else name: value for name, value in row.items()}
            for row in _rows(batches)
        ]
    )


def _sums(batches: "list[LakeBatch]") -> dict[str, int]:
    return {
        "files": sum(batch.files for batch in batches),
        "rows": sum(batch.rows for batch in batches),
        "quarantined": sum(batch.quarantined for batch in batches),
    }


def _totals(lake: "Lake") -> dict[str, int]:
    """Of the whole lake; `files` are those it is made of."""
    return {**_sums(lake.snapshot().batches), "files": len(lake.files())}
