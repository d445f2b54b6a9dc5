"""Models, figures and the demonstration; help, version and start-up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from semcast import __version__
from semcast.cli import output
from semcast.experiments import demo
from semcast.experiments.figure import Curve, Figure, Panel
from semcast.terms.events import Event
from semcast.terms.messages import Message

HELP = ("", "demo", "figures", "model", "model throughput", "sim", "sim list", "sim swarm")


@pytest.mark.parametrize("words", [*HELP, "sim mutants", "sim slow-receiver"])
def test_help_has_an_example(words, semcast):
    done = semcast(*words.split(), "--help")
    assert done.code == 0
    assert f"Usage: {' '.join(['semcast', *words.split()])}" in done.out
    assert "Example:" in done.out
    assert done.err == ""


def test_no_command_is_a_question_for_help(semcast):
    assert semcast() == semcast("--help")


def test_version(semcast):
    assert semcast("--version") == (0, f"semcast {__version__}\n", "")


def test_help_imports_nothing_heavy():
    probe = (
        "import sys; from semcast.cli.main import main; main(['--help']);"
        "print(*(m for m in sys.modules if m.split('.')[0] in ('numpy', 'matplotlib', 'pyarrow',"
        " 'rich', 'pydantic') or m.startswith(('semcast.sim', 'semcast.experiments'))),"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "Usage: semcast" in done.stdout
    assert done.stderr == "\n"


def test_nobody_reads_the_output():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "semcast.cli.main", "sim", "list"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_installed_command_exits_with_the_code():
    code = "import sys; from semcast.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "sim", "bogus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("semcast: experiment: 'bogus'")


def test_model_throughput(semcast):
    argv = "model throughput --r 0.5 --d 1 --buffer 20 --sender-rate 100 --receiver-rate 25"
    answer = semcast(*argv.split(), "--json").answer
    assert answer["purge_ratio_limit"] == 0.5
    assert answer["purge_ratio"] == pytest.approx(0.5, abs=1e-5)
    assert answer["sender_rate"] == pytest.approx(50, abs=1e-3)
    assert answer["receiver_rate"] == 25
    short = semcast(*argv.split(), "--k", "1", "--json").answer
    assert short["purge_ratio"] == pytest.approx(0.25)
    assert "purge_ratio_limit  0.5" in semcast(*argv.split()).out


@pytest.fixture
def figures(monkeypatch):
    """Two figures of one short run each, in place of those that take minutes."""
    short = {"seconds": 2.0, "warmup_s": 1.0}
    curve = Curve("protocol", "slow-receiver", "r", (0.5,), "accepted_rate", short)
    panel = Panel("panel", "r", "messages/s", (curve,))
    known = {n: Figure(n, f"title of {n}", "s", (panel,)) for n in ("a", "b")}
    monkeypatch.setattr("semcast.experiments.figures.FIGURES", known)


def test_figures_are_listed(semcast, figures):
    assert "title of b" in semcast("figures", "list").out
    listed = semcast("figures", "list", "--json").answer["figures"]
    assert [row["name"] for row in listed] == ["a", "b"]


def test_figures_are_rendered(semcast, figures, tmp_path):
    done = semcast("figures", "b", "b", "--out", str(tmp_path), "--quick", "--jobs", "1", "--json")
    assert done.code == 0
    (row,) = done.answer["figures"]
    assert (row["name"], row["source"]) == ("b", "s")
    assert Path(row["png"]).read_bytes().startswith(b"\x89PNG")
    assert Path(row["csv"]).read_text().count("\n") == 2
    everything = semcast("figures", "all", "--out", str(tmp_path), "--jobs", "1", "--json")
    assert [row["name"] for row in everything.answer["figures"]] == ["a", "b"]


def test_unknown_figures_are_refused(semcast, figures):
    done = semcast("figures", "a", "z")
    assert done.code == 2
    assert done.err == "semcast: figure: 'z' is not one of all, a, b\n"


def test_demo_shows_the_contrast_and_converges(semcast, tmp_path):
    argv = ("demo", "--seconds", "3", "--members", "3", "--out", str(tmp_path))
    done = semcast(*argv, "--json")
    answer = done.answer
    assert done.code == 0
    keys = {"offered_rate", "sender_rate", "fast_rate", "slow_rate", "purged_ratio", "converged"}
    for name in ("reliable", "semantic", "semantic_item"):
        assert answer[name].keys() >= keys | {"staleness_p50_ms", "staleness_p99_ms"}
        assert answer[name]["converged"] is True
        assert answer[name]["slow_rate"] == pytest.approx(250, rel=0.02)
    assert answer["reliable"]["fast_rate"] < 500
    assert answer["semantic"]["fast_rate"] == pytest.approx(1000, rel=0.01)
    assert answer["reliable"]["purged_ratio"] == 0
    assert 0.5 < answer["semantic"]["purged_ratio"] < 0.9
    assert "the reliable protocol slowed everyone to" in " ".join(done.err.split())
    assert (tmp_path / "slow-receiver.png").read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((tmp_path / "slow-receiver.json").read_text())
    assert numbers["semantic"].items() >= answer["semantic"].items()
    assert len(numbers["reliable"]["by_second"]["fast"]) == 3


def test_a_demo_that_does_not_converge_fails(semcast, tmp_path, monkeypatch):
    monkeypatch.setattr(demo.Audience, "agrees", False)
    done = semcast("demo", "--seconds", "1", "--members", "3", "--out", str(tmp_path))
    assert done.code == 1
    assert "NOT converged" in done.out
    assert "\x1b" not in done.out


def test_staleness_is_the_age_of_what_the_slow_one_holds():
    settings = demo.Settings(seconds=1.0, members=3)
    audience = demo.Audience(settings, lambda share: None)
    hot = demo.HOT[0]

    def happen(kind, ms, pid, seq):
        message = Message(0, seq, item=hot)
        audience.on_event(Event(kind, pid, 0, seq, message, ts_ns=ms * 1_000_000))

    happen("multicast", 5, 0, 1)
    happen("deliver", 12, 2, 1)
    happen("multicast", 25, 0, 2)
    happen("deliver", 41, 2, 2)
    happen("deliver", 55, 1, 2)
    ages_ms = [ages[0] / 1e6 for ages in audience.ages_ns]
    # Nothing held, then the newest, then one of 5 ms superseded at 25 ms, then the newest.
    assert ages_ms == [10, 0, 25, 35, 0]
    assert not audience.agrees


def test_tables_and_bars():
    rows = [{"name": "a", "n": 1}, {"name": "bc", "n": 1234.5}, {"name": "d", "n": None}]
    assert output.table(rows) == ["name      n", "a         1", "bc    1,234", "d         –"]
    assert output.table([]) == []
    assert output.cell(True) == "yes"
    assert output.bar(0.5, 8) == "████"
    assert output.bar(0.3, 4) == "█▎"
    assert output.bar(2.0, 3) == "███"
