"""Whole screens, captured from a terminal of 60, 80 and 120 columns: nothing is wider, the answer
comes first, words stand for variable names, and the next command is last."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from semcast.cli.main import main
from semcast.experiments.registry import EXPERIMENTS
from semcast.experiments.wording import MODELS, PARAMETERS, RESULTS, is_detail

SHORT = ("--set", "seconds=2", "--set", "warmup_s=1")
QUICK = ("--receivers", "1", "--seconds", "0.5", "--against", "semcast-reliable,udp")
COMMANDS = {
    "doctor": ("doctor",),
    "doctor -v": ("doctor", "-v"),
    "sim list": ("sim", "list"),
    "sim slow-receiver": ("sim", "slow-receiver", *SHORT),
    "sim pubsub": ("sim", "pubsub", *SHORT),
    "sim convergence": ("sim", "convergence", "--set", "runs=200"),
    "sim swarm": ("sim", "swarm", "--protocol", "s-rm", "--seeds", "2"),
    "check": ("check", "TRACE"),
    "profile": ("profile", "TRACE", "--sender-rate", "100", "--receiver-rate", "60"),
    "profile without rates": ("profile", "TRACE"),
    "explain": ("explain", "TRACE"),
    "report": ("report", "PLACE", "--out", "PLACE/report.html"),
    "bench throughput": ("bench", "throughput", *QUICK),
    "bench latency": ("bench", "latency", *QUICK, "--rate", "500"),
    "bench slow-receiver": (
        *("bench", "slow-receiver", *QUICK),
        *("--rate", "1000", "--slow-rate", "500"),
    ),
    "figures list": ("figures", "list"),
    "figures": ("figures", "convergence", "--quick", "--out", "PLACE/figures"),
    "keys list": ("keys", "list"),
    "keys new": ("keys", "new"),
    "members --watch": ("members", "--watch"),
    "sim mutants": ("sim", "mutants", "--protocol", "vs", "--seeds", "1"),
    "model gossip": (
        *("model", "gossip", "--members", "100", "--reached", "50"),
        *("--mode", "pull", "--error", "1e-6"),
    ),
    "model throughput": (
        *("model", "throughput", "--r", "0.5", "--d", "5", "--buffer", "40"),
        *("--sender-rate", "100", "--receiver-rate", "50"),
    ),
}
FAILING = ("sim", "swarm", "--protocol", "s-rm", "--seeds", "1", "--from", "4")
BROKEN = {
    "sim swarm": (*FAILING, "--mutant", "forget-purged"),
    "check": ("check", "BROKEN"),
    "explain": ("explain", "BROKEN"),
}
WIDTHS = (60, 80, 120)
ENDLESS = {"members --watch": " on this machine"}  # Ctrl-C follows when that is on the screen.
# They run for real, and what prints them is what prints `bench slow-receiver`, at every width.
SAME_TABLE = ("bench throughput", "bench latency")
SNAKE = re.compile(r"(?<![\w=./{-])[a-z]+_[a-z_0-9]+(?![\w=./(])")


@pytest.fixture(scope="module")
def trace():
    with TemporaryDirectory() as place:
        path = Path(place) / "t"
        assert main(["sim", "slow-receiver", *SHORT, "--trace", str(path)]) == 0
        yield path


@pytest.fixture(scope="module")
def broken():
    with TemporaryDirectory() as place:
        path = Path(place) / "b"
        assert main([*BROKEN["sim swarm"], "--trace", str(path)]) == 1
        yield path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen(name, trace, screen):
    widths = WIDTHS[:1] if name in SAME_TABLE else WIDTHS
    with ThreadPoolExecutor(len(widths)) as pool:  # Most of the time goes by waiting.
        screens = list(pool.map(lambda columns: run(screen, name, columns, trace), widths))
    for columns, (code, lines) in zip(widths, screens, strict=True):
        check_screen(name, columns, code, lines)


def run(screen, name, columns, trace):
    environment = dict(os.environ)
    with TemporaryDirectory() as place:  # A long path is not broken over lines.
        words = {word: word.replace("PLACE", place) for word in COMMANDS[name]}
        words["TRACE"] = str(trace)
        for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "SEMCAST_KEYS", "XDG_RUNTIME_DIR"):
            environment[variable] = f"{place}/{variable}"
        os.mkdir(environment["XDG_RUNTIME_DIR"], mode=0o700)
        argv = [words[word] for word in COMMANDS[name]]
        return screen(argv, columns, environment, until=ENDLESS.get(name))


@pytest.mark.parametrize("name", BROKEN)
def test_a_screen_of_a_failure(name, broken, screen):
    """The answer comes first, the commands that show and replay it are there, nothing is wider."""
    argv = [str(broken) if word == "BROKEN" else word for word in BROKEN[name]]
    for columns in WIDTHS:
        code, lines = screen(argv, columns, os.environ)
        text = "\n".join(lines)
        assert (code, lines[0][:6]) == (0 if name == "explain" else 1, "FAIL  "), text
        assert max(map(len, lines)) <= columns, text
        commands = ("next: ",) if name == "explain" else ("see it: ", "replay: ")
        assert all(command in text for command in commands), text


def test_the_screens_of_keys(screen, tmp_path):
    """A secret key is on one line, however narrow the terminal is, so that it can be copied."""
    environment = {**os.environ, "SEMCAST_KEYS": str(tmp_path / "k")}
    for number, columns in enumerate(WIDTHS, 1):
        screen(("keys", "new"), columns, environment)
        code, lines = screen(("keys", "list", "--secret"), columns, environment)
        text = "\n".join(lines)
        secrets = [line for line in lines if line.startswith("semcast-key-1-")]
        assert (code, len(secrets)) == (0, number), text
        assert screen(("keys", "add", secrets[-1]), columns, environment)[0] == 0
        assert max(len(line) for line in lines if line not in secrets) <= columns, text
        assert lines[-2] == "next: semcast keys add", text


def check_screen(name, columns, code, lines):
    text = "\n".join(lines)
    assert code == 0, text
    assert max(map(len, lines)) <= columns, text
    if name.startswith("profile"):
        assert lines[0].startswith("YES  With a buffer of "), text
        assert SNAKE.findall(text) == [], text
        assert len(lines) <= 24, text
    if name.startswith(("sim", "bench")) and name != "sim list":
        assert re.match(r"ok  |Gossip brings", lines[0]), text
        assert SNAKE.findall(text) == [], text
    if "-v" not in name:
        assert any(line.startswith("next: ") for line in lines[-5:]), text


def test_an_error_fits_the_terminal_where_standard_output_is_a_file(screen):
    words = ("sim", "swarm", "--protocol", "s-rm", "--mutant", "unknown")
    for columns in WIDTHS:
        code, lines = screen(words, columns, os.environ, errors=True)
        assert code == 2
        assert lines[0].startswith("semcast: "), lines
        assert columns // 2 < max(map(len, lines)) <= columns, lines


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_parameters_and_answers_have_words(name):
    experiment = EXPERIMENTS[name]
    assert experiment.defaults.keys() <= PARAMETERS.keys()
    fields = re.findall(r"\{(\w+)\}", experiment.answer)
    assert fields
    assert set(fields) <= RESULTS.keys()


def test_results_have_words():
    settings = {"seconds": 2.0, "warmup_s": 1.0, "rounds": 20, "runs": 100}
    for name, experiment in EXPERIMENTS.items():
        if name == "replay":
            continue
        given = {key: value for key, value in settings.items() if key in experiment.defaults}
        row = experiment.run(experiment.parameters(given), 1, None)
        assert {key for key in row if not is_detail(key)} <= RESULTS.keys() | MODELS.keys(), name
