"""A short live demonstration, and what the command makes of outcomes."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from semcast.cli.demo import no_multicast, sentence, verdict
from semcast.cli.demo_view import DemoView
from semcast.cli.output import Output
from semcast.experiments.demo import (
    VARIANTS,
    DemoOutcome,
    DemoRunner,
    DemoSample,
    DemoSeries,
    DemoSettings,
)
from semcast.fleet.processes import FleetError
from semcast.traces.parquet import read_runs

OUTCOME = DemoOutcome(
    offered_rate=1000.0,
    sender_rate=1000.0,
    fast_rate=990.0,
    slow_rate=250.0,
    purged_ratio=0.75,
    staleness_p50_ms=10.0,
    staleness_p99_ms=20.0,
    converged=True,
    violations=0,
    properties={"integrity": "pass", "causal_order": "not applicable"},
    events=7,
    trace="trace",
)
BROKEN = {"integrity": "fail", "item_order": "pass"}
SERIES = DemoSeries(fast=[1], slow=[1], staleness_ms=[1.0])
LIVENESS = ("validity", "agreement")


def test_a_live_demonstration(tmp_path):
    """Reliable beside semantic between real processes; the numbers are the machine's affair."""
    argv = ("demo", "--seconds", "2", "--members", "3", "--out", str(tmp_path / "out"), "--json")
    places = {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "semcast.cli.main", *argv],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    answer = json.loads(line, parse_constant=pytest.fail)
    for name in VARIANTS:
        outcome = answer[name]
        assert outcome.keys() == {field.name for field in msgspec.structs.fields(DemoOutcome)}
        assert outcome["converged"] is True
        assert outcome["violations"] == 0
        assert {outcome["properties"][name] for name in LIVENESS} == {"pass"}
        [run] = read_runs(outcome["trace"])
        assert run.complete
        assert 0 < outcome["slow_rate"] <= outcome["fast_rate"]
        assert outcome["staleness_p50_ms"] <= outcome["staleness_p99_ms"]
    assert answer["reliable"]["purged_ratio"] == 0
    assert answer["semantic"]["purged_ratio"] > 0
    assert "guarantees hold" in done.stderr
    assert "blocked for" not in done.stderr, "members write nothing over the screen"
    assert "next: semcast explain" in done.stderr
    assert Path(answer["figure"]).read_bytes().startswith(b"\x89PNG")
    numbers = json.loads(Path(answer["numbers"]).read_text())
    assert numbers["settings"] == answer["settings"]
    assert numbers["semantic"].items() >= answer["semantic"].items()
    assert len(numbers["reliable"]["by_second"]["fast"]) == 2


def changed(**fields: Any) -> DemoOutcome:
    return msgspec.structs.replace(OUTCOME, **fields)


@pytest.fixture
def pretend(monkeypatch):
    """`pretend(semantic=outcome)`: runs end at once, in these or in good outcomes."""

    def replace_runs(**outcomes):
        def run_all(self, on_progress, on_measured):
            runs = {name: (outcomes.get(name, OUTCOME), SERIES) for name in VARIANTS}
            for name, measured in runs.items():
                on_progress(name, "starting", None)
                on_measured(name, measured)
            return runs

        monkeypatch.setattr(DemoRunner, "run_all", run_all)

    return replace_runs


@pytest.mark.parametrize(
    ("outcomes", "code", "told"),
    [
        ({}, 0, "[ok] 14 recorded events checked: 1 guarantees hold"),
        ({"semantic": changed(converged=False)}, 1, "does NOT end with the newest"),
        ({"reliable": changed(converged=False)}, 0, "NOT all members ended"),
        ({"reliable": changed(properties=BROKEN, violations=2)}, 1, "violated: integrity"),
        ({"semantic": changed(properties={"integrity": "not applicable"})}, 1, "[ok]"),
    ],
)
def test_exit_codes(outcomes, code, told, pretend, semcast, tmp_path):
    pretend(**outcomes)
    done = semcast("demo", "--out", str(tmp_path))
    assert done.code == code
    assert told in " ".join(done.out.split())
    assert "\x1b" not in done.out
    assert "\nnext: semcast explain trace" in done.out


def test_a_group_that_does_not_come_together(semcast, tmp_path, monkeypatch):
    def run(self, name, on_notice, on_joined):
        raise FleetError("p1 ended: join: nobody is there")

    monkeypatch.setattr(DemoRunner, "run", run)  # in the process of each run, too
    done = semcast("demo", "--out", str(tmp_path), "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == "semcast: p1 ended: join: nobody is there"


def test_a_run_that_dies_is_an_error(semcast, tmp_path, monkeypatch):
    monkeypatch.setattr(DemoRunner, "run", lambda *_: os._exit(9))
    done = semcast("demo", "--out", str(tmp_path))
    assert done.code == 2
    assert "run ended without a result" in done.err


def test_the_sentence_fits_what_happened():
    def said(**fields):
        return sentence({"reliable": changed(**fields), "semantic": OUTCOME}, DemoSettings())

    assert "slows everyone to 260/s" in said(fast_rate=260.0)
    assert "still filling its buffers" in said(fast_rate=1000.0)
    assert "because p4 is fast enough" in said(fast_rate=1000.0, slow_rate=1000.0)
    assert "the others get 990/s" in said()
    assert "0.0 s old instead of 4.1 s" in said(staleness_p50_ms=4_100.0)


def test_nothing_checked_is_not_a_pass():
    nothing = changed(properties={"integrity": "not applicable"})
    lines = verdict({"reliable": nothing, "semantic": nothing}, DemoSettings())
    assert lines[0].startswith("[FAIL]")


def test_no_multicast_is_reported():
    assert "its own copy" in no_multicast("it is filtered")


LOOK = DemoSample(
    sender_rate=500.0,
    fast_rate=480.0,
    slow_rate=250.0,
    held=498,
    skipped=1234,
    slowest="p4",
    is_blocked=True,
    age_s=4.1,
)


def lines_of(view, columns):
    console = Console(width=columns, file=StringIO())
    with console.capture() as capture:
        console.print(*view.render(), sep="\n")
    return capture.get().splitlines()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_both_runs_stand_side_by_side(columns, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    frames: list[Any] = []
    view = DemoView(DemoSettings(), Output(False), lambda: frames.append(view.render()))
    view.on_progress("reliable", "3 s of 10", LOOK)
    view.on_progress("semantic", "3 s of 10", LOOK._replace(sender_rate=1000.0, age_s=0.4))
    lines = lines_of(view, columns)
    assert len(lines) <= 12  # The verdict must fit below, on 24 lines.
    assert max(map(len, lines)) < columns
    about = "" if columns == 60 else "about "
    assert re.search(rf" 0:\d\d of {about}0:16$", lines[0])
    found = {line.split()[0]: " ".join(line.split()) for line in lines if line.strip()}
    assert found["RELIABLE"] == "RELIABLE SEMANTIC"
    assert "500/s █" in found["sender"]
    assert "1,000/s █" in found["sender"]
    history = ("█ ", " ▂") if columns >= 80 else ("", "")
    assert found["age"] == f"age at p4 4.1 s !! old {history[0]}0.4 s old{history[1]}"
    assert "keeps every quote" in "".join(lines)
    assert "skips replaced quotes" in "".join(lines)
    assert found["buffer"].startswith("buffer of p4 498 of 500 full")
    view.on_outcome("reliable", OUTCOME)
    assert any("990/s" in line for line in lines_of(view, columns))
    assert len(frames) == 2  # The second state came too soon after the first.


def test_elsewhere_lines_are_added(capsys):
    view = DemoView(DemoSettings(), Output(False), None)
    view.on_progress("reliable", "starting 5 processes", None)
    view.on_progress("reliable", "0 s of 10", LOOK)  # too soon for another line
    view.on_progress("reliable", "catching up", None)
    view.on_outcome("reliable", OUTCOME)
    assert capsys.readouterr().out.splitlines() == [
        "reliable: starting 5 processes",
        "reliable: catching up",
    ]
