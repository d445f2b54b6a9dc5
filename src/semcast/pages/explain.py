"""`semcast explain`: one run of a trace as a space-time diagram in one HTML file.

The page has the first answer in words, the whole run as densities, and single events with arrows
where the reader zooms in.  A run of up to EMBEDDED_MAX events is in the page completely; of a
longer one, the page has that many events around the event of interest, and densities of the rest.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypedDict

import numpy as np

from semcast.experiments.html import document
from semcast.fleet.trace_verdict import judge_run
from semcast.pages.kept_verdict import kept_verdict, of_run
from semcast.pages.space_time import Columns, columns_of, crashes_of, packed, views_of
from semcast.specs.run_check import CheckResults
from semcast.specs.verdict import FAIL, CheckVerdict
from semcast.terms.errors import ConfigError
from semcast.terms.events import DELIVER, MULTICAST
from semcast.terms.promises import PROPERTIES
from semcast.terms.rules import GUARANTEE_RULES
from semcast.traces.errors import BadFile
from semcast.traces.files import new_file
from semcast.traces.parquet import read_item_names, read_processes, read_runs_in
from semcast.traces.recorded_events import RecordedEvents, read_events
from semcast.traces.schema import EVENTS, ProcessInfo, RunInfo
from semcast.traces.trace_files import root_of

EMBEDDED_MAX: Final = 200_000
JUDGED_MAX: Final = 400_000  # events that the monitors judge in about a second
EXAMPLES_MAX: Final = 20
NAME_MAX: Final = 40


class Explained(TypedDict):
    """The page that was written and its run; `verdict` is None if no monitor judged the run."""

    html: str
    run: int
    events: int
    violations: int
    verdict: str | None


@dataclass(frozen=True, slots=True)
class _Story:
    """One run with everything that its page says."""

    run: RunInfo
    processes: Sequence[ProcessInfo]
    columns: Columns
    verdict: CheckVerdict | None
    names: list[str]
    items: list[str]


def explain(
    directory: str | Path,
    out: str | Path,
    *,
    run_id: int | None = None,
    around: tuple[str, int] | None = None,
) -> Explained:
    """Write the page of one run: the named one, or the first that broke a guarantee, or the first.

    `around` is a process, by name or number, and the local index of one of its events.

        explain("out/trace", "out/trace.html", around=("p0", 241))
    """
    root = root_of(Path(directory))
    events, processes = read_events(root / EVENTS), read_processes(root)
    last_check = kept_verdict(Path(directory))
    run, verdict = _chosen(read_runs_in(root), processes, events, run_id, last_check)
    members = processes.get(run.run_id, ())
    columns = columns_of(events.table_of(run), [process.pid for process in members])
    names = {process.pid: process.name for process in members}
    story = _Story(
        run,
        members,
        columns,
        verdict,
        [str(names.get(pid) or f"p{pid}")[:NAME_MAX] for pid in columns.pids.tolist()],
        _item_names(columns, read_item_names(root, run.run_id)),
    )
    page = _page(Path(directory).resolve().name, story, around)
    out = Path(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        new_file(out).write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"out: {out}: {error.strerror or error}") from None
    return {
        "html": str(out),
        "run": run.run_id,
        "events": len(columns),
        "violations": verdict.violations if verdict else 0,
        "verdict": verdict.status if verdict else None,
    }


def _chosen(
    runs: Sequence[RunInfo],
    processes: dict[int, tuple[ProcessInfo, ...]],
    events: RecordedEvents,
    run_id: int | None,
    last_check: CheckVerdict | None,
) -> tuple[RunInfo, CheckVerdict | None]:
    """The run to show, and the verdict on it: the monitors' if that takes about a second, else
    what the last check of the trace kept of it."""
    wanted = [run for run in runs if run_id in (None, run.run_id)]
    if not wanted:
        known = ", ".join(str(run.run_id) for run in runs[:10])
        raise BadFile(f"no run {run_id}; the trace has {known}{', …' if runs[10:] else ''}")
    if last_check is not None and run_id is None:
        broken = {
            example.run_id
            for result in last_check.properties.values()
            for example in result.examples
        }
        wanted = [run for run in wanted if run.run_id in broken] or wanted
    first: tuple[RunInfo, CheckVerdict | None] | None = None
    judged = 0
    for run in wanted:
        judged += events.count(run.run_id)
        if judged > JUDGED_MAX:
            break
        results = CheckResults()
        judge_run(run, processes.get(run.run_id, ()), events, PROPERTIES, results)
        found = results.verdict(PROPERTIES)
        if found.status == FAIL:
            return run, found
        first = first or (run, found)
    return first or (
        wanted[0],
        None if last_check is None else of_run(last_check, wanted[0].run_id),
    )


def _item_names(columns: Columns, names: dict[int, str]) -> list[str]:
    """Names of items; of an item without one, its number, or the end of its hash."""
    return [
        names.get(item) or (str(item) if abs(item) < 1 << 32 else f"#{item & 0xFFFFFFFF:08x}")
        for item in columns.items
    ]


def _page(name: str, story: _Story, around: tuple[str, int] | None) -> str:
    columns, run = story.columns, story.run
    violations = _violations(story)
    focus = _focus(story, around, violations)
    size = len(columns)
    start = max(0, min(size - EMBEDDED_MAX, max(focus, 0) - EMBEDDED_MAX // 2))
    end = min(size, start + EMBEDDED_MAX)
    about, body = packed(columns, start, end, run.protocol)
    lanes = {pid: lane for lane, pid in enumerate(columns.pids.tolist())}
    about |= {
        "processes": story.names,
        "streams": [(lanes[pid], inc) for pid, inc in columns.streams.tolist()],
        "items": story.items,
        "notes": list(columns.notes),
        "events": size,
        "end": int(columns.us[-1]),
        "isWhole": end - start == size,
        "around": focus - start if focus >= 0 else -1,
        "views": views_of(columns),
        "crashes": crashes_of(columns),
        "violations": [
            {**each, "rows": [row - start if start <= row < end else -1 for row in each["rows"]]}
            for each in violations
        ],
    }
    facts = f"{run.protocol} · order {run.order} · {len(lanes)} processes · {size:,} events"
    if end - start < size:
        facts += f" · {end - start:,} of them in this page, densities of the rest"
    title = f"{name}, run {_short(run.run_id)}"
    return document(
        f"Semcast explain: {title}",
        f"<main><h1>explain · {escape(title)}</h1>\n{_sentence(story)}\n"
        f'<p class="soft">{escape(facts)}</p>\n{_CONTROLS}</main>\n'
        f'<script type="application/json" id="about">{_json(about)}</script>\n'
        f'<script type="text/plain" id="events">{body}</script>\n'
        f"<script>{_asset('explain.js')}</script>\n"
        f"<script>{_asset('explain_controls.js')}</script>",
        style=_asset("explain.css"),
    )


_CONTROLS: Final = """<canvas id="overview" aria-label="the whole run"></canvas>
<div class="tools">
<label>item <input id="item" list="items" size="10" placeholder="all"></label>
<datalist id="items"></datalist>
<label>sender <select id="sender"><option value="-1">all</option></select></label>
<span><button id="back" aria-label="previous event">◀</button> step
<button id="forth" aria-label="next event">▶</button></span>
<span><button id="wider" aria-label="zoom out">−</button> zoom
<button id="closer" aria-label="zoom in">+</button>
<button id="whole">whole run</button></span></div>
<div class="tools" id="kinds"></div>
<p class="soft" id="shown"></p>
<div class="stage"><canvas id="lanes" aria-label="events by process and time"></canvas>
<aside id="detail"><p class="soft">Click an event to see the rule behind it. Drag to move, scroll or
pinch to zoom; arrow keys step, + and − zoom, 0 shows the whole run.</p></aside></div>"""


def _asset(name: str) -> str:
    return (files("semcast.pages") / name).read_text(encoding="utf-8")


def _json(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _short(number: int) -> str:
    """A number of a run; of a long one the end, in hexadecimal digits."""
    return str(number) if abs(number) < 1 << 32 else f"…{number & 0xFFFFFF:06x}"


def _violations(story: _Story) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if story.verdict is None:
        return found
    for name, result in story.verdict.properties.items():
        for example in result.examples[:EXAMPLES_MAX]:
            rows = [
                story.columns.place_of(event["pid"], event["n"], event["inc"])
                for event in example.events
            ]
            places = [row for row in rows if row >= 0]
            if places:
                time = int(story.columns.us[places[0]])
                found.append({"property": name, "what": example.what, "t": time, "rows": places})
    return found


def _focus(story: _Story, around: tuple[str, int] | None, violations: list[dict[str, Any]]) -> int:
    """The event to show first; -1 for the whole run."""
    if around is None:
        return int(violations[0]["rows"][-1]) if violations else -1
    name, n = around
    named = {process.name: process.pid for process in story.processes}
    pid = named.get(name, int(name.removeprefix("p")) if name.removeprefix("p").isdigit() else -1)
    place = story.columns.place_of(pid, n)
    if place < 0:
        raise ConfigError(f"around: run {story.run.run_id} has no event {n} of process {name}")
    return place


def _sentence(story: _Story) -> str:
    """The answer in words: what broke, or who fell behind, or that nobody did."""
    verdict = story.verdict
    if verdict is not None and verdict.status == FAIL:
        broken = {n: r for n, r in verdict.properties.items() if r.status == FAIL}
        name, result = next(iter(broken.items()))
        rule = GUARANTEE_RULES[name]
        others = f" Also broken: {', '.join(list(broken)[1:])}." if len(broken) > 1 else ""
        text = f"FAIL {name}: {result.reason}.{others}"
        why = f"Why it matters: {rule.sentence}. [{rule.source}]"
        return f'<p class="verdict fail">{escape(text)}</p><p>{escape(why)}</p>'
    held = ""
    if verdict is not None and verdict.passed:
        holds = sum(result.status == "pass" for result in verdict.properties.values())
        held = f' <span class="pass">✓ {holds} guarantees hold.</span>'
    return f'<p class="verdict">{escape(_summary(story))}{held}</p>'


def _summary(story: _Story) -> str:
    columns, lanes = story.columns, len(story.columns.pids)
    sent = int(columns.of_kind(MULTICAST).sum())
    delivered = np.bincount(columns.lane[columns.of_kind(DELIVER)], minlength=lanes)
    superseded = columns.passed_over
    by_lane = np.bincount(columns.lane[superseded], minlength=lanes)
    slowest = int(by_lane.argmax())
    if not by_lane[slowest]:
        return f"{sent:,} messages were sent, and no process skipped any."
    since = int(columns.us[superseded & (columns.lane == slowest)][0]) / 1e6
    return (
        f"{story.names[slowest]} fell behind first at {since:.2f} s. Of {sent:,} messages it "
        f"delivered {delivered[slowest]:,}; it passed over {by_lane[slowest]:,} because a newer "
        "message had made them obsolete."
    )
