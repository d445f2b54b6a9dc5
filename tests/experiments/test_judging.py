"""Recorded executions are judged as the simulator's monitors judged them while they happened."""

from dataclasses import replace
from pathlib import Path

import pytest

from semcast.core.recipe import Recipe
from semcast.experiments.judging import FAIL, NOT_APPLICABLE, PASS, Verdict, judge, judge_trace
from semcast.sim.case import Case, run
from semcast.sim.mutants import MUTANTS, mutated
from semcast.sim.scenarios import SCENARIOS
from semcast.sim.swarm import draw
from semcast.terms.events import CRASH, DRAINED, LEAVE, Event
from semcast.terms.promises import PROPERTIES, promised
from semcast.traces.journal import Journal
from semcast.traces.journal_file import Header
from semcast.traces.parquet import read_trace
from semcast.traces.schema import Run
from semcast.traces.settling import write_run

SKEWS_NS = (0, -7_000_000_000, 3_000_000_000, 90_000_000, -500_000, 1_000_000_000)

# Journals are those of live groups, and there are no live loggers to keep one.
JOURNALLED = [name for name, mutant in MUTANTS.items() if mutant.scenario in SCENARIOS]

# Each lets a process forget what too few have, and then the others get it after all.  That it was
# wrong is seen only by who knows what happened at the same time elsewhere.
SEEN_ONLY_BY_CLOCKS = {"purge-before-safe", "sent-counts-as-held", "f-votes-suffice"}


def header(recipe: Recipe, pid: int) -> Header:
    return Header(
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


def record(case: Case, path: Path, skews_ns: tuple[int, ...]) -> set[str]:
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
    told = Run(
        name="judged",
        protocol=recipe.protocol,
        order=recipe.order,
        relation=recipe.relation,
        f=recipe.f,
        seed=case.seed,
    )
    write_run(path, told, heads[0].names, complete=True, crashes=crashes)
    return {violation.partition(":")[0] for violation in outcome.violations} & PROPERTIES


def failed(verdict: Verdict) -> set[str]:
    return {name for name, found in verdict.properties.items() if found.status == FAIL}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_sound_group_passes_by_any_clocks(tmp_path: Path, name: str) -> None:
    case = SCENARIOS[name]
    assert not record(case, tmp_path / "exact", (0,) * 6)
    record(case, tmp_path / "skewed", SKEWS_NS)
    names = promised(case.recipe.protocol, case.recipe.order)
    for verdict in (judge(tmp_path / "exact", skew_s=0.0), judge(tmp_path / "skewed")):
        assert {n for n, found in verdict.properties.items() if found.status == PASS} == names
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


def test_a_failure_tells_what_happened(tmp_path: Path) -> None:
    with mutated("deliver-twice"):
        record(SCENARIOS["duplicates"], tmp_path, SKEWS_NS)
    found = judge(tmp_path, examples=2).properties["at_most_once"]
    assert found.violations > 2
    assert "delivered" in found.reason
    assert len(found.examples) == 2
    assert found.examples[0].startswith(f"at_most_once: {found.reason}\n")


def test_what_is_not_promised_or_not_judged_has_not_passed(tmp_path: Path) -> None:
    record(SCENARIOS["lost-tail"], tmp_path, SKEWS_NS)
    trace = read_trace(tmp_path)
    found = judge_trace(trace).properties
    assert found["causal_order"].status == NOT_APPLICABLE
    assert found["causal_order"].reason == "s-rm with order fifo does not promise it"
    hasty = judge_trace(replace(trace, run=replace(trace.run, complete=False)))
    assert hasty.properties["agreement"].status == NOT_APPLICABLE
    assert hasty.properties["agreement"].reason == "the run was not left to fall quiet"
    assert hasty.properties["fifo_order"].status == PASS


def test_a_process_whose_record_is_elsewhere(tmp_path: Path) -> None:
    recipe = Recipe(members=3)
    for pid in (0, 2):
        Journal(tmp_path, header(recipe, pid)).close()
    verdict = judge(tmp_path)
    assert {found.status for found in verdict.properties.values()} == {NOT_APPLICABLE}
    assert verdict.properties["integrity"].reason == "the trace has no record of process 1 of 3"
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
