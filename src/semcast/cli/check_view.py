"""The verdict of `semcast check` for people: the answer, then both sides of what broke."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from semcast.cli.output import Output, count_of, wrapped
from semcast.terms.palette import HOLDS, WRONG
from semcast.terms.rules import GUARANTEE_RULES

if TYPE_CHECKING:
    from semcast.pages.message_way import Step
    from semcast.specs.verdict import CheckVerdict, PropertyResult, ViolationExample

_DETAILS: Final = (
    *(("item", "item"), ("by_seq", "by"), ("view", "view"), ("position", "position")),
    *(("peer", "peer"), ("client", "client"), ("request", "request"), ("version", "version")),
    ("note", "note"),
)
_STEPS_SHOWN: Final = 4  # of each process


def show(
    output: Output,
    trace: Path,
    found: "CheckVerdict",
    took: str,
    *,
    is_verbose: bool,
    is_readable: bool,
) -> None:
    """Print the verdict; `is_readable`: the trace is small enough to be read again for the story
    of the first violation."""
    from semcast.specs.verdict import FAIL, PASS

    by_status: dict[str, dict[str, PropertyResult]] = {}
    for name, result in found.properties.items():
        by_status.setdefault(result.status, {})[name] = result
    broken, held = by_status.get(FAIL, {}), by_status.get(PASS, {})
    size = f"{found.events:,} events, {took}"
    if broken:
        judged = len(broken) + len(held)
        output.print_text(
            f"FAIL  {len(broken)} of {judged} guarantees broken ({size})", colour=WRONG
        )
        _show_broken(output, trace, broken, is_verbose=is_verbose, is_readable=is_readable)
    elif held:
        output.print_text(f"ok  {len(held)} guarantees hold ({size})", colour=HOLDS)
    else:
        output.print_text(f"no guarantee could be checked ({size})", colour=WRONG)
    if held:
        output.print_text("", *wrapped(f"ok: {' '.join(held)}"))
        for name, result in held.items() if is_verbose else ():
            output.print_text(f"  {name}: checked {result.obligations:,} times")
    for status in (status for status in by_status if status not in (FAIL, PASS)):
        _show_unjudged(output, status, by_status[status], is_verbose=is_verbose)
    if not broken:
        output.next(f"semcast explain {trace}", f"semcast profile {trace}")


def _show_broken(
    output: Output,
    trace: Path,
    broken: Mapping[str, "PropertyResult"],
    *,
    is_verbose: bool,
    is_readable: bool,
) -> None:
    longest, widest = max(map(len, broken)), max(len(f"{r.violations:,}") for r in broken.values())
    for name, result in broken.items():
        count = count_of(result.violations, "violation")
        indent = " " * (widest - len(f"{result.violations:,}"))
        runs = f" in {result.broken_runs:,} of {result.runs:,} runs" if result.runs > 1 else ""
        output.print_text(f"{name:<{longest}}  {indent}{count}{runs}")
    name, result = next(iter(broken.items()))
    if result.examples:
        example = result.examples[0]
        _show_story(output, trace, name, example, is_verbose=is_verbose, is_readable=is_readable)
    for name, result in broken.items() if is_verbose else ():
        output.print_text("", f"{name}, {len(result.examples)} of {result.violations:,} violations")
        for example in result.examples:
            output.print_text(*_transcript(example))


def _show_story(
    output: Output,
    trace: Path,
    name: str,
    example: "ViolationExample",
    *,
    is_verbose: bool,
    is_readable: bool,
) -> None:
    """The first violation: both sides, the rule, and how to see and replay it."""
    rule = GUARANTEE_RULES[name]
    way = None
    if is_readable:
        from semcast.pages.message_way import message_way

        way = message_way(trace, example)
    output.print_text("")
    if way is None:
        output.print_text(*_transcript(example))
    else:
        output.print_text(f"  run {way.run_id}: {example.what}")
        steps = way.steps if is_verbose else _essential(way.steps)
        _show_steps(output, steps)
        if len(steps) < len(way.steps):
            others = sorted({step.process for step in way.steps} - {s.process for s in steps})
            also = f", also of {', '.join(others)}" if others else ""
            left = len(way.steps) - len(steps)
            output.print_text(f"    and {count_of(left, 'event')} more{also} (-v: all)")
    output.print_text(*wrapped(f"  why it matters: {rule.sentence} ({rule.source})", indent="    "))
    run = f" --run {example.run_id}"
    around = f" --around {way.around}" if way is not None else ""
    output.print_command("  see it:  ", f"semcast explain {trace}{run}{around}")
    if way is not None and way.replay:
        output.print_command("  replay:  ", way.replay)


def _show_steps(output: Output, steps: Sequence["Step"]) -> None:
    """The way of a message, an event on each line."""
    widest = max(len(step.process) for step in steps)
    for step in steps:
        time = "" if step.ms is None else f"{step.ms:,.2f} ms"
        mark = "  <- first event that differs" if step.is_difference else ""
        colour = WRONG if step.is_difference or step.ms is None else None
        output.print_text(
            f"    {step.process:<{widest}}  {time:>14}  {step.text}{mark}", colour=colour
        )


def _essential(steps: Sequence["Step"]) -> list["Step"]:
    """The first events of both sides, the one that differs, and what is missing."""
    both, count, essential = _both_sides(steps), Counter[str](), []
    for step in steps:
        count[step.process] += 1
        is_needed = step.is_difference or step.ms is None
        if step.process in both and (is_needed or count[step.process] <= _STEPS_SHOWN):
            essential.append(step)
    return essential


def _both_sides(steps: Sequence["Step"]) -> set[str]:
    """A process that lacks the message, and one that has it: the one where they part."""
    lacking = [
        step.process for step in steps if step.ms is None and not step.text.startswith("crashed")
    ]
    having = [step.process for step in steps if step.process not in lacking]
    parting = [step.process for step in steps if step.is_difference]
    return {*lacking[:1], *(parting or having)[:1], *having[: not lacking]}


def _show_unjudged(
    output: Output, status: str, results: Mapping[str, "PropertyResult"], *, is_verbose: bool
) -> None:
    """Properties that were not judged: their number, or with the reasons if asked."""
    if not is_verbose:
        output.print_text(f"{status}: {len(results)} (-v: which, and why)")
        return
    by_reason: dict[str, list[str]] = {}
    for name, result in results.items():
        by_reason.setdefault(result.reason, []).append(name)
    for reason, names in by_reason.items():
        output.print_text("", *wrapped(f"{status}: {reason}"), *wrapped(f"  {' '.join(names)}"))


def _transcript(example: "ViolationExample") -> Iterator[str]:
    """What happened, then the events that prove it, by the time since the first of them."""
    yield f"  run {example.run_id}: {example.what}"
    start = min((event["ts_ns"] for event in example.events), default=0)
    for event in example.events:
        since = (event["ts_ns"] - start) / 1e6
        yield f"    +{since:,.3f} ms  process {event['pid']}  {_described(event)}"


def _described(event: Mapping[str, Any]) -> str:
    words = [event["kind"]]
    if "sender" in event:
        words.append(f"{event['sender']}:{event.get('seq', '')}")
    words.extend(f"{word}={event[name]}" for name, word in _DETAILS if name in event)
    return " ".join(words)
