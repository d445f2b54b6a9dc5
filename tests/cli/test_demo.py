"""A short live demonstration, and what the command makes of outcomes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semcast.cli.demo import introduction, sentence
from semcast.cli.demo_view import View
from semcast.cli.output import Output
from semcast.experiments.demo import VARIANTS, Demonstration, Look, Outcome, Series, Settings
from semcast.experiments.fleet import FleetError
from semcast.traces.parquet import read_runs

OUTCOME = Outcome(
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
SERIES = Series(fast=[1], slow=[1], staleness_ms=[1.0])
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
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    answer = json.loads(line, parse_constant=pytest.fail)
    for name in VARIANTS:
        outcome = answer[name]
        assert outcome.keys() == {field.name for field in msgspec.structs.fields(Outcome)}
        assert outcome["converged"] is True
        assert outcome["violations"] == 0
        assert {outcome["properties"][name] for name in LIVENESS} == {"pass"}
        [run] = read_runs(outcome["trace"])
        assert run.complete
        assert 0 < outcome["slow_rate"] <= outcome["fast_rate"]
        assert outcome["staleness_p50_ms"] <= outcome["staleness_p99_ms"]
    assert answer["reliable"]["purged_ratio"] == 0
    assert answer["semantic"]["purged_ratio"] > 0
    assert "every guaranteed property holds" in done.stderr
    assert "slowest: p2" in done.stderr
    assert Path(answer["figure"]).read_bytes().startswith(b"\x89PNG")
    numbers = json.loads(Path(answer["numbers"]).read_text())
    assert numbers["settings"] == answer["settings"]
    assert numbers["semantic"].items() >= answer["semantic"].items()
    assert len(numbers["reliable"]["by_second"]["fast"]) == 2


def changed(**fields: Any) -> Outcome:
    return msgspec.structs.replace(OUTCOME, **fields)


@pytest.fixture
def pretend(monkeypatch):
    """`pretend(semantic=outcome)`: runs end at once, in these or in good outcomes."""

    def replace_runs(**outcomes):
        def run(self, name, on_notice):
            on_notice("starting", None)
            return outcomes.get(name, OUTCOME), SERIES

        monkeypatch.setattr(Demonstration, "run", run)

    return replace_runs


@pytest.mark.parametrize(
    ("outcomes", "code", "told"),
    [
        ({}, 0, "every guaranteed property holds"),
        ({"semantic": changed(converged=False)}, 1, "did NOT end with the newest quote"),
        ({"semantic_item": changed(converged=False)}, 1, "NO"),
        ({"reliable": changed(converged=False)}, 0, "NO"),
        ({"reliable": changed(properties=BROKEN, violations=2)}, 1, "violated: integrity"),
        ({"semantic": changed(properties={"integrity": "not applicable"})}, 1, "yes"),
    ],
)
def test_exit_codes(outcomes, code, told, pretend, semcast, tmp_path):
    pretend(**outcomes)
    done = semcast("demo", "--out", str(tmp_path))
    assert done.code == code
    assert told in " ".join(done.out.split())
    assert "\x1b" not in done.out


def test_a_group_that_does_not_come_together(semcast, tmp_path, monkeypatch):
    def run(self, name, on_notice):
        raise FleetError("p1 ended: join: nobody is there")

    monkeypatch.setattr(Demonstration, "run", run)
    done = semcast("demo", "--out", str(tmp_path), "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == "semcast: p1 ended: join: nobody is there"


def test_the_sentence_fits_what_happened():
    def said(**fields):
        return sentence({"reliable": changed(**fields), "semantic": OUTCOME})

    assert "slowed everyone to 260 messages/s" in said(fast_rate=260.0)
    assert "still filling its buffers" in said(fast_rate=1000.0)
    assert "that member was fast enough" in said(fast_rate=1000.0, slow_rate=1000.0)
    assert "received 99%" in said()


def test_no_multicast_is_told():
    assert "its own copy" in " ".join(introduction(Settings(), "it is filtered"))
    assert "unicast" not in " ".join(introduction(Settings(), None))


LOOK = Look(
    sender_rate=500.0,
    fast_rate=480.0,
    slow_rate=250.0,
    held=398,
    skipped=1234,
    slowest="p4",
    is_blocked=True,
)


def test_on_a_terminal_everything_is_redrawn():
    frames: list[Any] = []
    view = View(Settings(), Output(False), frames.append)
    view.on_notice("reliable", "3 s of 10", LOOK)
    shown = [text.plain for text in view.picture()]
    assert "reliable  3 s of 10" in shown
    assert (
        "  slowest: p4; buffers 398 of 500 messages, skipped 1,234; the sender is blocked" in shown
    )
    [sender] = [line for line in shown if "sender  " in line]
    assert "500/s ██" in sender
    assert shown[-1] == "semantic, item"
    view.on_outcome("reliable", OUTCOME)
    assert any("990/s" in text.plain for text in view.picture())
    assert len(frames) == 2


def test_elsewhere_lines_are_added(capsys):
    view = View(Settings(), Output(False), None)
    view.on_notice("reliable", "starting 5 processes", None)
    view.on_notice("reliable", "0 s of 10", LOOK)  # too soon for another line
    view.on_notice("reliable", "catching up", None)
    view.on_outcome("reliable", OUTCOME)
    assert capsys.readouterr().out.splitlines() == [
        "reliable: starting 5 processes",
        "reliable: catching up",
    ]
