"""Recorded executions are judged as the simulator's monitors judged them while they happened."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from semcast.core.recipe import Recipe
from semcast.families.case import AnyCase
from semcast.families.fixed.mutants import MUTANTS
from semcast.families.fixed.scenarios import SCENARIOS
from semcast.fleet.trace_verdict import judge, judge_trace
from semcast.sim.run import run
from semcast.sim.swarm import draw, mutated
from semcast.sim.swarm_trace import recorded_swarm
from semcast.specs.verdict import FAIL, NOT_APPLICABLE, NOT_EXERCISED, PASS, CheckVerdict
from semcast.terms.events import CRASH, DELIVER, DRAINED, LEAVE, MULTICAST, STABLE, Event
from semcast.terms.messages import DataMessage
from semcast.terms.promises import PROPERTIES, promised
from semcast.traces.journal import Journal
from semcast.traces.journal_conversion import write_run
from semcast.traces.journal_file import JournalHeader
from semcast.traces.parquet import read_trace
from semcast.traces.schema import RunInfo

SKEWS_NS = (0, -7_000_000_000, 3_000_000_000, 90_000_000, -500_000, 1_000_000_000)

# Journals are those of live groups, and there are no live loggers to keep one.
JOURNALLED = [name for name, mutant in MUTANTS.items() if mutant.scenario in SCENARIOS]

# Each lets a process forget what too few have, and then the others get it after all.  That it was
# wrong is seen only by who knows what happened at the same time elsewhere.
SEEN_ONLY_BY_CLOCKS = {"purge-before-safe", "sent-counts-as-held", "f-votes-suffice"}


def header(recipe: Recipe, pid: int) -> JournalHeader:
    return JournalHeader(
        run_id=1,
        pid=pid,
        names=tuple(f"p{rank}" for rank in range(recipe.members)),
        incarnations=(1,) * recipe.members,
        group="judged",
        protocol=recipe.protocol,
        order=recipe.order,
        relation=recipe.relation,
        f=recipe.f,
    )


def record(case: AnyCase, path: Path, skews_ns: tuple[int, ...]) -> set[str]:
    """Run a case with a journal at each process; what the simulator's monitors found."""
    recipe = case.recipe
    heads = [header(recipe, pid) for pid in range(recipe.members)]
    journals = [Journal(path, head, extent=1 << 16) for head in heads]
    crashes: dict[int, int] = {}

    def observe(event: Event) -> None:
        ts_ns = event.ts_ns + skews_ns[event.pid]
        if event.kind == CRASH:
            crashes[event.pid] = ts_ns
        else:
            journals[event.pid].record([event], ts_ns)

    outcome = run(case, observe)
    for journal in journals:
        journal.close()
    told = RunInfo(
        name="judged",
        protocol=recipe.protocol,
        order=recipe.order,
        relation=recipe.relation,
        f=recipe.f,
        seed=case.seed,
    )
    write_run(path, told, heads[0].names, complete=True, crashes=crashes)
    return {violation.partition(":")[0] for violation in outcome.violations} & PROPERTIES


# The only sender crashes, so nobody owes what it multicast.
SENDERLESS = ("purge-crash", "sender-crash")
OF_SENDERS = {"validity", "sender_reliability"}


def failed(verdict: CheckVerdict) -> set[str]:
    return {name for name, found in verdict.properties.items() if found.status == FAIL}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_sound_group_passes_by_any_clocks(tmp_path: Path, name: str) -> None:
    case = SCENARIOS[name]
    assert not record(case, tmp_path / "exact", (0,) * 6)
    record(case, tmp_path / "skewed", SKEWS_NS)
    names = promised(case.recipe.protocol, case.recipe.order)
    for verdict in (judge(tmp_path / "exact", skew_s=0.0), judge(tmp_path / "skewed")):
        idle = {n for n, found in verdict.properties.items() if found.status == NOT_EXERCISED}
        assert {
            n for n, found in verdict.properties.items() if found.status == PASS
        } == names - idle
        assert idle == (OF_SENDERS if name in SENDERLESS else set())
        assert verdict.passed
        assert verdict.events > 50


@pytest.mark.parametrize("name", JOURNALLED)
def test_a_broken_one_fails_by_the_same_properties(tmp_path: Path, name: str) -> None:
    with mutated(name):
        expected = record(SCENARIOS[MUTANTS[name].scenario], tmp_path, (0,) * 6)
    verdict = judge(tmp_path, skew_s=0.0)
    assert failed(verdict) == expected
    assert expected
    assert not verdict.passed


@pytest.mark.parametrize("name", JOURNALLED)
def test_what_can_be_told_without_clocks(tmp_path: Path, name: str) -> None:
    with mutated(name):
        expected = record(SCENARIOS[MUTANTS[name].scenario], tmp_path, SKEWS_NS)
    assert failed(judge(tmp_path)) == (set() if name in SEEN_ONLY_BY_CLOCKS else expected)


def test_clocks_that_differ_by_less_than_was_said(tmp_path: Path) -> None:
    """Where they are off by more, claims seem to come too early."""
    record(SCENARIOS["slow-member"], tmp_path, SKEWS_NS)
    assert judge(tmp_path, skew_s=10.0).passed
    assert failed(judge(tmp_path, skew_s=0.001)) >= {"purge_safety"}


@pytest.mark.parametrize("seed", range(1, 16, 2))
@pytest.mark.parametrize("protocol", ["s-rm", "s-sm", "causal"])
def test_seeds_of_the_swarm(tmp_path: Path, protocol: str, seed: int) -> None:
    """Odd ones crash members inside handlers."""
    record(draw(protocol, seed), tmp_path, SKEWS_NS)
    verdict = judge(tmp_path)
    assert verdict.passed, verdict.properties


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("protocol", ["s-vsm", "vs", "total", "rpbcast", "lbrm"])
def test_processes_that_come_and_go_pass_by_any_clocks(
    tmp_path: Path, protocol: str, seed: int
) -> None:
    """A claim about other processes waits for the events that it speaks of."""
    with recorded_swarm(tmp_path, protocol) as recorder:
        assert not recorder.run(seed).violations
    for file in tmp_path.glob("events/*/*.parquet"):
        table = pq.ParquetFile(file).read()
        skews = [SKEWS_NS[pid % len(SKEWS_NS)] for pid in table["pid"].to_pylist()]
        times = pc.add(table["ts_ns"], pa.array(skews, pa.int64()))
        column = table.schema.get_field_index("ts_ns")
        pq.write_table(table.set_column(column, "ts_ns", times), file)
    verdict = judge(tmp_path, skew_s=inf)
    assert verdict.passed, {n: r for n, r in verdict.properties.items() if r.status == FAIL}


def test_a_property_without_events_is_not_exercised(tmp_path: Path) -> None:
    with Journal(tmp_path, header(Recipe(members=1), 0)) as journal:
        message = DataMessage(0, 1, payload=b"x")
        sent = Event(MULTICAST, 0, 0, 1, message)
        journal.record([sent, Event(DELIVER, 0, 0, 1, message)], 1)
    verdict = judge(tmp_path)
    found = verdict.properties
    assert (found["at_most_once"].status, found["at_most_once"].obligations) == (PASS, 1)
    assert (found["integrity"].status, found["integrity"].obligations) == (PASS, 2)
    for name in ("purge_safety", "fifo_order", "item_order"):
        assert (found[name].status, found[name].obligations) == (NOT_EXERCISED, 0)
    assert found["fifo_order"].reason == "no process delivered two messages of a sender"
    assert verdict.passed


def test_a_failure_tells_what_happened(tmp_path: Path) -> None:
    with mutated("deliver-twice"):
        record(SCENARIOS["duplicates"], tmp_path, SKEWS_NS)
    found = judge(tmp_path).properties["at_most_once"]
    assert found.violations > 3
    assert "delivered" in found.reason
    assert len(found.examples) == 3
    assert found.examples[0].what == found.reason
    assert [event["kind"] for event in found.examples[0].events] == [DELIVER, DELIVER]


def test_what_is_not_promised_or_not_judged_has_not_passed(tmp_path: Path) -> None:
    record(SCENARIOS["lost-tail"], tmp_path, SKEWS_NS)
    trace = read_trace(tmp_path)
    found = judge_trace(trace).properties
    assert found["causal_order"].status == NOT_APPLICABLE
    assert found["causal_order"].reason == "s-rm with order fifo does not guarantee it"
    hasty = judge_trace(replace(trace, run=replace(trace.run, complete=False)))
    assert hasty.properties["agreement"].status == NOT_APPLICABLE
    assert (
        hasty.properties["agreement"].reason
        == "the run is not complete: it was stopped before it became quiet"
    )
    assert hasty.properties["fifo_order"].status == PASS


def test_a_process_whose_record_is_elsewhere(tmp_path: Path) -> None:
    recipe = Recipe(members=3)
    for pid in (0, 2):
        with Journal(tmp_path, header(recipe, pid)) as journal:
            journal.record([Event(STABLE, pid, 0, 1)], 1)
    verdict = judge(tmp_path)
    assert {found.status for found in verdict.properties.values()} == {NOT_APPLICABLE}
    assert verdict.properties["integrity"].reason == "the trace has no record of process 1"
    assert not verdict.passed


@pytest.mark.parametrize(
    ("note", "after_s", "is_judged"), [(DRAINED, 1, True), (DRAINED, -100, False), ("", 1, False)]
)
def test_who_left_drained_after_the_last_multicast_was_owed_everything(
    tmp_path: Path, note: str, after_s: int, is_judged: bool
) -> None:
    """A group that ends in good order is judged to its end; who had gone before is owed nothing."""
    with mutated("tail-loss-undetected"):
        record(SCENARIOS["lost-tail"], tmp_path, (0,) * 6)
    trace = read_trace(tmp_path)
    last = max(event.ts_ns for event in trace.events)
    n = len(trace.processes)
    leaves = [
        Event(LEAVE, pid, peer=peer, note=note, ts_ns=last + after_s * 10**9)
        for peer in range(n)
        for pid in range(peer + 1, n)
    ]
    events = trace.events + leaves if after_s > 0 else leaves + trace.events
    verdict = judge_trace(replace(trace, events=events))
    assert ("agreement" in failed(verdict)) == is_judged
