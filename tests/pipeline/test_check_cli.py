"""`semcast check` as people and programs meet it."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from semcast.fleet import trace_verdict as judging
from semcast.pipeline.check import verdict
from semcast.sim.swarm_trace import recorded_swarm
from semcast.specs.verdict import FAIL, CheckVerdict, PropertyResult
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.messages import DataMessage

FIRST, SECOND = DataMessage(0, 1, payload=b"x"), DataMessage(0, 2, payload=b"y")
SENT = [
    Event(MULTICAST, 0, 0, 1, FIRST, n=1, ts_ns=10),
    Event(MULTICAST, 0, 0, 2, SECOND, n=2, ts_ns=20),
    Event(DELIVER, 0, 0, 1, FIRST, n=3, ts_ns=30),
    Event(DELIVER, 0, 0, 2, SECOND, n=4, ts_ns=40),
]
PROPERTY = ("--property", "fifo_order", "--property", "agreement", "--property", "causal_order")


@pytest.fixture(params=["here", "tasks", "queries"])
def way(request, monkeypatch):
    """In this process, as for every small trace, or on Spark, if it is asked for: by the monitors
    in tasks, or by queries, as for large traces."""
    if request.param == "queries":
        monkeypatch.setattr(verdict, "TASK_EVENTS_MAX", 0)
    return () if request.param == "here" else ("--master", "local[2]")


def test_a_broken_promise_is_told_with_the_events_that_prove_it(
    semcast, record, tmp_path, way
) -> None:
    late = [
        *SENT,
        Event(DELIVER, 1, 0, 2, SECOND, n=1, ts_ns=50),
        Event(DELIVER, 1, 0, 1, FIRST, n=2, ts_ns=1_000_060),
    ]
    done = semcast("check", record(tmp_path / "trace", late), *PROPERTY, *way, "--json")
    assert done.code == 1
    answer = done.answer
    assert answer["verdict"] == "fail"
    assert answer["events"] == 6
    found = answer["properties"]["fifo_order"]
    assert (found["status"], found["violations"]) == ("fail", 1)
    assert found["reason"] == "process 1 delivered 0:1 after 0:2"
    [example] = found["examples"]
    assert [(event["pid"], event["seq"], event["n"]) for event in example["events"]] == [
        (1, 2, 1),
        (1, 1, 2),
    ]
    assert answer["properties"]["agreement"]["status"] == "pass"
    assert answer["properties"]["causal_order"] == {
        "status": "not applicable",
        "reason": "s-rm with order fifo does not guarantee it",
        "violations": 0,
        "obligations": 0,
        "examples": [],
        "runs": 0,
        "broken_runs": 0,
    }
    broken = done.answer["properties"]["fifo_order"]
    assert (broken["violations"], broken["runs"], broken["broken_runs"]) == (1, 1, 1)
    lines = done.err.splitlines()
    assert lines[0].startswith("FAIL  1 of 2 guarantees broken (6 events, ")
    assert "fifo_order  1 violation" in lines
    assert "  run 1: process 1 delivered 0:1 after 0:2" in done.err
    assert "    b         1.00 ms  deliver a:1  <- first event that differs" in lines
    assert "of one sender out of order (SRM §4.2)" in " ".join(done.err.split())
    assert f"  see it:  semcast explain {tmp_path / 'trace'} --run 1 --around 1:2" in lines


def test_what_nothing_could_have_broken_has_not_passed(semcast, record, tmp_path, way) -> None:
    trace = record(tmp_path / "trace", SENT)
    asked = ("--property", "purge_safety", "--property", "at_most_once")
    done = semcast("check", trace, *asked, *way, "--json")
    assert done.code == 0
    found = done.answer["properties"]
    assert (found["at_most_once"]["status"], found["at_most_once"]["obligations"]) == ("pass", 2)
    assert found["purge_safety"]["status"] == "not exercised"
    assert found["purge_safety"]["obligations"] == 0
    assert found["purge_safety"]["reason"] == "no event that it judges was recorded"
    assert "not exercised: 1 (-v: which, and why)" in done.err
    assert "ok: at_most_once" in done.err


def test_clocks_are_believed_as_far_as_one_says(semcast, record, tmp_path, way) -> None:
    early = [Event(DELIVER, 1, 0, 1, FIRST, n=1, ts_ns=1), *SENT]
    trace = record(tmp_path / "trace", early)
    assert semcast("check", trace, "--property", "integrity", *way).code == 0
    done = semcast("check", trace, "--property", "integrity", "--skew-ms", "0", *way)
    assert done.code == 1
    assert "process 1 delivered 0:1, which no process had multicast" in done.out


def test_bad_input_is_refused_before_spark_starts(semcast, record, tmp_path) -> None:
    done = semcast("check", tmp_path)
    assert done.code == 2
    assert "not a trace" in done.err
    for command in ("check", "explain", "profile"):
        done = semcast(command, tmp_path / "nothere")
        assert (done.code, done.err) == (2, f"semcast: {tmp_path}/nothere: no such directory\n")
    done = semcast("check", record(tmp_path / "trace"), "--property", "fifo")
    assert done.code == 2
    assert "property: unknown value 'fifo'; allowed: acknowledged_survives, agreement" in done.err


def test_a_process_that_is_not_listed_is_told_in_one_line(semcast, record, tmp_path, way) -> None:
    stranger = [*SENT, Event(DELIVER, 7, 0, 1, FIRST, n=1, ts_ns=50)]
    trace = record(tmp_path / "trace", stranger)
    done = semcast("check", trace, "--property", "fifo_order", *way)
    assert done.code == 2
    assert "processes.parquet: run 1 has events of process 7, not listed\n" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("protocol", ["s-rm", "s-vsm", "rpbcast"])
def test_all_ways_answer_alike(semcast, tmp_path, protocol, monkeypatch) -> None:
    with recorded_swarm(tmp_path / "trace", protocol) as recorder:
        for seed in range(4):
            recorder.run(seed)
    here = semcast("check", tmp_path / "trace", "--json").answer
    on_spark = semcast("check", tmp_path / "trace", "--master", "local[2]", "--json").answer
    assert here == on_spark
    monkeypatch.setattr(verdict, "TASK_EVENTS_MAX", 0)
    on_spark = semcast("check", tmp_path / "trace", "--master", "local[2]", "--json").answer
    for found in (*here["properties"].values(), *on_spark["properties"].values()):
        if found["status"] == "pass":
            del found["reason"], found["runs"]  # Spark counts each lineage as a run.
            assert found.pop("obligations") > 0  # Queries count the events that they judge.
    assert here == on_spark
    assert Counter(found["status"] for found in here["properties"].values())["pass"] > 5


def test_a_small_trace_needs_no_spark(record, tmp_path) -> None:
    """Not even its import."""
    command = (
        "import sys; from semcast.cli.main import main; code = main(sys.argv[1:]);"
        "assert 'pyspark' not in sys.modules; sys.exit(code)"
    )
    trace = record(tmp_path / "trace")
    words = [sys.executable, "-c", command, "check", str(trace), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "fail"


def test_a_large_trace_is_for_spark(semcast, record, tmp_path, monkeypatch) -> None:
    asked = []
    found = CheckVerdict(6, {"fifo_order": PropertyResult(FAIL)})
    monkeypatch.setattr(verdict, "check", lambda trace, names: asked.append(names) or found)
    trace = record(tmp_path / "trace")
    assert semcast("check", trace, "--property", "fifo_order").code == 0
    assert not asked
    monkeypatch.setattr(judging, "EVENTS_MAX", 5)
    assert semcast("check", trace, "--property", "fifo_order").code == 1
    assert asked == [["fifo_order"]]


def test_both_sides_of_a_violation_are_shown(semcast, tmp_path) -> None:
    """The process that lacks the message, its requests, the rule, and the line that replays it."""
    with recorded_swarm(tmp_path / "trace", "s-rm", "forget-purged") as recorder:
        recorder.run(4)
    done = semcast("check", tmp_path / "trace")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("FAIL  2 of 9 guarantees broken")
    [lacking] = [line for line in lines if "lacks it: its last is p1:" in line]
    assert lacking.startswith("    p0 ")
    assert any(line.startswith("    p0 ") and "requests " in line for line in lines)
    assert any("no answer has it" in line for line in lines)
    [first] = [line for line in lines if line.endswith("<- first event that differs")]
    assert first.startswith("    p1 ")
    assert any("(SRM §4.2)" in line for line in lines)
    replay = "semcast sim swarm --protocol s-rm --seeds 1 --from 4 --mutant forget-purged"
    assert f"  replay:  {replay}" in lines
    [see] = [line for line in lines if line.startswith("  see it:  semcast ")]
    command = see.removeprefix("  see it:  semcast ").split()
    assert semcast(*command, "--out", tmp_path / "page.html").code == 0


def test_a_screen_has_room_for_one_process_of_each_side(semcast, tmp_path) -> None:
    with recorded_swarm(tmp_path / "trace", "s-rm", "forget-purged") as recorder:
        recorder.run(3)
    done = semcast("check", tmp_path / "trace")
    assert {line.split()[0] for line in done.out.splitlines() if " ms  " in line} == {"p0", "p1"}
    assert "more, also of p2, p3, p4 (-v: all)\n" in done.out
    assert "    p2 " in semcast("check", tmp_path / "trace", "-v").out


def test_a_violation_is_told_with_the_number_of_runs(semcast, tmp_path, way) -> None:
    with recorded_swarm(tmp_path / "trace", "s-rm", "forget-purged") as recorder:
        broken = sum(recorder.run(seed).count > 0 for seed in range(1, 5))
    assert 0 < broken < 4
    done = semcast("check", tmp_path / "trace", *way)
    [line] = [line for line in done.out.splitlines() if line.startswith("agreement ")]
    assert line.endswith(f" violations in {broken} of 4 runs")


def test_the_output_fits_any_terminal(semcast, tmp_path, monkeypatch) -> None:
    with recorded_swarm(tmp_path / "t", "s-rm", "forget-purged") as recorder:
        recorder.run(4)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    for columns in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = semcast("check", "t").out.splitlines()
        assert max(map(len, lines)) <= columns, lines
        assert len(lines) > 10
        assert len(lines) <= 24 or columns < 80, lines
