"""Models and figures; help, version and start-up."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from semcast import __version__
from semcast.cli import output
from semcast.cli.completion import STARTUP_FILES
from semcast.cli.main import app, main
from semcast.experiments.figure import Curve, Figure, Panel

HELP = ("", "demo", "figures", "model", "model throughput", "sim", "sim list", "sim swarm")


@pytest.mark.parametrize("words", [*HELP, "sim mutants", "sim slow-receiver", "sweep", "report"])
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
    assert done.stderr.startswith("semcast: experiment: unknown value 'bogus'")


def test_model_throughput(semcast):
    argv = "model throughput --r 0.5 --d 1 --buffer 20 --sender-rate 100 --receiver-rate 25"
    answer = semcast(*argv.split(), "--json").answer
    assert answer["purge_ratio_limit"] == 0.5
    assert answer["purge_ratio"] == pytest.approx(0.5, abs=1e-5)
    assert answer["sender_rate"] == pytest.approx(50, abs=1e-3)
    assert answer["receiver_rate"] == 25
    short = semcast(*argv.split(), "--k", "1", "--json").answer
    assert short["purge_ratio"] == pytest.approx(0.25)
    told = semcast(*argv.split()).out
    assert "offers 100/s gets 50.0/s through" in told
    assert "an unlimited buffer 50.0%" in told


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
    assert done.err == "semcast: figure: unknown value 'z'; allowed: a, b, all\n"


def test_tables_and_bars():
    rows = [{"name": "a", "n": 1}, {"name": "bc", "n": 1234.5}, {"name": "d", "n": None}]
    assert output.table(rows) == ["name      n", "a         1", "bc    1,234", "d         –"]
    assert output.table([]) == []
    assert output.format_value(True) == "yes"
    assert output.bar(0.5, 8) == "████"
    assert output.bar(0.3, 4) == "█▎"
    assert output.bar(2.0, 3) == "███"


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_help_of_every_command_fits_the_terminal_and_cuts_nothing(columns, semcast, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    root = get_command(app)
    for words in _commands(root, ()):
        told = semcast(*words, "-h").out
        assert max(map(len, told.splitlines())) <= int(columns), told
        assert re.search(r"\w\.\.\.$", told.partition("\n\nOptions:")[2], re.M) is None, told


def test_no_example_is_broken_at_60_columns(semcast, monkeypatch):
    def examples(words, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        _, word, text = semcast(*words, "-h").out.rpartition("\n  Example")
        assert word, words
        return text

    for words in _commands(get_command(app), ()):
        assert examples(words, 60) == examples(words, 200), words


def _commands(command, words):
    """Every command, those of the experiments, too."""
    yield words
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _commands(command.get_command(None, name), (*words, name))


def test_every_command_stands_under_a_heading(semcast):
    told = semcast("-h").out
    assert "\nTry:\n  demo " in told
    assert "\nMore:" not in told


def test_python_runs_the_package():
    command = [sys.executable, "-m", "semcast", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"semcast {__version__}\n")


@pytest.mark.parametrize(("word", "meant"), [("topp", "top"), ("swarm", "sim swarm")])
def test_a_misspelt_command_gets_a_suggestion(word, meant, semcast):
    done = semcast(word)
    assert done.code == 2
    assert done.err == f"semcast: unknown command {word!r}; did you mean 'semcast {meant}'?\n"


def test_a_shell_gets_completions(semcast, monkeypatch):
    assert "complete_bash" in semcast("completion", "bash").out
    assert "shell: unknown value 'tcsh'" in semcast("completion", "tcsh").err
    for words, found in (("semcast mem", "members"), ("semcast top --sec", "--seconds")):
        monkeypatch.setenv("_SEMCAST_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        assert semcast() == (0, f"{found}\n", "")


@pytest.mark.parametrize("shell", STARTUP_FILES)
def test_a_person_who_looks_at_the_script_learns_where_it_goes(shell, terminal):
    shown = terminal()
    assert main(["completion", shell]) == 0
    last = " ".join(shown.getvalue().splitlines()[-2:])
    assert " ".join(last.split()).endswith(
        f"next: semcast completion {shell} >> {STARTUP_FILES[shell]}"
    )


def test_a_table_is_never_wider_than_the_terminal():
    rows = [{"name": "a", "about": "many words that need a line of their own", "n": 1_000}]
    assert output.table(rows, 40) == [
        "name  about                            n",
        "a     many words that need a line  1,000",
        "      of their own",
    ]
    blocks = output.table(rows, 20)
    assert blocks[0] == "name   a"
    assert output.fit("  one two three", 10) == ["  one two", "    three"]
    assert output.fit("\x1b[31mone two three\x1b[0m", 13) == ["\x1b[31mone two three\x1b[0m"]


def test_sparklines_and_times():
    assert output.sparkline([0, 1, 2, 3], 3) == "▃▆█"
    assert output.sparkline([0, 0], 8) == "▁▁"
    assert output.sparkline([5, 10], 8, top=10) == "▅█"
    assert [output.clock(seconds) for seconds in (4.4, 65, 3_661)] == ["0:04", "1:05", "1:01:01"]


@pytest.mark.parametrize("group", ["", "keys", "store", "bench", "sim", "model", "lake"])
def test_summaries_of_commands_are_sentences(group, semcast):
    shown = re.sub(r"\n {6,}", " ", semcast(*group.split(), "--help").out)  # each on one line
    summaries = re.findall(r"^  [a-z][a-z-]* {2,}(\S.*)$", shown, flags=re.MULTILINE)
    assert len(summaries) >= 2
    for summary in summaries:
        assert summary[0].isupper() and summary[-1] in ".?", summary  # noqa: PT018


def test_defaults_of_group_options_can_be_typed(semcast):
    shown = " ".join(semcast("join", "--help").out.split())
    assert "also deliver this member's own messages; default: yes" in shown
    assert "default: True" not in shown
