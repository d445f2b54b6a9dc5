"""What a directory of results holds: answers of commands, traces, sweeps, pictures, tables.

Answers (`semcast … --json > DIR/NAME.json`) are recognised by their keys, the rest by the files
they are made of.  Every file is shown, part of what is shown, or named with the reason.
"""

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from semcast.experiments.experiment import Value
from semcast.pipeline.report.command_results import CommandResult, ResultVerdict, parse_result
from semcast.pipeline.sweep.results import MANIFEST, PICTURE, RESULTS_CSV, SUMMARY, VECTOR
from semcast.terms.errors import SemcastError
from semcast.traces.errors import BadFile
from semcast.traces.files import refuse_links
from semcast.traces.kept_results import CHECK, PROFILE, read_result
from semcast.traces.parquet import read_runs
from semcast.traces.schema import EVENTS, JOURNALS, RUNS, RunInfo
from semcast.traces.tables import check_kinds

ROWS_MAX: Final = 200
FILE_BYTES_MAX: Final = 32 << 20


class CommandOutput(NamedTuple):
    """What a command answered; `source` is the file, `facts` all that it holds."""

    source: str
    answer: CommandResult
    facts: dict[str, Any]


class TraceFound(NamedTuple):
    """A trace or lake: its runs, how many events of each kind it has, and the last results of
    `check` and `profile` on it."""

    source: str
    runs: Sequence[RunInfo]
    events: Mapping[str, int]
    check: CommandOutput | None = None
    profile: CommandOutput | None = None


class CsvTable(NamedTuple):
    """The first lines of a CSV file; `left` are not here."""

    source: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 0


class SweepPlan(msgspec.Struct, frozen=True):
    """What a sweep says of itself."""

    experiment: str
    grid: dict[str, list[Value]]
    parameters: dict[str, Value]
    repeat: int
    seed: int
    is_live: bool
    version: str


class SweepFound(NamedTuple):
    """A sweep; `summary` is None while it has not finished."""

    source: str
    plan: SweepPlan
    runs: int
    failures: Sequence[Mapping[str, str]]
    violations: int
    summary: CsvTable | None
    picture: bytes | None

    def judged(self) -> ResultVerdict:
        """How many runs failed."""
        what = f"sweep of {self.plan.experiment}"
        if self.summary is None:
            return ResultVerdict(what, "not finished; run the same command again to resume", False)
        violations = f"{self.violations:,} violations" if self.violations else "no violation"
        text = f"{self.runs:,} runs, {len(self.failures):,} failed, {violations}"
        return ResultVerdict(what, text, not self.failures and not self.violations)


class ImageFile(NamedTuple):
    """A picture, PNG or SVG, and the table of its numbers if one lies beside it."""

    source: str
    image: bytes
    numbers: CsvTable | None


class SkippedFile(NamedTuple):
    """A file that is not in the report."""

    source: str
    why: str


@dataclass(slots=True)
class ResultFiles:
    """All of a directory."""

    answers: list[CommandOutput] = field(default_factory=list)
    traces: list[TraceFound] = field(default_factory=list)
    sweeps: list[SweepFound] = field(default_factory=list)
    pictures: list[ImageFile] = field(default_factory=list)
    tables: list[CsvTable] = field(default_factory=list)
    not_shown: list[SkippedFile] = field(default_factory=list)

    def verdicts(self) -> list[tuple[str, ResultVerdict]]:
        """Everything that was judged and where it stands, what failed first."""
        judged = [(each.source, each.answer.to_verdict()) for each in self.answers]
        checked = [trace.check for trace in self.traces if trace.check is not None]
        judged += [(each.source, each.answer.to_verdict()) for each in checked]
        judged += [(sweep.source, sweep.judged()) for sweep in self.sweeps]
        known = [(source, verdict) for source, verdict in judged if verdict is not None]
        return sorted(known, key=lambda each: each[1].passed)


def scan_directory(directory: str | Path, *, exclude: Path | None = None) -> ResultFiles:
    """Read a directory and what is below it; `leaving_out` is the report itself."""
    top = Path(directory)
    if not top.is_dir():
        raise BadFile(f"{top}: not a directory")
    found = ResultFiles()
    for folder, below, names in os.walk(top):
        place = Path(folder)
        below.sort()
        reader = _directory_reader(place)
        if reader is not None:
            below.clear()
            _try(found, top, place, reader)
            continue
        links = [place / name for name in (*below, *names) if (place / name).is_symlink()]
        for link in sorted(links):
            why = "a symbolic link, which is not followed"
            found.not_shown.append(SkippedFile(str(link.relative_to(top)), why))
        files = [place / name for name in sorted(names)]
        _read_files(found, top, [path for path in files if path not in (*links, exclude)])
    return found


_UNREADABLE: Final = (
    *(SemcastError, OSError, ValueError, RecursionError, csv.Error),
    *(msgspec.MsgspecError, pa.ArrowException),
)
_Reader = Callable[[ResultFiles, Path, str], None]


def _directory_reader(place: Path) -> _Reader | None:
    """Who reads this directory, if it is one thing."""
    if (place / MANIFEST).exists():
        return _read_sweep
    if (place / RUNS).exists() or (place / EVENTS).is_dir() or (place / JOURNALS).is_dir():
        return _read_trace
    return None


def _read_files(found: ResultFiles, top: Path, files: Sequence[Path]) -> None:
    pictures = {path.stem for path in files if path.suffix in (".png", ".svg")}
    vectors = {path.stem for path in files if path.suffix == ".svg"}
    readers: dict[str, _Reader] = {
        ".json": _read_json,
        ".png": _read_image,
        ".svg": _read_image,
        ".csv": _read_csv,
    }
    for path in files:
        if path.suffix == ".csv" and path.stem in pictures:
            continue  # It is shown with its picture.
        if path.suffix == ".png" and path.stem in vectors:
            continue  # The same picture as SVG follows the reader's screen.
        if path.suffix == ".html":
            continue  # A page of its own, such as that of the figures.
        _try(found, top, path, readers.get(path.suffix, _refuse))


def _try(found: ResultFiles, top: Path, path: Path, read: _Reader) -> None:
    source = str(path.relative_to(top)) if path != top else path.name
    try:
        read(found, path, source)
    except _UNREADABLE as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        found.not_shown.append(SkippedFile(source, f"cannot be read: {why}"))


def _refuse(found: ResultFiles, path: Path, source: str) -> None:
    size = path.stat().st_size
    found.not_shown.append(SkippedFile(source, f"unsupported type of file, {size:,} bytes"))


def _bytes(path: Path) -> bytes:
    if not path.is_file():
        raise BadFile("not a file")
    size = path.stat().st_size
    if size > FILE_BYTES_MAX:
        raise BadFile(f"too large: {size:,} bytes, maximum is {FILE_BYTES_MAX:,}")
    return path.read_bytes()


def _read_json(found: ResultFiles, path: Path, source: str) -> None:
    for facts in _objects(_bytes(path).decode()):
        answer = parse_result(facts)
        if answer is None:
            found.not_shown.append(SkippedFile(source, "JSON, but not the output of a command"))
        else:
            found.answers.append(CommandOutput(source, answer, facts))


def _objects(text: str) -> list[dict[str, Any]]:
    """One object, or one a line, between lines that were meant for people."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    try:
        try:
            objects = [json.loads(text)]
        except ValueError:
            if not lines:
                raise
            objects = [json.loads(line) for line in lines]
    except ValueError as error:
        raise BadFile(f"not JSON: {error}") from None
    if not all(isinstance(each, dict) for each in objects):
        raise BadFile("JSON, but not an object")
    return objects


def _image(path: Path) -> bytes:
    image = _bytes(path)
    is_svg = path.suffix == ".svg" and image.lstrip().startswith((b"<svg", b"<?xml"))
    if not is_svg and not image.startswith(b"\x89PNG\r\n\x1a\n"):
        raise BadFile(f"not {'an SVG' if path.suffix == '.svg' else 'a PNG'} picture")
    return image


def _read_image(found: ResultFiles, path: Path, source: str) -> None:
    beside = path.with_suffix(".csv")
    numbers = _table(beside, str(Path(source).with_suffix(".csv"))) if beside.exists() else None
    found.pictures.append(ImageFile(source, _image(path), numbers))


def _read_csv(found: ResultFiles, path: Path, source: str) -> None:
    found.tables.append(_table(path, source))


def _table(path: Path, source: str) -> CsvTable:
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file, strict=True)
        names = next(reader, None)
        if not names:
            raise BadFile("an empty table")
        rows = list(islice(reader, ROWS_MAX))
        left = sum(1 for _ in reader)
    ragged = next((n for n, row in enumerate(rows, start=2) if len(row) != len(names)), None)
    if ragged is not None:
        raise BadFile(f"line {ragged} does not have {len(names)} columns")
    return CsvTable(source, names, rows, left)


def _read_trace(found: ResultFiles, path: Path, source: str) -> None:
    runs = read_runs(path)
    if not runs:
        raise BadFile(f"an incomplete trace: {RUNS} is missing")
    check_kinds(path / EVENTS)
    results = [_stored_result(path, source, name) for name in (CHECK, PROFILE)]
    found.traces.append(TraceFound(source, runs, dict(_counted(path / EVENTS)), *results))


def _stored_result(path: Path, source: str, name: str) -> CommandOutput | None:
    facts = read_result(path, name)
    answer = None if facts is None else parse_result(facts)
    return None if facts is None or answer is None else CommandOutput(source, answer, facts)


def _counted(events: Path) -> Iterator[tuple[str, int]]:
    for kind in sorted(events.glob("kind=*")):
        files = kind.rglob("*.parquet")
        yield (
            kind.name.removeprefix("kind="),
            sum(pq.read_metadata(file).num_rows for file in files),
        )


def _read_sweep(found: ResultFiles, path: Path, source: str) -> None:
    refuse_links(path)
    plan = msgspec.json.decode(_bytes(path / MANIFEST), type=SweepPlan)
    drawn = next((path / name for name in (VECTOR, PICTURE) if (path / name).exists()), None)
    picture = None if drawn is None else _image(drawn)
    if not (path / SUMMARY).exists():
        found.sweeps.append(SweepFound(source, plan, 0, (), 0, None, picture))
        return
    with open(path / RESULTS_CSV, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    if not all(line.keys() >= {"error", "replay"} for line in lines):
        raise BadFile(f"{RESULTS_CSV} has no column error or replay")
    failures = [line for line in lines if line["error"]]
    violations = sum(int(line.get("violations") or 0) for line in lines)
    summary = _table(path / SUMMARY, str(Path(source) / SUMMARY))
    found.sweeps.append(
        SweepFound(source, plan, len(lines), failures, violations, summary, picture)
    )
