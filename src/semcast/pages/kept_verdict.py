"""The verdict of the last `semcast check` of a trace, read back from the file that it keeps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from semcast.specs.verdict import FAIL, CheckVerdict, PropertyResult, ViolationExample
from semcast.terms.promises import PROPERTIES
from semcast.traces.kept_results import CHECK, read_result


class _Example(msgspec.Struct, frozen=True):
    run_id: int
    what: str
    events: list[dict[str, Any]]


class _Result(msgspec.Struct, frozen=True):
    status: str
    reason: str
    violations: int
    obligations: int
    examples: list[_Example]
    runs: int = 0  # not in what earlier versions wrote
    broken_runs: int = 0


class _Facts(msgspec.Struct, frozen=True):
    events: int
    properties: dict[str, _Result]


def kept_verdict(trace: Path) -> CheckVerdict | None:
    """The verdict on the whole trace; None if there is none, or none that a check wrote."""
    try:
        facts = msgspec.convert(read_result(trace, CHECK), _Facts)
    except msgspec.ValidationError:
        return None
    results = {
        name: PropertyResult(
            result.status,
            result.reason,
            violations=result.violations,
            obligations=result.obligations,
            examples=tuple(map(_example, result.examples)),
            runs=result.runs,
            broken_runs=result.broken_runs,
        )
        for name, result in facts.properties.items()
        if name in PROPERTIES and all(map(_is_shown, result.examples))
    }
    return CheckVerdict(facts.events, results)


def _example(one: _Example) -> ViolationExample:
    return ViolationExample(one.run_id, one.what, tuple(one.events))


def _is_shown(example: _Example) -> bool:
    """Whether each event can be found in the trace."""
    names = ("pid", "n", "inc")
    return all(isinstance(event.get(name), int) for event in example.events for name in names)


def of_run(verdict: CheckVerdict, run_id: int) -> CheckVerdict | None:
    """What it says about one run: all of it if it passed, else the examples of that run."""
    if verdict.status != FAIL:
        return verdict
    broken = {}
    for name, result in verdict.properties.items():
        examples = tuple(one for one in result.examples if one.run_id == run_id)
        if examples:
            broken[name] = replace(result, examples=examples)
    return CheckVerdict(verdict.events, broken) if broken else None
