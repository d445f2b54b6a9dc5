"""Every monitor rejects a bad trace and accepts the repaired one.

A case, in `cases/*.txt`, is one transcript with the repair as a diff: lines marked - are in the bad
trace only, lines marked + in the repaired one only.  The bad trace breaks exactly the properties
named; the repaired one breaks none of those promised.  Unless `run:` says otherwise the run is
S-RM with FIFO order, items, two processes and f = 1.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from semcast.specs.monitors import Monitors
from semcast.specs.service import NO_WITNESS
from semcast.specs.transcript import lines, parse
from semcast.specs.violations import KEPT_PER_PROPERTY
from semcast.terms.errors import ConfigError
from semcast.terms.events import CRASH, MULTICAST, Event
from semcast.terms.messages import DataMessage
from semcast.terms.promises import BY_PROTOCOL, PROPERTIES, promised

COMBINATIONS = [(name, order) for name, facts in BY_PROTOCOL.items() for order in facts.orders]


@dataclass(frozen=True)
class Case:
    name: str
    breaks: set[str]
    says: str
    diff: str
    protocol: str = "s-rm"
    order: str = "fifo"
    relation: str = "item"
    f: int = 1
    n: int = 2
    complete: bool = False
    copies: str = "1"


def read_cases(name: str) -> list[Case]:
    text = (Path(__file__).parent / "cases" / f"{name}.txt").read_text()
    return [read_case(block) for block in text.split("== ")[1:]]


def read_case(block: str) -> Case:
    title, *rows = block.splitlines()
    head = dict(
        row.split(": ", 1) for row in rows if row.startswith(("breaks: ", "says: ", "run: "))
    )
    run = dict(word.split("=") for word in head.get("run", "").split())
    return Case(
        name=title,
        breaks=set(head["breaks"].split()),
        says=head["says"],
        diff="\n".join(rows[len(head) :]),
        protocol=run.get("protocol", "s-rm"),
        order=run.get("order", "fifo"),
        relation=run.get("relation", "item"),
        f=int(run.get("f", 1)),
        n=int(run.get("n", 2)),
        copies=run.get("copies", "1"),
    )


LIVENESS = [*read_cases("liveness"), *read_cases("delivery")]
LAST_VIEW = read_cases("last_view")
SAFETY = ("safety", "purging", "views", "ordering", "loggers", "service")
CASES = [
    *(case for name in SAFETY for case in read_cases(name)),
    *(replace(case, complete=True) for case in (*LIVENESS, *LAST_VIEW)),
]


def transcripts(diff: str) -> tuple[str, str]:
    """The bad trace and the repaired one."""
    rows = [row.strip() for row in diff.splitlines()]
    bad = "\n".join(row.removeprefix("- ") for row in rows if not row.startswith("+ "))
    repaired = "\n".join(row.removeprefix("+ ") for row in rows if not row.startswith("- "))
    return bad, repaired


def judge(case: Case, text: str) -> Monitors:
    parameters = {"copies": case.copies}
    monitors = Monitors(case.protocol, case.order, case.relation, case.f, case.n, parameters)
    events = parse(text)
    for event in events:
        monitors.on_event(event)
    crashed = {event.pid for event in events if event.kind == CRASH}
    monitors.on_end(frozenset(range(case.n)) - crashed, case.complete)
    return monitors


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_bad_trace_is_rejected_and_the_repaired_one_accepted(case: Case) -> None:
    bad, repaired = transcripts(case.diff)
    verdict = judge(case, bad)
    assert verdict.counts.keys() == case.breaks
    assert any(case.says in violation.explanation for violation in verdict.violations)
    assert judge(case, repaired).violations == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evidence_is_taken_from_the_trace_in_order(case: Case) -> None:
    bad, _ = transcripts(case.diff)
    rows = lines(parse(bad)).splitlines()
    for violation in judge(case, bad).violations:
        assert violation.events
        places = iter(rows)
        assert all(row in places for row in lines(violation.events).splitlines())
        assert str(violation).startswith(f"{violation.property}: {violation.explanation}\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_can_be_broken_was_exercised(case: Case) -> None:
    """Frontiers are no claims: purge safety judges their steps and does not count them."""
    bad, _ = transcripts(case.diff)
    verdict = judge(case, bad)
    assert verdict.obligations.keys() == verdict.names
    for name in case.breaks - {"purge_safety"}:
        assert verdict.obligations[name] >= verdict.counts[name]


@pytest.mark.parametrize(("protocol", "order"), COMBINATIONS)
def test_nothing_is_owed_in_a_run_in_which_nothing_happens(protocol: str, order: str) -> None:
    verdict = judge(Case("", set(), "", "", protocol, order, complete=True), "")
    assert verdict.obligations == dict.fromkeys(promised(protocol, order), 0)


def test_a_subscriber_that_joined_after_everything_is_owed_nothing() -> None:
    case = Case("", set(), "", "", protocol="lbrm", order="none", n=3, complete=True)
    sent = "0 multicast 0:1\n1 append 0:1\n0 acknowledge 0:1\n"
    late = judge(case, f"{sent}2 join note=0:1")
    assert late.obligations["reliable_delivery"] == 0
    early = judge(case, f"2 join\n{sent}2 deliver 0:1")
    assert early.obligations["reliable_delivery"] == 1
    assert early.violations == late.violations == []


def test_no_promise_is_without_a_case() -> None:
    promises = frozenset().union(*(promised(p, o) for p, o in COMBINATIONS))
    assert promises == PROPERTIES
    assert frozenset().union(*(case.breaks for case in CASES)) == promises


@pytest.mark.parametrize("case", LIVENESS, ids=lambda case: case.name)
def test_liveness_of_an_unfinished_run_is_not_judged(case: Case) -> None:
    bad, _ = transcripts(case.diff)
    unfinished = judge(case, bad)  # `complete` is false here.
    assert unfinished.violations == []
    assert case.breaks <= unfinished.unjudged.keys() < unfinished.names
    finished = judge(replace(case, complete=True), bad)
    assert finished.unjudged == {}


@pytest.mark.parametrize("case", LAST_VIEW, ids=lambda case: case.name)
def test_the_last_view_of_an_unfinished_run_is_not_judged(case: Case) -> None:
    bad, _ = transcripts(case.diff)
    assert "semantic_view_synchrony" not in judge(case, bad).counts


def test_only_what_is_promised_is_judged() -> None:
    wrong_order = "0 multicast 0:1 item=7\n0 multicast 0:2 item=8\n0 deliver 0:2\n0 deliver 0:1"
    case = Case("", set(), "", "", order="item")
    assert judge(case, wrong_order).violations == []


def test_many_violations_are_counted_and_few_are_kept() -> None:
    case = Case("", set(), "", "", n=1, f=0)
    verdict = judge(case, "\n".join(f"0 deliver 0:{seq}" for seq in range(1, 101)))
    assert verdict.counts == {"integrity": 100}
    assert len(verdict.violations) == KEPT_PER_PROPERTY


FOUR = "\n".join(f"0 multicast 0:{seq}" for seq in (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("purge_safety", f"{FOUR}\n1 receive 0:1\n1 receive 0:2\n1 receive 0:1\n1 receive 0:3"),
        ("purge_safety", f"{FOUR}\n1 receive 0:3\n1 receive 0:4"),
        ("integrity", "0 multicast 0:1 payload=01\n0 multicast 0:1 payload=02\n0 deliver 0:1"),
        ("fifo_order", "0 deliver 0:2\n0 deliver 0:1\n0 deliver 0:3"),
    ],
)
def test_one_fault_is_reported_once(name: str, text: str) -> None:
    assert judge(Case("", set(), "", ""), text).counts[name] == 1


def test_a_multicast_must_carry_the_message_it_names() -> None:
    for message in (None, DataMessage(0, 2), DataMessage(1, 1)):
        monitors = Monitors("s-rm", "fifo", "item", f=0, n=2)
        monitors.on_event(Event(MULTICAST, 0, 0, 1, message))
        assert monitors.counts == {"integrity": 1}


def test_who_crashed_is_owed_nothing_whatever_the_caller_says() -> None:
    monitors = Monitors("s-sm", "fifo", "none", f=1, n=2)
    for event in parse("0 multicast 0:1\n0 deliver 0:1\n1 crash"):
        monitors.on_event(event)
    monitors.on_end(frozenset({0, 1}), complete=True)
    assert monitors.violations == []


def test_sequential_consistency_without_a_witness_is_not_judged() -> None:
    case = Case("", set(), "", "", protocol="replicated-data", order="total", complete=True)
    told = judge(case, "0 execute note=query client=7 request=1 version=1")
    assert told.counts == {"sequential_consistency": 1}
    untold = judge(case, "0 execute note=query client=7 request=1")
    assert untold.counts == {}
    assert untold.unjudged == {"sequential_consistency": NO_WITNESS}


@pytest.mark.parametrize("copies", ["0", "two", "-1"])
def test_an_impossible_number_of_copies_is_refused(copies: str) -> None:
    with pytest.raises(ConfigError, match="is not a whole number, 1 or more"):
        Monitors("lbrm", "none", "none", 0, 2, {"copies": copies})


@pytest.mark.parametrize(("f", "n"), [(-1, 2), (2, 2), (0, 0)])
def test_an_impossible_number_of_crashes_is_refused(f: int, n: int) -> None:
    with pytest.raises(ConfigError, match="not between 0 and n - 1"):
        Monitors("s-rm", "fifo", "item", f, n)
