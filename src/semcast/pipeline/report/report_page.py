"""The report as HTML: verdicts on top, then what they rest on, then what could not be shown."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from shlex import quote
from typing import Any, Final

from semcast import __version__
from semcast.experiments.html import Markup, document, picture, table
from semcast.pipeline.report.command_results import CheckResult, ProfileResult, PropertyRow
from semcast.pipeline.report.report_words import (
    column_labels,
    events_in_words,
    fact_label,
    record_labels,
    value_label,
)
from semcast.pipeline.report.result_files import (
    CommandOutput,
    CsvTable,
    ResultFiles,
    SweepFound,
    TraceFound,
)

FAILURES_MAX: Final = 20
COLUMNS_MAX: Final = 8
LINES_OPEN: Final = 20  # A longer table is folded.
LONG: Final = 1 << 53  # A number from here on is a hash, shown by its end.
DEEP: Final = 60
ORDER: Final = ("fail", "pass", "not applicable")
NAMING: Final = frozenset({"seed", "item", "digest", "run_id", "run", "key"})


def write_page(place: Path, found: ResultFiles, now: datetime) -> str:
    """The whole page about the directory `place`."""
    name = place.resolve().name
    sections = {title: body for title, body in _sections(found, place) if body}
    links = " ".join(f'<a href="#{_id(title)}">{escape(title)}</a>' for title in sections)
    body = "".join(
        f'<section id="{_id(title)}"><h2>{escape(title)}</h2>\n{inside}</section>\n'
        for title, inside in sections.items()
    )
    written = f"Written on {now:%Y-%m-%d %H:%M} UTC by semcast {escape(__version__)}."
    return document(
        f"Semcast: {name}",
        f"<h1>Semcast: {escape(name)}</h1>\n{_overall(found)}\n<nav>{links}</nav>\n{body}"
        f'<footer class="soft"><p>{written}</p></footer>',
    )


def _sections(found: ResultFiles, place: Path) -> Iterator[tuple[str, str]]:
    of = found.answers
    yield "Verdicts", _verdicts(found)
    yield "Traces", _join(_trace(each, place) for each in found.traces)
    yield "Checks", _join(_check(each) for each in of if isinstance(each.answer, CheckResult))
    yield "Profiles", _join(_profile(each) for each in of if isinstance(each.answer, ProfileResult))
    yield "Sweeps", _join(map(_sweep, found.sweeps))
    yield "Figures", _join(_figure(*each) for each in found.pictures)
    others = (each for each in of if not isinstance(each.answer, CheckResult | ProfileResult))
    yield "Answers", _join(map(_answer, others))
    yield "Tables", _join(_heading(each.source) + _lines(each) for each in found.tables)
    yield "Not shown", _not_shown(found)


def _overall(found: ResultFiles) -> str:
    verdicts = found.verdicts()
    failed = sum(not verdict.passed for _, verdict in verdicts)
    if not verdicts:
        return '<p class="verdict">These results contain no verdicts.</p>'
    if failed:
        return f'<p class="verdict fail">{failed} of {len(verdicts)} verdicts failed.</p>'
    text = "The verdict passed" if len(verdicts) == 1 else f"All {len(verdicts)} verdicts passed"
    unchecked = sum(trace.check is None for trace in found.traces)
    also = f" {_count(unchecked, 'trace')} not checked." if unchecked else ""
    return f'<p class="verdict pass">{text}.{also}</p>'


def _verdicts(found: ResultFiles) -> str:
    rows = [
        (_badge("pass" if judged.passed else "fail"), judged.what, judged.text, source)
        for source, judged in found.verdicts()
    ]
    return table(("verdict", "of", "found", "file"), rows) if rows else ""


def _check(each: CommandOutput) -> str:
    answer = each.answer
    assert isinstance(answer, CheckResult)
    found = sorted(answer.properties.items(), key=lambda one: _place(one[1].status))
    rows = [(name, _badge(one.status), one.violations, one.reason or "") for name, one in found]
    proofs = _join(_proof(name, one) for name, one in found if one.examples)
    head = _heading(each.source, f"{answer.events:,} events")
    return head + table(("property", "status", "violations", "reason"), rows) + proofs


def _place(status: str) -> int:
    return ORDER.index(status) if status in ORDER else len(ORDER)


def _proof(name: str, found: PropertyRow) -> str:
    """Counterexamples that a person can follow, event by event."""
    parts = [f"<h3>Counterexamples to {escape(name)}</h3>\n"]
    for example in found.examples:
        run = "" if example.run_id is None else f"Run {_shown('run', example.run_id)}: "
        events = _records(events_in_words(example.events))
        parts.append(f"<p>{escape(run + example.what)}</p>\n{events}")
    if found.violations > len(found.examples):
        parts.append(f'<p class="soft">{found.violations - len(found.examples):,} more.</p>\n')
    return _join(parts)


def _profile(each: CommandOutput) -> str:
    answer = each.answer
    assert isinstance(answer, ProfileResult)
    return _heading(each.source) + _advice(answer) + _numbers(each)


def _advice(answer: ProfileResult) -> str:
    """The buffer that was advised, and why."""
    advice = answer.advice
    if advice is None:
        return ""
    size = "No buffer suffices" if advice.buffer is None else f"Buffer: {advice.buffer:,} messages"
    return f'<p class="verdict">{size}. {escape(advice.reason)}</p>\n'


def _numbers(each: CommandOutput) -> str:
    """The numbers of a profile."""
    advice = each.facts.get("advice") or {}
    numbers = {name: value for name, value in advice.items() if name != "reason"}
    return _facts({**each.facts, **({"advice": numbers} if numbers else {})})


def _sweep(sweep: SweepFound) -> str:
    plan = sweep.plan
    axes = "; ".join(f"{name} = {', '.join(map(str, v))}" for name, v in plan.grid.items())
    kind = "live" if plan.is_live else "simulated"
    about = f"{plan.experiment}, {kind}, {plan.repeat} of each, seed {plan.seed}; {axes}"
    parts = [_heading(sweep.source, f"{about}; semcast {plan.version}")]
    if sweep.picture is not None:
        parts.append(picture(f"{plan.experiment} over {', '.join(plan.grid)}", sweep.picture))
    if sweep.failures:
        parts.append(_failures(sweep.failures))
    if sweep.summary is None:
        parts.append("<p>Not finished: run the same command again to resume.</p>\n")
    else:
        parts.append(f"<p>Means and 95 % intervals</p>\n{_lines(sweep.summary)}")
    return _join(parts)


def _failures(failures: Sequence[Mapping[str, str]]) -> str:
    """What went wrong how often, each with a command line that shows it."""
    first = {line["error"]: line["replay"] for line in reversed(failures)}
    counts = Counter(line["error"] for line in failures).most_common()
    rows = [
        (error, count, Markup(f"<code>{escape(first[error])}</code>"))
        for error, count in counts[:FAILURES_MAX]
    ]
    left = f'<p class="soft">{len(counts) - FAILURES_MAX:,} more reasons.</p>\n'
    shown = table(("failed", "runs", "replay"), rows)
    return shown + (left if counts[FAILURES_MAX:] else "")


def _figure(source: str, image: bytes, numbers: CsvTable | None) -> str:
    shown = "" if numbers is None else _folded(numbers.source, _lines(numbers))
    return _heading(source) + picture(source, image) + shown


def _answer(each: CommandOutput) -> str:
    return _heading(each.source, f"semcast {each.answer.command}") + _facts(each.facts)


def _trace(trace: TraceFound, place: Path) -> str:
    """A card: what ran, the verdict, the advice, and the command that shows it."""
    events = sum(trace.events.values())
    kinds = dict.fromkeys(f"{run.protocol}, order {run.order}" for run in trace.runs)
    about = f"{'; '.join(kinds)} · {_count(len(trace.runs), 'run')} · {events:,} events"
    parts = [_heading(trace.source, about)]
    path = quote(str(place / trace.source))  # as the reader of this machine has to type it
    if trace.check is None:
        command = f"semcast check {path}"
        parts.append(f'<p class="soft">Not checked: <code>{escape(command)}</code></p>\n')
    else:
        parts.append(_checked(trace.check))
    if trace.profile is not None:
        parts.append(_profiled(trace.profile))
    parts.append(f"<p><code>semcast explain {escape(path)}</code></p>\n")
    by_kind = table(("kind", "events"), sorted(trace.events.items()))
    parts.append(_folded("Runs and events", _runs(trace) + by_kind))
    return f'<div class="card">{_join(parts)}</div>\n'


def _runs(trace: TraceFound) -> str:
    names = ("run", "name", "protocol", "order", "relation", "f", "seed", "complete")
    rows = [
        (*(_shown("run", run.run_id), run.name, run.protocol, run.order, run.relation),
         *(run.f, _shown("seed", run.seed), run.complete))
        for run in trace.runs
    ]  # fmt: skip
    return table(names, rows)


def _checked(each: CommandOutput) -> str:
    verdict = each.answer.to_verdict()
    assert verdict is not None
    state = "pass" if verdict.passed else "fail"
    line = f'<p class="verdict {state}">{state}: {escape(verdict.text)}</p>\n'
    return line + _folded("All guarantees", _check(each))


def _profiled(each: CommandOutput) -> str:
    if not isinstance(each.answer, ProfileResult):
        return ""
    return _advice(each.answer) + _folded("Profile", _numbers(each))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _not_shown(found: ResultFiles) -> str:
    rows = [(each.source, each.why) for each in found.not_shown]
    return table(("file", "why"), rows) if rows else ""


def _facts(facts: Mapping[str, Any]) -> str:
    """Plain values as one table, records as one each, alike ones together, the rest as JSON."""
    plain = [(fact_label(n), _shown(n, value)) for n, value in facts.items() if _is_plain(value)]
    parts = [table(("", ""), plain)] if plain else []
    alike: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            alike.setdefault(tuple(value), {})[name] = value
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            parts.append(f"<h3>{escape(fact_label(name))}</h3>\n{_records(value)}")
        elif not _is_plain(value) and value:
            parts.append(_folded(fact_label(name), _json(value)))
    return _join(parts) + _join(map(_alike, alike.values()))


def _alike(named: Mapping[str, Mapping[str, Any]]) -> str:
    """Records with the same keys, one or several; what is nested in them is folded."""
    nested = {
        f"{fact_label(name)}: {fact_label(n)}": v
        for name, record in named.items()
        for n, v in record.items()
        if _is_deep(v)
    }
    flat = {name: {n: v for n, v in r.items() if not _is_deep(v)} for name, r in named.items()}
    [(first, record), *others] = flat.items()
    if others:
        shown = _records([{"": name, **each} for name, each in flat.items()])
    elif len(record) > COLUMNS_MAX:
        rows = [(fact_label(n), _shown(n, v)) for n, v in record.items()]
        shown = _folded(fact_label(first), table(("", ""), rows))
    else:
        shown = f"<h3>{escape(fact_label(first))}</h3>\n{_records([record])}"
    return shown + _join(_folded(name, _json(value)) for name, value in nested.items())


def _is_deep(value: object) -> bool:
    """Whether there is more in it than a cell can show."""
    return len(json.dumps(value)) > DEEP if isinstance(value, dict | list) else False


def _records(records: Sequence[Mapping[str, Any]]) -> str:
    """One line each; columns in which there is nothing are left out."""
    names = dict.fromkeys(n for each in records for n, v in each.items() if v is not None)
    rows = [[_shown(name, each.get(name)) for name in names] for each in records]
    return _fold_long(table(record_labels(list(names)), rows), len(rows))


def _fold_long(shown: str, rows: int) -> str:
    return _folded(f"{rows:,} rows", shown) if rows > LINES_OPEN else shown


def _is_plain(value: object) -> bool:
    return not isinstance(value, dict | list)


def _shown(name: str, value: object) -> object:
    """A value for a table; numbers that only name something are words."""
    if not _is_plain(value):
        return Markup(f"<code>{escape(json.dumps(value))}</code>")
    if isinstance(value, int) and abs(value) >= LONG:
        return f"…{value & 0xFFFFFFFF:08x}"
    return str(value) if name in NAMING and value is not None else value


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1))}</pre>\n"


def _lines(shown: CsvTable) -> str:
    rows = [
        [
            _shown(name, _typed(value_label(name, text)))
            for name, text in zip(shown.names, row, strict=True)
        ]
        for row in shown.rows
    ]
    left = f'<p class="soft">{shown.left:,} more lines.</p>\n' if shown.left else ""
    return _fold_long(table(column_labels(shown.names), rows) + left, len(rows) + shown.left)


def _typed(text: str) -> object:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text or None


def _badge(status: str) -> Markup:
    kind = status if status in ("pass", "fail") else "soft"
    return Markup(f'<span class="{kind}">{escape(status)}</span>')


def _heading(source: str, about: str = "") -> str:
    about_html = f'<p class="soft">{escape(about)}</p>\n' if about else ""
    return f"<h3>{escape(source)}</h3>\n{about_html}"


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n{inside}</details>\n"


def _id(title: str) -> str:
    return title.lower().replace(" ", "-")


def _join(parts: Iterable[str]) -> str:
    return "".join(parts)
